"""What happened to a variant's weights, by layer and projection."""

from __future__ import annotations

from pydantic import Field

from hubaudit.report.block import Block
from hubaudit.stats.structure import WeightDifference

__all__ = ["Structure", "StructureRow"]


class StructureRow(Block):
    """One projection of one decoder block."""

    layer: int | None
    """Decoder block, 0 = the first; null for embeddings and head."""
    projection: str
    """q, k, v, o, gate, up, down, embeddings or head; qkv where fused ones could not be split."""
    expert: int | None = None
    """Number of the expert, or null where there are none."""
    difference: WeightDifference
    """Its figures."""


class Structure(Block):
    """The errors of all weight matrices, read tensor by tensor from the files."""

    relative_error: float | None
    """Frobenius norm of all differences over that of all base weights compared."""
    n_weights: int
    """Numbers compared."""
    rows: list[StructureRow]
    """By layer, then projection."""
    not_compared: dict[str, str] = Field(default_factory=dict)
    """Matrices that have no counterpart or place, with the reason; norms and biases are never compared."""
