"""The plot of directions: cosine by layer with the variant's own null and the noise-corrected cosine."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from hubaudit.report.plots.style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, VERMILLION, panels, style, tidy
from hubaudit.report.schema import Report
from hubaudit.report.text import short_labels
from hubaudit.stats.direction_floor import DirectionFloor

__all__ = ["direction_plot", "has_direction"]

_VERDICTS = {"preserved": (GREEN, "o"), "inconclusive": (ORANGE, "s"), "rotation": (VERMILLION, "D")}


def has_direction(report: Report) -> bool:
    """Whether any variant has a cosine at any layer."""
    return any(_measured(variant.direction_floor) for variant in report.variants)


def direction_plot(report: Report, *, width: float = 8.0) -> Figure:
    """Cosine of the variant's direction with the base's, by layer, one panel a variant.

    The band is the mean of the variant's own split-half null with 2 standard deviations to both sides (the
    paper's rule calls only what lies below it). The markers are the noise-corrected cosines with their 95 %
    intervals, by calibrated verdict.

    Args:
        report: A report for which `has_direction` holds.
        width: Width in inches.
    """
    names = short_labels([variant.spec for variant in report.variants])
    shown = [index for index, variant in enumerate(report.variants) if _measured(variant.direction_floor)]
    with style():
        made, grid = panels(len(shown), width=width, height=1.75, least_width=2.4 if width > 5 else 1.6)
        for axes, index in zip(grid, shown, strict=True):
            _draw_layers(axes, _measured(report.variants[index].direction_floor))
            tidy(axes, names[index], limit=26 if width > 5 else 17)
        made.supxlabel("decoder block", fontsize=9.5)
        made.supylabel("cosine with the base's direction", fontsize=9.5)
        handles: list[Line2D | Patch] = [
            Line2D([], [], color=BLUE, linewidth=1.6, label="cosine"),
            Patch(facecolor=GREY, label="own null ± 2 sd"),
            *(
                Line2D([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.3, label=f"corrected: {name}")
                for name, (colour, marker) in _VERDICTS.items()
            ),
        ]
        made.legend(
            handles=handles, loc="outside upper left", ncols=5 if width > 5 else 2, handlelength=1.4, columnspacing=1.2
        )
    return made


def _measured(layers: dict[int, DirectionFloor]) -> dict[int, DirectionFloor]:
    return {layer: layers[layer] for layer in sorted(layers) if layers[layer].cosine is not None}


def _draw_layers(axes: Axes, layers: dict[int, DirectionFloor]) -> None:
    band = [
        (layer, result.own_null_mean, result.own_null_sd)
        for layer, result in layers.items()
        if result.own_null_mean is not None and result.own_null_sd is not None
    ]
    axes.axhline(1, color=MUTED, linewidth=0.8, linestyle=(0, (4, 2)))
    if len(band) > 1:
        places = [layer for layer, _, _ in band]
        low, high = [m - 2 * s for _, m, s in band], [m + 2 * s for _, m, s in band]
        axes.fill_between(places, low, high, color=GREY, alpha=0.75, linewidth=0)
    elif band:  # one layer has no width to fill
        layer, mean, sd = band[0]
        axes.fill_between([layer - 0.3, layer + 0.3], [mean - 2 * sd] * 2, [mean + 2 * sd] * 2, color=GREY, alpha=0.75)
    known = [(layer, value) for layer, result in layers.items() if (value := result.cosine) is not None]
    axes.plot(*zip(*known, strict=True), color=BLUE, linewidth=1.6, marker="." if len(known) == 1 else None)
    for layer, result in layers.items():
        if result.corrected_cosine is None:
            continue
        colour, marker = _VERDICTS.get(result.calibrated_verdict or "", (INK, "o"))
        if result.ci_low is not None and result.ci_high is not None:
            axes.vlines(layer, result.ci_low, result.ci_high, color=colour, linewidth=1.3)
        axes.plot(layer, result.corrected_cosine, color=colour, marker=marker, markersize=4.5, linestyle="none")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
