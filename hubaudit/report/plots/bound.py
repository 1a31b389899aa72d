"""Two plots of the PRISM bound: against the risk gap that it bounds, and split into its axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hubaudit.report.plots.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    SERIES,
    VERMILLION,
    figure,
    label,
    panels,
    style,
    tidy,
)
from hubaudit.report.schema import Report
from hubaudit.report.text import number, short_labels
from hubaudit.stats.prism_bound import PrismBound

__all__ = ["axes_plot", "bound_plot", "has_axes", "has_bound"]

_MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class _Point:
    """One variant on one task."""

    variant: int
    task: int
    gap: float
    bound: float
    certificate: float | None


def has_bound(report: Report) -> bool:
    """Whether any variant has a bound and a risk gap that a logarithmic axis can show."""
    return bool(_points(report))


def bound_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Bound against |risk gap|, one marker a variant and task, on logarithmic axes.

    Every marker must lie above the line y = x. The dash below a marker is the certificate
    (`logratio_bound`), which must lie between the line and the marker.

    Args:
        report: A report for which `has_bound` holds.
        width: Width in inches.
    """
    points = _points(report)
    names = short_labels([variant.spec for variant in report.variants])
    tasks = [task.name for task in report.tasks]
    with style():
        shown = sorted({point.variant for point in points})
        shown_tasks = sorted({point.task for point in points})
        columns = max(2, int(width / 2.0))
        entries = len(shown) + (len(shown_tasks) if len(shown_tasks) > 1 else 0) + 1
        made = figure(width, min(width, 4.4) * 0.9 + 0.19 * math.ceil(entries / columns))
        axes = made.add_subplot()
        low, high = _limits(points)
        axes.set(xscale="log", yscale="log", xlim=low, ylim=high)
        _safe_region(axes)
        for point in points:
            _draw_point(axes, point)
        axes.set_xlabel("|risk gap|, nats per token")
        axes.set_ylabel("bound, nats per token")
        axes.tick_params(length=0, which="both")
        handles = [_variant_handle(index, names[index]) for index in shown]
        if len(shown_tasks) > 1:
            handles += [_task_handle(index, tasks[index]) for index in shown_tasks]
        handles.append(Line2D([], [], color=MUTED, marker="_", linestyle="none", label="certificate"))
        made.legend(handles=handles, loc="outside upper left", ncols=columns, columnspacing=1.2, handletextpad=0.3)
    return made


def _points(report: Report) -> list[_Point]:
    found = []
    for v, variant in enumerate(report.variants):
        for t, task in enumerate(report.tasks):
            block = variant.prism_bound.get(task.name)
            # A logarithmic axis has no place for 0: a variant equal to the base is not drawn.
            if block is not None and block.bound and block.risk_gap:
                certificate = block.logratio_bound or None
                found.append(_Point(v, t, abs(block.risk_gap), block.bound, certificate))
    return found


def _limits(points: list[_Point]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Axis limits with room around the points; the y axis begins where the line y = x does."""
    gaps = [point.gap for point in points]
    tops = [point.bound for point in points]
    x = (min(gaps) / 2, max(gaps) * 3)
    return x, (x[0], max(*tops, x[1]) * 3)


def _safe_region(axes: Axes) -> None:
    low, high = axes.get_xlim()
    top = axes.get_ylim()[1]
    axes.fill_between([low, high], [low, high], [top, top], color=GREEN, alpha=0.09, linewidth=0)
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.text(
        0.99,
        0.03,
        "bound = |risk gap| on the dashed line",
        transform=axes.transAxes,
        ha="right",
        color=MUTED,
        fontsize=8.5,
    )
    axes.text(0.01, 0.98, "bound holds", transform=axes.transAxes, va="top", color=GREEN, fontsize=8.5)


def _draw_point(axes: Axes, point: _Point) -> None:
    colour, filled = SERIES[point.variant % len(SERIES)]
    if point.certificate is not None:
        axes.plot([point.gap] * 2, [point.certificate, point.bound], color=colour, linewidth=0.8, alpha=0.55)
        axes.plot(point.gap, point.certificate, marker="_", markersize=9, markeredgewidth=1.8, color=colour)
    axes.plot(
        point.gap,
        point.bound,
        marker=_MARKERS[point.task % len(_MARKERS)],
        markersize=8,
        linestyle="none",
        markerfacecolor=colour if filled else PAPER,
        markeredgecolor=PAPER if filled else colour,
        markeredgewidth=0.8 if filled else 1.8,
    )


def _variant_handle(index: int, name: str) -> Line2D:
    colour, filled = SERIES[index % len(SERIES)]
    return Line2D(
        [],
        [],
        marker="o",
        linestyle="none",
        markersize=7,
        markerfacecolor=colour if filled else PAPER,
        markeredgecolor=colour,
        markeredgewidth=1.5,
        label=label(name, 24),
    )


def _task_handle(index: int, name: str) -> Line2D:
    return Line2D(
        [],
        [],
        marker=_MARKERS[index % len(_MARKERS)],
        linestyle="none",
        markersize=7,
        color=MUTED,
        label="task " + label(name, 18),
    )


def has_axes(report: Report) -> bool:
    """Whether any variant's bound can be split into its axes."""
    return any(_shares(block) for variant in report.variants for block in variant.prism_bound.values())


def axes_plot(report: Report, *, width: float = 8.0) -> Figure:
    """What each bound consists of: scale, shape and gamma as shares of the bound.

    delta = K sqrt(scale + shape) is a root of a sum, so scale and shape do not add up to it. The part of
    the bar that is delta is divided as K^2 scale and K^2 shape divide delta^2; gamma adds to delta as it is.

    Args:
        report: A report for which `has_axes` holds.
        width: Width in inches.
    """
    names = short_labels([variant.spec for variant in report.variants])
    tasks = [
        task.name
        for task in report.tasks
        if any(_shares(variant.prism_bound.get(task.name)) for variant in report.variants)
    ]
    shown = [index for index, variant in enumerate(report.variants) if any(map(_shares, variant.prism_bound.values()))]
    with style():
        made, grid = panels(
            len(tasks), width=width, height=0.27 * len(shown) + 0.75, least_width=3.4 if width > 5 else width
        )
        for axes, task in zip(grid, tasks, strict=True):
            for row, index in enumerate(shown):
                _draw_bar(axes, row, report.variants[index].prism_bound.get(task))
            tidy(axes, task)
            axes.grid(visible=False, axis="y")
            axes.set_yticks(range(len(shown)), [label(names[index], 22) for index in shown])
            axes.set(xlim=(0, 1.42), ylim=(len(shown) - 0.4, -0.6))
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100%"])
            axes.spines["left"].set_visible(False)
            axes.spines["bottom"].set_bounds(0, 1)
        handles = [
            Line2D([], [], color=colour, linewidth=7, label=name)
            for name, colour in (("scale (delta)", ORANGE), ("shape (delta)", BLUE), ("gamma (head)", VERMILLION))
        ]
        made.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1, columnspacing=1.2)
    return made


def _shares(block: PrismBound | None) -> tuple[float, float, float] | None:
    """Scale's, shape's and gamma's share of the bound; None where the bound is undefined or 0."""
    if block is None or block.scale is None or block.shape is None or block.k_feat is None:
        return None
    if not block.bound or block.delta is None or block.gamma is None:
        return None
    scale, shape = max(0.0, block.scale), max(0.0, block.shape)
    moved = scale + shape
    part = block.delta / block.bound / moved if moved else 0.0
    return part * scale, part * shape, block.gamma / block.bound


def _draw_bar(axes: Axes, row: int, block: PrismBound | None) -> None:
    shares = _shares(block)
    if block is None or shares is None:
        axes.text(0.01, row, "no bound", va="center", color=MUTED, fontsize=8.5)
        return
    left = 0.0
    axes.barh(row, 1, height=0.62, color=GREY, alpha=0.35, linewidth=0)
    for share, colour in zip(shares, (ORANGE, BLUE, VERMILLION), strict=True):
        axes.barh(row, share, left=left, height=0.62, color=colour, linewidth=0)
        left += share
    axes.text(
        1.02, row, f"{number(block.bound)} {label(block.dominant_axis or '', 12)}", va="center", color=INK, fontsize=8.5
    )
