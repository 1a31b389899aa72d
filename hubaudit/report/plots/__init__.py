"""The report's plots: one function each, a list of those that a report has data for, and PNG files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from matplotlib.figure import Figure

from hubaudit.files import remove_file, write_file
from hubaudit.report.plots.across_alt import ranking_alt, series_alt
from hubaudit.report.plots.alt import axes_alt, bound_alt, direction_alt, flips_alt, monitor_alt, size_alt
from hubaudit.report.plots.bound import axes_plot, bound_plot, has_axes, has_bound
from hubaudit.report.plots.direction import direction_plot, has_direction
from hubaudit.report.plots.flips import flips_plot, has_flips
from hubaudit.report.plots.monitor import has_monitor, monitor_plot
from hubaudit.report.plots.ranking import has_ranking, ranking_plot
from hubaudit.report.plots.series import has_series, series_plot
from hubaudit.report.plots.size import has_size, size_plot
from hubaudit.report.plots.structure import has_structure, structure_alt, structure_plot
from hubaudit.report.plots.style import png
from hubaudit.report.schema import Report

__all__ = [
    "PLOTS",
    "DrawnPlot",
    "Plot",
    "axes_plot",
    "bound_plot",
    "direction_plot",
    "drawn",
    "flips_plot",
    "monitor_plot",
    "ranking_plot",
    "save_plots",
    "series_plot",
    "size_plot",
    "structure_plot",
]


class _Draw(Protocol):
    def __call__(self, report: Report, *, width: float = ...) -> Figure: ...


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One kind of plot."""

    name: str
    title: str
    caption: str
    draw: _Draw
    has_data: Callable[[Report], bool]
    describe: Callable[[Report], str]


@dataclass(frozen=True, kw_only=True)
class DrawnPlot:
    """A plot that a report has data for."""

    name: str
    title: str
    caption: str
    alt: str
    draw: _Draw


PLOTS = (
    Plot(
        name="flips",
        title="Which answers changed",
        draw=flips_plot,
        has_data=has_flips,
        describe=flips_alt,
        caption="Share of the items by what happened to their answer. Two variants of equal accuracy can differ "
        "in every coloured part.",
    ),
    Plot(
        name="size",
        title="Quality against size",
        draw=size_plot,
        has_data=has_size,
        describe=size_alt,
        caption="What each byte buys: the divergence (KL, less is better), the right answers that were kept (with "
        "their 95% interval, more is better) and the bound (less is better), against the stored size of the weights. "
        "Lines join the quants of one repo.",
    ),
    Plot(
        name="bound",
        title="Bound against risk gap",
        draw=bound_plot,
        has_data=has_bound,
        describe=bound_alt,
        caption="Each marker is a variant on a task: how much its loss moved (right is worse), and the bound "
        "that PRISM gives without labels. All markers lie above the dashed line, or the bound would be wrong. "
        "The dash under a marker is the certificate, the largest gap that any labels on these tokens could show.",
    ),
    Plot(
        name="axes",
        title="Which part drifted",
        draw=axes_plot,
        has_data=has_axes,
        describe=axes_alt,
        caption="Shares of the bound, with its size and largest axis beside the bar. Bound = delta + gamma; "
        "delta = K·√(scale + shape) is a root of a sum, so its part of the bar is divided as scale and shape "
        "divide delta².",
    ),
    Plot(
        name="direction",
        title="Direction by layer",
        draw=direction_plot,
        has_data=has_direction,
        describe=direction_alt,
        caption="Line: cosine between the directions of variant and base. Grey: what two halves of the prompts "
        "give within the variant itself, mean ± 2 sd. Markers: the cosine with estimator noise removed, with "
        "its 95% interval and verdict.",
    ),
    Plot(
        name="monitor",
        title="A linear monitor's scores",
        draw=monitor_plot,
        has_data=has_monitor,
        describe=monitor_alt,
        caption="One point a prompt; green lines are the base's threshold. A cloud beside the dashed diagonal was "
        "moved (translation: set the threshold anew), a flatter one was shrunk (attenuation: refit the probe).",
    ),
    Plot(
        name="structure",
        title="Where the weights changed",
        draw=structure_plot,
        has_data=has_structure,
        describe=structure_alt,
        caption="Relative Frobenius error of every projection by decoder block, on one logarithmic scale; an empty "
        "cell did not change or was not compared. The first eight variants.",
    ),
    Plot(
        name="ranking",
        title="Which figure ranks the variants",
        draw=ranking_plot,
        has_data=has_ranking,
        describe=ranking_alt,
        caption="Dot: Spearman's correlation of a figure with the size of the risk gap over the variants, one a task. "
        "Diamond: the mean over tasks with its 95% interval by resampling variants, for at least nine of them.",
    ),
    Plot(
        name="series",
        title="Drift and forgetting by step",
        draw=series_plot,
        has_data=has_series,
        describe=series_alt,
        caption="Orange, left axis: how much the loss rose on the task (below 0 it fell). Blue, right axis: the bound, "
        "which needs no labels.",
    ),
)
"""All plots, in reading order."""


def drawn(report: Report) -> list[DrawnPlot]:
    """The plots that a report has data for, with their alt texts."""
    return [
        DrawnPlot(name=plot.name, title=plot.title, caption=plot.caption, alt=plot.describe(report), draw=plot.draw)
        for plot in PLOTS
        if plot.has_data(report)
    ]


def save_plots(report: Report, folder: Path | str) -> list[Path]:
    """Write the report's plots as PNG files, and remove our own plots that it has no data for.

    The same report gives the same bytes with the same version of matplotlib.

    Args:
        report: The report.
        folder: Where the files go; it is made if missing.

    Returns:
        The files, in reading order.

    Raises:
        OutOfDiskError: If the disk is full.
        InputError: If the folder cannot be written to.
    """
    folder = Path(folder)
    shown = drawn(report)
    for plot in PLOTS:
        if plot.name not in {entry.name for entry in shown}:
            remove_file(folder / f"{plot.name}.png")
    return [write_file(folder / f"{entry.name}.png", png(entry.draw(report))) for entry in shown]
