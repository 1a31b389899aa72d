"""A variant's weight errors in a sentence and as a table, layers down and projections across."""

from __future__ import annotations

import math

from hubaudit.report.details import FigureRow, FigureTable, Value
from hubaudit.report.schema import VariantReport
from hubaudit.report.structure_block import Structure, StructureRow
from hubaudit.report.text import DASH, clean, number

__all__ = ["place_label", "projections_of", "structure_sentence", "structure_table"]

_MEANING = "Relative Frobenius error of each projection; with experts, root mean square over them"


def projections_of(block: Structure) -> list[str]:
    """The projections that the block holds, in its order."""
    return list(dict.fromkeys(row.projection for row in block.rows))


def place_label(row: StructureRow) -> str:
    """`q of block 3`, `embeddings`."""
    return clean(row.projection) if row.layer is None else f"{clean(row.projection)} of block {row.layer}"


def structure_sentence(variant: VariantReport) -> str | None:
    """The error of all weights and where it is largest; None where weights were not compared."""
    block = variant.structure
    if block is None or not block.rows:
        return None
    worst = max(block.rows, key=lambda row: row.difference.relative_error or 0.0)
    text = (
        f"the weights' relative error is {number(block.relative_error)}, largest in {place_label(worst)} "
        f"({number(worst.difference.relative_error)})"
    )
    left = len(block.not_compared)
    if not left:
        return text
    return f"{text}; without a counterpart: {left}"


def structure_table(variant: VariantReport) -> FigureTable | None:
    """Relative errors, a row a decoder block, and one for embeddings and head; None where there are none."""
    block = variant.structure
    if block is None or not block.rows:
        return None
    names = projections_of(block)
    layers = list(dict.fromkeys(row.layer for row in block.rows))
    rows = [
        FigureRow("outside" if layer is None else f"block {layer}", _MEANING, [_cell(block, layer, n) for n in names])
        for layer in layers
    ]
    return FigureTable("Weights: relative error by block and projection", [clean(name) for name in names], rows)


def _cell(block: Structure, layer: int | None, projection: str) -> Value:
    found = [row.difference for row in block.rows if row.layer == layer and row.projection == projection]
    known = [entry.relative_error for entry in found if entry.relative_error is not None]
    if not known:
        return Value(DASH, "Undefined: not compared, or all weights of the base are 0")
    mean = math.sqrt(sum(value**2 for value in known) / len(known))
    first = found[0]
    hint = (
        f"{first.n_weights:,} weights; SQNR {number(first.sqnr_db)} dB, largest error {number(first.max_error)}, "
        f"Wasserstein-1 {number(first.wasserstein)}, KL {number(first.kl)}"
    )
    return Value(number(mean), hint if len(found) == 1 else f"{len(found)} experts; of the first: {hint}")
