"""Heatmaps of swapped attention projections: decoder blocks down, projections across, one panel a figure."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from hubaudit.report.attention_block import FIGURE_LABELS, AttentionSensitivity
from hubaudit.report.plots.style import figure, label, style, tidy

__all__ = ["attention_heatmaps"]

_ROW_HEIGHT = 0.13


def attention_heatmaps(blocks: list[tuple[str, AttentionSensitivity]], width: float = 8.0) -> Figure:
    """One line of three panels a variant, each with its own logarithmic colour scale; white is exactly 0.

    Args:
        blocks: Titles and effects.
        width: Width in inches.
    """
    n_layers = max((row.layer or 0 for _, block in blocks for row in block.rows), default=0) + 1
    with style():
        made = figure(width, (max(1.6, _ROW_HEIGHT * n_layers) + 0.9) * len(blocks))
        axes = made.subplots(len(blocks), len(FIGURE_LABELS), squeeze=False)
        for line, (title, block) in zip(axes, blocks, strict=True):
            names = list(dict.fromkeys(row.projection for row in block.overall))
            for panel, (name, text) in zip(line, FIGURE_LABELS.items(), strict=True):
                grid = np.full((n_layers, len(names)), np.nan)
                for row in block.rows:
                    if row.layer is not None and (value := getattr(row, name).value):
                        grid[row.layer, names.index(row.projection)] = value
                tidy(panel, text)
                panel.set_xticks(np.arange(len(names)) + 0.5, names)
                panel.set_ylabel(f"{label(title, 18)}, block" if panel is line[0] else "")
                panel.grid(visible=False)
                known = grid[np.isfinite(grid)]
                if len(known):
                    scale = LogNorm(float(known.min()) * 0.999, float(known.max()) * 1.001)
                    mesh = panel.pcolormesh(np.ma.masked_invalid(grid), norm=scale, cmap="viridis", edgecolors="none")
                    made.colorbar(mesh, ax=panel, shrink=0.8)
                panel.set_ylim(n_layers, 0)
    return made
