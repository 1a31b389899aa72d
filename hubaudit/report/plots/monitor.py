"""The plot of the monitor: decision values of the variant against those of the base."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hubaudit.report.plots.style import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, panels, style, tidy
from hubaudit.report.schema import Monitor, Report, VariantReport
from hubaudit.report.text import short_labels

__all__ = ["has_monitor", "monitor_plot"]


def has_monitor(report: Report) -> bool:
    """Whether any variant's decision values are in the report."""
    return any(_usable(variant.monitor) for variant in report.variants)


def monitor_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Scores of each variant against the base's, with the regression line and the thresholds.

    Decision values are relative to the base's threshold, so both thresholds lie at 0. A cloud below the
    dashed diagonal is a translation; one that is flatter than it, an attenuation.

    Args:
        report: A report for which `has_monitor` holds.
        width: Width in inches.
    """
    names = short_labels([variant.spec for variant in report.variants])
    shown = [index for index, variant in enumerate(report.variants) if _usable(variant.monitor)]
    with style():
        made, grid = panels(len(shown), width=width, height=1.95, least_width=2.4 if width > 5 else 1.6)
        for axes, index in zip(grid, shown, strict=True):
            _draw_scores(axes, report.variants[index])
            tidy(axes, names[index], limit=26 if width > 5 else 17)
        made.supxlabel("base's score", fontsize=9.5)
        made.supylabel("variant's score", fontsize=9.5)
        handles = [
            Line2D([], [], color=ORANGE, marker="o", linestyle="none", markersize=5, label="class A (label 1)"),
            Line2D([], [], color=BLUE, marker="^", linestyle="none", markersize=5, label="class B (label 0)"),
            Line2D([], [], color=INK, linewidth=1.6, label="regression"),
            Line2D([], [], color=MUTED, linewidth=1, linestyle=(0, (4, 2)), label="equal scores"),
            Line2D([], [], color=GREEN, linewidth=1, label="threshold"),
        ]
        made.legend(
            handles=handles, loc="outside upper left", ncols=5 if width > 5 else 2, handlelength=1.4, columnspacing=1.2
        )
    return made


def _usable(monitor: Monitor | None) -> bool:
    if monitor is None:
        return False
    lengths = {len(monitor.labels), len(monitor.base_scores), len(monitor.variant_scores)}
    return len(lengths) == 1 and lengths != {0}


def _draw_scores(axes: Axes, variant: VariantReport) -> None:
    monitor, result = variant.monitor, variant.translation_attenuation
    if monitor is None:
        return
    axes.axhline(0, color=GREEN, linewidth=1)
    axes.axvline(0, color=GREEN, linewidth=1)
    for name, colour, marker in ((1, ORANGE, "o"), (0, BLUE, "^")):
        chosen = [place for place, given in enumerate(monitor.labels) if given == name]
        axes.plot(
            [monitor.base_scores[place] for place in chosen],
            [monitor.variant_scores[place] for place in chosen],
            marker=marker,
            linestyle="none",
            markersize=4,
            markerfacecolor=colour,
            markeredgecolor=PAPER,
            markeredgewidth=0.4,
        )
    ends = [min(monitor.base_scores), max(monitor.base_scores)]
    axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
    if result is not None and result.slope is not None and result.intercept is not None:
        slope, intercept = result.slope, result.intercept
        axes.plot(ends, [intercept + slope * end for end in ends], color=INK, linewidth=1.6)
