"""The interface of the metric `translation_attenuation`."""

from __future__ import annotations

from typing import Any

from hubaudit.modules.columns import Column, Kind
from hubaudit.modules.options import as_number, as_whole
from hubaudit.stats.translation_attenuation import remedy, translation_attenuation

__all__ = ["COLUMNS", "compute"]

COLUMNS = (
    Column("predictions", Kind.NUMBERS),
    Column("references", Kind.NUMBERS),
    Column("labels", Kind.NUMBERS),
    Column("base_features", Kind.ROWS, required=False),
    Column("variant_features", Kind.ROWS, required=False),
)


def compute(
    *,
    predictions: Any,
    references: Any,
    labels: Any,
    base_features: Any = None,
    variant_features: Any = None,
    threshold: float = 0.0,
    translation_margin: float = 0.1,
    attenuation_margin: float = 0.05,
    seed: int = 0,
) -> dict[str, Any]:
    """The figures of `hubaudit.stats.translation_attenuation` and the verdict's `remedy`.

    `predictions` are the variant's decision values, `references` the base's.
    """
    result = translation_attenuation(
        predictions,
        references,
        labels,
        threshold=as_number("threshold", threshold),
        base_features=base_features,
        variant_features=variant_features,
        translation_margin=as_number("translation_margin", translation_margin),
        attenuation_margin=as_number("attenuation_margin", attenuation_margin),
        seed=as_whole("seed", seed),
    )
    return {"remedy": remedy(result.verdict), **result.to_dict()}
