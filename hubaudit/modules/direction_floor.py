"""The interface of the metric `direction_floor`."""

from __future__ import annotations

from typing import Any

from hubaudit.modules.columns import Column, Kind
from hubaudit.modules.options import as_number, as_whole
from hubaudit.stats.direction_floor import direction_floor

__all__ = ["COLUMNS", "compute"]

COLUMNS = (
    Column("predictions", Kind.ROWS),
    Column("references", Kind.ROWS),
    Column("labels", Kind.VALUES),
)


def compute(
    *,
    predictions: Any,
    references: Any,
    labels: Any,
    theta0_degrees: float = 5.0,
    n_splits: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """The figures of `hubaudit.stats.direction_floor`, where `predictions` are the variant's activations."""
    return direction_floor(
        predictions,
        references,
        labels,
        theta0_degrees=as_number("theta0_degrees", theta0_degrees),
        n_splits=as_whole("n_splits", n_splits),
        seed=as_whole("seed", seed),
    ).to_dict()
