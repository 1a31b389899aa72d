"""The plot of flips: how many answers stayed, were lost, were gained, or only moved."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hubaudit.report.plots.style import (
    GREEN,
    GREY,
    INK,
    MUTED,
    SKY,
    VERMILLION,
    label,
    panels,
    style,
    tidy,
)
from hubaudit.report.schema import Report
from hubaudit.report.text import MINUS, short_labels
from hubaudit.stats.correctness_agreement import CorrectnessAgreement

__all__ = ["flips_plot", "has_flips"]


def has_flips(report: Report) -> bool:
    """Whether any variant's answers were compared with the base's."""
    return any(variant.correctness_agreement for variant in report.variants)


def flips_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Share of the items that were lost, gained, moved between wrong answers, or kept, by variant and task.

    Args:
        report: A report for which `has_flips` holds.
        width: Width in inches.
    """
    names = short_labels([variant.spec for variant in report.variants])
    tasks = [
        task.name
        for task in report.tasks
        if any(task.name in variant.correctness_agreement for variant in report.variants)
    ]
    shown = [index for index, variant in enumerate(report.variants) if variant.correctness_agreement]
    with style():
        made, grid = panels(
            len(tasks), width=width, height=0.27 * len(shown) + 0.75, least_width=3.4 if width > 5 else width
        )
        for axes, task in zip(grid, tasks, strict=True):
            for row, index in enumerate(shown):
                _draw_bar(axes, row, report.variants[index].correctness_agreement.get(task))
            tidy(axes, task)
            axes.grid(visible=False, axis="y")
            axes.set_yticks(range(len(shown)), [label(names[index], 22) for index in shown])
            axes.set(xlim=(0, 1.5), ylim=(len(shown) - 0.4, -0.6))
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100%"])
            axes.spines["left"].set_visible(False)
            axes.spines["bottom"].set_bounds(0, 1)
        handles = [
            Patch(facecolor=VERMILLION, label=f"{MINUS} lost"),
            Patch(facecolor=GREEN, label="+ gained"),
            Patch(facecolor=SKY, label="~ wrong to other wrong"),
            Patch(facecolor=GREY, label="kept"),
        ]
        made.legend(
            handles=handles, loc="outside upper left", ncols=4 if width > 5 else 2, handlelength=1, columnspacing=1.2
        )
    return made


def _draw_bar(axes: Axes, row: int, block: CorrectnessAgreement | None) -> None:
    if block is None or not block.n:
        axes.text(0.01, row, "not measured", va="center", color=MUTED, fontsize=8.5)
        return
    changed = (block.regressions, block.recoveries, block.wrong_to_other_wrong)
    left = 0.0
    for count, colour in zip((*changed, block.n - sum(changed)), (VERMILLION, GREEN, SKY, GREY), strict=True):
        axes.barh(row, count / block.n, left=left, height=0.62, color=colour, linewidth=0)
        left += count / block.n
    lost, gained, moved = changed
    axes.text(1.02, row, f"{MINUS}{lost} +{gained} ~{moved}", va="center", color=INK, fontsize=8.5)
