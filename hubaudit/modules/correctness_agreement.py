"""The interface of the metric `correctness_agreement`."""

from __future__ import annotations

from typing import Any

from hubaudit.modules.columns import Column, Kind
from hubaudit.modules.options import as_number, as_whole
from hubaudit.stats.correctness_agreement import correctness_agreement

__all__ = ["COLUMNS", "compute"]

COLUMNS = (
    Column("predictions", Kind.VALUES),
    Column("base_predictions", Kind.VALUES),
    Column("references", Kind.VALUES),
    Column("item_ids", Kind.VALUES, required=False),
    Column("subjects", Kind.VALUES, required=False),
)


def compute(
    *,
    predictions: Any,
    base_predictions: Any,
    references: Any,
    item_ids: Any = None,
    subjects: Any = None,
    tost_margin: float = 0.02,
    seed: int = 0,
) -> dict[str, Any]:
    """The figures of `hubaudit.stats.correctness_agreement`, where `predictions` are the variant's answers."""
    return correctness_agreement(
        predictions,
        base_predictions,
        references,
        item_ids=item_ids,
        subjects=subjects,
        tost_margin=as_number("tost_margin", tost_margin),
        seed=as_whole("seed", seed),
    ).to_dict()
