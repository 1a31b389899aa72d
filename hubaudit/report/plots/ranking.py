"""The plot of rank correlations: which figure orders the variants as their risk gaps do."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hubaudit.report.plots.style import BLUE, MUTED, ORANGE, figure, label, style
from hubaudit.report.schema import Report
from hubaudit.stats.ranking import PooledRanking, Ranking

__all__ = ["has_ranking", "ranking_plot"]


def has_ranking(report: Report) -> bool:
    """Whether any correlation across the variants is defined."""
    return any(value is not None for block in report.ranking.values() for value in block.spearman.values())


def ranking_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Spearman's correlation of each predictor with |risk gap|: a dot a task, a diamond for their mean.

    Args:
        report: A report for which `has_ranking` holds.
        width: Width in inches.
    """
    names = list(dict.fromkeys(name for block in report.ranking.values() for name in block.spearman))
    with style():
        made = figure(width, 0.34 * len(names) + 1.1)
        axes = made.add_subplot()
        for row, name in enumerate(names):
            _row(axes, row, name, report)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(names)), [label(name, 22) for name in names])
        axes.set(xlim=(-1.05, 1.05), ylim=(len(names) - 0.4, -0.6))
        axes.set_xlabel("Spearman's correlation with |risk gap|, 1 = the same order")
    return made


def _row(axes: Axes, row: int, name: str, report: Report) -> None:
    values = [value for block in report.ranking.values() if (value := block.spearman.get(name)) is not None]
    axes.plot(values, [row] * len(values), "o", markersize=5, color=BLUE, alpha=0.55, markeredgewidth=0)
    # With a single task its own interval is all there is.
    single = next(iter(report.ranking.values())) if len(report.ranking) == 1 else None
    block: PooledRanking | Ranking | None = report.ranking_pooled or single
    if block is None:
        return
    value, low, high = (getattr(block, key).get(name) for key in ("spearman", "ci_low", "ci_high"))
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=ORANGE, linewidth=2)
    if value is not None:
        axes.plot(value, row, "D", markersize=6, color=ORANGE)
