"""How far the variant's next-token distributions are from the base's, over the whole vocabulary."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.stats.arrays import Float64
from hubaudit.stats.logits import RowStatistics
from hubaudit.stats.result import Result
from hubaudit.stats.weights import check_row_weights, item_index

__all__ = ["Divergence", "clustered_se", "divergence"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Divergence(Result):
    """Change of the next-token distribution; means and quantiles use the row weights."""

    kl: float | None
    """Mean KL divergence of the variant's from the base's distribution, KL(base || variant), in nats per token."""
    kl_se: float | None
    """Standard error of the mean KL divergence, clustered by item, in nats per token."""
    kl_median: float | None
    """Median KL divergence of a token position, in nats."""
    kl_p90: float | None
    """90th percentile of the KL divergence of a token position, in nats."""
    kl_p99: float | None
    """99th percentile of the KL divergence of a token position, in nats."""
    kl_max: float | None
    """Largest KL divergence of a token position, in nats."""
    top1_agreement: float | None
    """Share of positions where both models put the same token first, 0 to 1."""
    gold_delta_p_mean: float | None
    """Mean change of the probability of the token that really follows, variant minus base."""
    gold_delta_p_rms: float | None
    """Root mean square change of the probability of the token that really follows."""
    n_tokens: int
    """Number of token positions that the figures are over."""
    n_nonfinite: int
    """Number of positions left out because a model's features or logits were NaN or infinite there."""
    extra_mass_base: float | None
    """Mean probability that the base gives to tokens outside the common vocabulary; these leave the softmax."""
    extra_mass_variant: float | None
    """Mean probability that the variant gives to tokens outside the common vocabulary; these leave the softmax."""


def divergence(
    rows: RowStatistics,
    item_ids: Sequence[Any] | npt.NDArray[Any] | None = None,
    row_weights: Any = None,
) -> Divergence:
    """Summarise row statistics.

    Args:
        rows: Figures of each row, (n,), from `row_statistics`.
        item_ids: Item of each row, (n,), the clusters of the standard error; None makes each row an item.
        row_weights: Weights of the rows, (n,), of any total; None for equal ones. Rows that are not finite leave
            with their weight, and the rest is normalised again.

    Returns:
        The figures; those that are undefined are None with a reason. A quantile is the smallest value that at least
        this share of the weight does not exceed (`numpy.quantile`, `inverted_cdf`).

    Raises:
        InputError: If weights or ids are not one a row, or a weight is negative.

    Source:
        DESIGN.md, sections 2 and 3. Standard error of a weighted mean by item: the linearised sandwich with factor
        G / (G - 1), as `statsmodels` WLS with `cov_type="cluster"` up to that factor.

    Example:
        >>> from hubaudit.stats.head import Head
        >>> from hubaudit.stats.logits import row_statistics
        >>> z = [[1.0, 0.0], [0.0, 1.0]]
        >>> divergence(row_statistics(z, z, Head([[1.0, 0.0], [0.0, 1.0]]))).kl
        0.0
    """
    weights = check_row_weights(row_weights, len(rows))
    kept = rows.finite
    n_nonfinite = int((~kept).sum())
    reasons: dict[str, str] = {}
    if n_nonfinite:
        reasons["n_nonfinite"] = f"{n_nonfinite} of {len(rows)} positions were NaN or infinite; no mean includes them"
    values: dict[str, float | None] = dict.fromkeys(field.name for field in dataclasses.fields(Divergence))
    for name in ("n_tokens", "n_nonfinite", "reasons"):
        del values[name]
    if weights[kept].any():
        index = item_index(item_ids, len(rows))[kept]
        values |= _figures(rows.take(kept), weights[kept] / weights[kept].sum(), index, reasons)
    else:
        reasons |= dict.fromkeys(values, "no position is finite and has a positive weight")
    return Divergence(**values, n_tokens=int(kept.sum()), n_nonfinite=n_nonfinite, reasons=reasons)


def clustered_se(values: Float64, weights: Float64, index: npt.NDArray[np.int64]) -> float | None:
    """Standard error of a weighted mean whose rows depend on each other within items.

    Args:
        values: One value a row, (n,).
        weights: Weights that add up to 1, (n,).
        index: Number of each row's item, (n,).

    Returns:
        `sqrt(G / (G - 1) * sum_g (sum_{i in g} w_i (x_i - mean))^2)` for G items; None for fewer than two.
    """
    _, index = np.unique(index, return_inverse=True)
    scores = np.bincount(index, weights=weights * (values - weights @ values))
    n_items = len(scores)
    return float(np.sqrt(n_items / (n_items - 1) * (scores @ scores))) if n_items > 1 else None


def _figures(
    rows: RowStatistics, weights: Float64, index: npt.NDArray[np.int64], reasons: dict[str, str]
) -> dict[str, float | None]:
    quantiles = np.quantile(rows.kl, [0.5, 0.9, 0.99], weights=weights, method="inverted_cdf")
    values: dict[str, float | None] = {
        "kl": float(weights @ rows.kl),
        "kl_se": clustered_se(rows.kl, weights, index),
        "kl_median": float(quantiles[0]),
        "kl_p90": float(quantiles[1]),
        "kl_p99": float(quantiles[2]),
        "kl_max": float(rows.kl.max()),
        "top1_agreement": 1.0 - float(weights @ (1.0 - rows.top1_equal)),
        "extra_mass_base": float(weights @ rows.extra_mass_base),
        "extra_mass_variant": float(weights @ rows.extra_mass_variant),
    }
    if values["kl_se"] is None:
        reasons["kl_se"] = "a standard error by item needs at least two items"
    if rows.logp_base is None or rows.logp_variant is None:
        reasons |= dict.fromkeys(("gold_delta_p_mean", "gold_delta_p_rms"), "no labels were given")
        return values
    change = np.exp(rows.logp_variant) - np.exp(rows.logp_base)
    values["gold_delta_p_mean"] = float(weights @ change)
    values["gold_delta_p_rms"] = float(np.sqrt(weights @ change**2))
    return values
