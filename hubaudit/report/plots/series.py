"""The plot of a training run: bound and forgetting by step."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hubaudit.report.plots.style import BLUE, MUTED, ORANGE, label, panels, style, tidy
from hubaudit.report.schema import Report
from hubaudit.report.series_block import Series

__all__ = ["has_series", "series_plot"]


def has_series(report: Report) -> bool:
    """Whether a series has at least two checkpoints with a bound."""
    return bool(_shown(report))


def series_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Bound and signed risk gap against the training step, a panel a run and task, on axes of their own.

    Args:
        report: A report for which `has_series` holds.
        width: Width in inches.
    """
    blocks = _shown(report)
    several = len({block.name for block in blocks}) > 1
    with style():
        made, grid = panels(len(blocks), width=width, height=2.4, least_width=3.4 if width > 5 else width)
        for axes, block in zip(grid, blocks, strict=True):
            steps = [point.step for point in block.points]
            gaps = [math.nan if point.risk_gap is None else point.risk_gap for point in block.points]
            bounds = [math.nan if point.bound is None else point.bound for point in block.points]
            axes.plot(steps, gaps, "o-", color=ORANGE, markersize=5)
            axes.axhline(0, color=MUTED, linewidth=0.8)
            other = axes.twinx()
            other.plot(steps, bounds, "s--", color=BLUE, markersize=4)
            other.set_ylim(bottom=0)
            other.grid(visible=False)
            other.tick_params(colors=BLUE, length=0)
            tidy(axes, f"{block.name}: {block.task}" if several else block.task)
            axes.set_xlabel("step")
        handles = [
            Line2D([], [], color=ORANGE, marker="o", label="risk gap, nats per token (left)"),
            Line2D([], [], color=BLUE, marker="s", linestyle="--", label=label("bound, nats per token (right)", 40)),
        ]
        made.legend(handles=handles, loc="outside upper left", ncols=2 if width > 5 else 1)
    return made


def _shown(report: Report) -> list[Series]:
    return [block for block in report.series if sum(point.bound is not None for point in block.points) > 1]
