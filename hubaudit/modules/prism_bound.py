"""The interface of the metric `prism_bound`."""

from __future__ import annotations

import math
from typing import Any

from hubaudit.errors import InputError
from hubaudit.modules.columns import Column, Kind, read_column
from hubaudit.modules.options import as_number
from hubaudit.stats.head import Head
from hubaudit.stats.item_contributions import item_contributions
from hubaudit.stats.k_feat import k_feat as k_feat_of
from hubaudit.stats.logits import row_statistics
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_bound import align, prism_bound
from hubaudit.stats.weights import RowWeights, row_weights_of

__all__ = ["COLUMNS", "compute"]

N_DRIFTING_ITEMS = 10
COLUMNS = (
    Column("predictions", Kind.ROWS),
    Column("references", Kind.ROWS),
    Column("labels", Kind.NUMBERS, required=False),
    Column("item_ids", Kind.VALUES, required=False),
)


def compute(
    *,
    predictions: Any,
    references: Any,
    base_head: Any,
    variant_head: Any = None,
    base_bias: Any = None,
    variant_bias: Any = None,
    scale: float = 1.0,
    softcap: float | None = None,
    labels: Any = None,
    item_ids: Any = None,
    weights: RowWeights = "item",
    alignment: Any = "identity",
    k_feat: float | None = None,
) -> dict[str, Any]:
    """The figures of `hubaudit.stats.prism_bound`.

    `predictions` are the variant's features (Z_P), `references` the base's (Z_T). Without `item_ids` every row is an
    item; `scale` and `softcap` belong to both heads; without `variant_head` the variant has the base's. With
    `item_ids` there is also `drifting_items`: the items that add most to D, each with what it adds, largest first.

    Raises:
        InputError: As the estimator, and if `k_feat` is negative or not finite.
    """
    scale = as_number("scale", scale)
    softcap = None if softcap is None else as_number("softcap", softcap)
    k_feat = None if k_feat is None else as_number("k_feat", k_feat)
    if k_feat is not None and not (math.isfinite(k_feat) and k_feat >= 0):
        raise InputError(f"expected k_feat of at least 0, got {k_feat}; take it from a result with the same base head")
    base = _head(base_head, base_bias, scale, softcap, "base")
    shared = variant_head is None and variant_bias is None
    weight = base_head if variant_head is None else variant_head
    variant = base if shared else _head(weight, variant_bias, scale, softcap, "variant")
    n_rows = int(predictions.shape[0]) if hasattr(predictions, "shape") else len(predictions)
    row_weights = row_weights_of(item_ids, n_rows, weights=weights)
    moments = PrismMoments(base.width)
    moments.update(references, predictions, row_weights)
    constant = k_feat_of(base) if k_feat is None else k_feat
    aligned = align(alignment, moments, base, variant, k_feat=constant)
    result = prism_bound(
        moments,
        base,
        variant,
        rows=row_statistics(references, predictions, base, variant, labels),
        row_weights=row_weights,
        item_ids=item_ids,
        weights=weights,
        alignment=aligned,
        k_feat=constant,
    ).to_dict()
    if item_ids is None:
        reason = "no item_ids were given"
        return result | {"drifting_items": None, "reasons": result["reasons"] | {"drifting_items": reason}}
    contributions = item_contributions(
        references, predictions, item_ids, row_weights=row_weights, rotation=aligned.rotation
    )
    return result | {"drifting_items": [list(pair) for pair in contributions.largest(N_DRIFTING_ITEMS)]}


def _head(weight: Any, bias: Any, scale: float, softcap: float | None, name: str) -> Head:
    weight = read_column(Column(f"{name}_head", Kind.ROWS), weight)
    if bias is not None:
        bias = read_column(Column(f"{name}_bias", Kind.NUMBERS), bias)
    return Head(weight, bias=bias, scale=scale, softcap=softcap)
