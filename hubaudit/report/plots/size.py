"""The plot of quality against size: what each byte buys, for the card of a repo with many quants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator, PercentFormatter
from scipy.optimize import isotonic_regression

from hubaudit.report.plots.style import GREY, INK, MUTED, PAPER, SERIES, figure, label, style
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.text import number, short_labels, size

__all__ = ["Point", "apart", "has_size", "size_plot", "size_points"]

_LEAST_VARIANTS = 3
_MARKERS = "osD^vPX*"
_NAME_HEIGHT = 0.16
"""Inches that a name standing on its side takes of the width."""
_LETTER_WIDTH = 0.066
"""Inches that a letter of a name takes of the height."""
_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_TICKS = tuple(step * 10**power for power in range(3, 15) for step in _ROUND)


@dataclass(frozen=True)
class Point:
    """One variant on one task."""

    variant: int
    task: int
    n_bytes: int
    kl: float | None
    kept: float | None
    kept_interval: tuple[float, float] | None
    bound: float | None


def has_size(report: Report) -> bool:
    """Whether three variants or more of different sizes have a figure of quality."""
    return len({point.n_bytes for point in size_points(report)}) >= _LEAST_VARIANTS


def size_points(report: Report) -> list[Point]:
    """What is drawn: a point a variant and task."""
    found = []
    for v, variant in enumerate(report.variants):
        n_bytes = variant.model.size_bytes if variant.model is not None else 0
        for t, task in enumerate(report.tasks):
            point = _point(variant, v, t, task.name, n_bytes)
            if n_bytes > 0 and (point.kl, point.kept, point.bound) != (None, None, None):
                found.append(point)
    return found


def size_plot(report: Report, *, width: float = 8.0) -> Figure:
    """KL, kept answers and bound against the size of the file, one above the other.

    Quants of one repo and task are joined by a line. Names stand above, each at the top of its thin vertical line,
    so they cannot overlap however close the sizes are.

    Args:
        report: A report for which `has_size` holds.
        width: Width in inches.
    """
    points = size_points(report)
    shown = [panel for panel in _PANELS if any(panel.value(point) is not None for point in points)]
    tasks = sorted({point.task for point in points})
    names = [label(name, 20) for name in short_labels([variant.spec for variant in report.variants])]
    longest = max(len(names[point.variant]) for point in points)
    with style():
        legend = 0.25 * math.ceil(len(tasks) / max(2, int(width / 2))) if len(tasks) > 1 else 0
        made = figure(width, _LETTER_WIDTH * longest + 1.5 * len(shown) + 0.75 + legend)
        grid = made.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        limits = _limits(points)
        for axes, panel in zip(grid, shown, strict=True):
            axes.set_xscale("log")
            axes.set_xlim(*limits)
            for n_bytes in sorted({point.n_bytes for point in points}):
                axes.axvline(n_bytes, color=GREY, linewidth=0.6, zorder=0.5)
            axes.grid(visible=False, axis="x")
            _draw(axes, panel, points, report)
            axes.set_ylabel(panel.title)
            axes.tick_params(length=0, which="both")
        made.align_ylabels(list(grid))
        bottom = grid[-1]
        bottom.set_xlabel("size of the weights")
        bottom.xaxis.set_major_locator(FixedLocator(_ticks(limits, width)))
        bottom.xaxis.set_minor_locator(NullLocator())
        bottom.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(round(value))))
        _name_variants(grid[0], points, names, limits, width)
        if len(tasks) > 1:
            handles = [_handle(task, report.tasks[task].name) for task in tasks]
            made.legend(handles=handles, loc="outside lower left", ncols=max(2, int(width / 2)), columnspacing=1.2)
    return made


def _point(variant: VariantReport, v: int, t: int, task: str, n_bytes: int) -> Point:
    divergence, bound = variant.divergence.get(task), variant.prism_bound.get(task)
    agreement = variant.correctness_agreement.get(task)
    interval = None
    if agreement is not None and agreement.ci_low is not None and agreement.ci_high is not None:
        interval = (agreement.ci_low, agreement.ci_high)
    return Point(
        variant=v,
        task=t,
        n_bytes=n_bytes,
        # A logarithmic axis has no place for 0: a variant equal to the base is not drawn.
        kl=(divergence.kl or None) if divergence is not None else None,
        kept=agreement.correctness_agreement if agreement is not None else None,
        kept_interval=interval,
        bound=(bound.bound or None) if bound is not None else None,
    )


@dataclass(frozen=True)
class _Panel:
    title: str
    logarithmic: bool
    value: Callable[[Point], float | None]


_PANELS = (
    _Panel("KL, nats", True, lambda point: point.kl),
    _Panel("kept answers", False, lambda point: point.kept),
    _Panel("bound, nats", True, lambda point: point.bound),
)


def _draw(axes: Axes, panel: _Panel, points: Sequence[Point], report: Report) -> None:
    if panel.logarithmic:
        axes.set_yscale("log")
        values = [value for point in points if (value := panel.value(point)) is not None]
        narrow = max(values) / min(values) < 100
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, digits=1)))
    else:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for curve in _curves(points, report):
        known = [(point, value) for point in curve if (value := panel.value(point)) is not None]
        if not known:
            continue
        colour, filled = SERIES[known[0][0].task % len(SERIES)]
        x, y = [point.n_bytes for point, _ in known], [value for _, value in known]
        if not panel.logarithmic:
            for point, _ in known:
                if point.kept_interval is not None:
                    axes.plot([point.n_bytes] * 2, point.kept_interval, color=colour, linewidth=1.4, alpha=0.4)
        axes.plot(
            x,
            y,
            color=colour,
            linewidth=1.2,
            marker=_MARKERS[known[0][0].task % len(_MARKERS)],
            markersize=6.5,
            markerfacecolor=colour if filled else PAPER,
            markeredgecolor=PAPER if filled else colour,
            markeredgewidth=0.8,
        )


def _curves(points: Sequence[Point], report: Report) -> Iterator[list[Point]]:
    """Points to join: the quants of one repo, made alike, on one task; every other point alone."""
    groups: dict[tuple[int, object], list[Point]] = {}
    for point in points:
        model = report.variants[point.variant].model
        repo = model.repo_id if model is not None else None
        alike = repo is not None and model is not None and model.format.lower().startswith("gguf")
        groups.setdefault((point.task, repo if alike else point.variant), []).append(point)
    for group in groups.values():
        yield sorted(group, key=lambda point: point.n_bytes)


def _limits(points: Sequence[Point]) -> tuple[float, float]:
    sizes = [point.n_bytes for point in points]
    margin = (max(sizes) / min(sizes)) ** 0.06
    return min(sizes) / margin, max(sizes) * margin


def _ticks(limits: tuple[float, float], width: float) -> list[float]:
    """Round sizes within the limits, at most one an inch."""
    low, high = limits
    inside = [tick for tick in _TICKS if low <= tick <= high]
    if len(inside) < 2:
        # Sizes so close that no two round numbers lie between them.
        return [low * (high / low) ** share for share in (0.1, 0.9)]
    return inside[:: -(-len(inside) // max(2, int(width)))]


def _name_variants(
    axes: Axes, points: Sequence[Point], names: Sequence[str], limits: tuple[float, float], width: float
) -> None:
    """Write the names on their sides above the axes, moved apart, each with a line to where it belongs."""
    sizes = {point.variant: point.n_bytes for point in points}
    order = sorted(sizes, key=lambda index: sizes[index])
    span = math.log(limits[1] / limits[0])
    wanted = [math.log(sizes[index] / limits[0]) / span for index in order]
    for index, share, place in zip(order, wanted, apart(wanted, _NAME_HEIGHT / max(1.0, width - 0.9)), strict=True):
        above = axes.transAxes
        line = Line2D([share, place], [1.0, 1.14], color=MUTED, linewidth=0.6, transform=above, clip_on=False)
        axes.add_artist(line)
        name = axes.text(place, 1.17, names[index], rotation=90, ha="center", va="bottom", fontsize=7.5, color=INK)
        name.set_transform(above)


def apart(wanted: Sequence[float], least: float) -> list[float]:
    """Places in the order of `wanted`, within 0 and 1, `least` apart and otherwise as near as that allows.

    Least squares: with i times `least` taken off, "apart" is "not decreasing". Where they do not all fit, they
    stand as far apart as there is room.

    Args:
        wanted: Where each should stand, not decreasing.
        least: Smallest distance.
    """
    least = min(least, 1 / max(1, len(wanted) - 1))
    steps = least * np.arange(len(wanted))
    fitted = np.clip(isotonic_regression(np.asarray(wanted) - steps).x, 0, max(0.0, 1 - float(steps[-1])))
    return [float(place) for place in fitted + steps]


def _handle(task: int, name: str) -> Line2D:
    colour, _ = SERIES[task % len(SERIES)]
    return Line2D([], [], color=colour, marker=_MARKERS[task % len(_MARKERS)], markersize=6.5, label=label(name, 24))
