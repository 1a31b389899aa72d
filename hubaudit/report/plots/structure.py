"""Heatmaps of weight errors: decoder blocks down, projections across, one panel a variant."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from hubaudit.report.plots.style import figure, label, style, tidy
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.structure import projections_of, structure_sentence
from hubaudit.report.structure_block import Structure
from hubaudit.report.text import clean, short_labels

__all__ = ["has_structure", "is_drawable", "structure_alt", "structure_heatmaps", "structure_plot"]

_MOST_PANELS = 8
_PANEL_WIDTH, _ROW_HEIGHT = 2.0, 0.13


def has_structure(report: Report) -> bool:
    """Whether any variant's weights were compared inside decoder blocks and differ."""
    return bool(_shown(report))


def structure_plot(report: Report, *, width: float = 8.0) -> Figure:
    """The heatmaps of up to eight variants with one logarithmic colour scale.

    Args:
        report: A report for which `has_structure` holds.
        width: Width in inches.
    """
    shown = _shown(report)[:_MOST_PANELS]
    labels = dict(zip([v.spec for v in report.variants], short_labels([v.spec for v in report.variants]), strict=True))
    return structure_heatmaps([(labels[entry.spec], entry.structure) for entry in shown if entry.structure], width)


def structure_heatmaps(blocks: list[tuple[str, Structure]], width: float) -> Figure:
    """One panel a named block.

    Args:
        blocks: Titles and weight errors, at least one of which is not 0.
        width: Width in inches.
    """
    grids = [(title, *_grid(block)) for title, block in blocks]
    positive = np.concatenate([grid[np.isfinite(grid) & (grid > 0)] for _, _, grid in grids])
    scale = LogNorm(float(positive.min()) * 0.999, float(positive.max()) * 1.001)
    columns = max(1, min(len(grids), int(width / _PANEL_WIDTH)))
    lines = -(-len(grids) // columns)
    height = max(1.6, _ROW_HEIGHT * max(len(grid) for _, _, grid in grids) + 0.7)
    with style():
        made = figure(width, height * lines + 0.3)
        axes = list(made.subplots(lines, columns, squeeze=False).flat)
        for panel in axes[len(grids) :]:
            panel.set_axis_off()
        for panel, (title, names, grid) in zip(axes, grids, strict=False):
            mesh = panel.pcolormesh(np.ma.masked_invalid(grid), norm=scale, cmap="viridis", edgecolors="none")
            panel.grid(visible=False)
            panel.set_xticks(np.arange(len(names)) + 0.5, [label(name, 10) for name in names], rotation=45)
            panel.invert_yaxis()
            panel.set_ylabel("decoder block")
            tidy(panel, title, limit=24)
        bar = made.colorbar(mesh, ax=axes, label="relative error of the weights", shrink=0.8)
        if bar.solids is not None:
            bar.solids.set_rasterized(False)  # a page holds no images inside its plots
    return made


def structure_alt(report: Report) -> str:
    """Alt text of the heatmaps."""
    said = [f"{clean(entry.spec)}: {structure_sentence(entry)}" for entry in _shown(report)[:_MOST_PANELS]]
    return f"Relative error of the weights by decoder block and projection. {'; '.join(said)}."


def _shown(report: Report) -> list[VariantReport]:
    return [entry for entry in report.variants if entry.structure is not None and is_drawable(entry.structure)]


def is_drawable(block: Structure) -> bool:
    """Whether any weight inside a decoder block differs."""
    return any(row.layer is not None and row.difference.relative_error for row in block.rows)


def _grid(block: Structure) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Projections and errors, (blocks, projections); NaN where nothing was compared or nothing changed."""
    inside = block.model_copy(update={"rows": [row for row in block.rows if row.layer is not None]})
    names = projections_of(inside)
    squares: dict[tuple[int, int], list[float]] = {}
    for row in inside.rows:
        if row.layer is not None and row.difference.relative_error:
            key = row.layer, names.index(row.projection)
            squares.setdefault(key, []).append(row.difference.relative_error**2)
    grid = np.full((max(row.layer or 0 for row in inside.rows) + 1, len(names)), np.nan)
    for key, values in squares.items():
        grid[key] = math.sqrt(sum(values) / len(values))
    return names, grid
