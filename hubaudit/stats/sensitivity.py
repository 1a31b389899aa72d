"""How much more a model minds a change of some projections than of others, with intervals over items."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from hubaudit.stats.arrays import Float64
from hubaudit.stats.shape_drift import Estimate, jackknife

__all__ = ["FIGURES", "SwapSums", "estimate_figure", "sensitivity_ratio"]

FIGURES = ("attention_kl", "one_minus_omega", "kl")
"""KL of the attention weights, shape drift of the head's input, KL of the next-token distributions."""


@dataclasses.dataclass(frozen=True)
class SwapSums:
    """What one swap changes, summed over each item's tokens, arrays of shape (items,)."""

    attention_kl: Float64
    """KL(base || swapped) of the attention weights, mean over heads and blocks, summed over positions, nats."""
    positions: Float64
    """Positions of each item."""
    kl: Float64
    """KL(base || swapped) of the next-token distributions, summed over scored positions, nats."""
    base: Float64
    """Squared norm of the base's features at the scored positions, summed."""
    now: Float64
    """The same of the swapped model's."""
    drift: Float64
    """Squared norm of their difference, summed: small drifts keep their digits, none is exactly 0."""
    tokens: Float64
    """Scored positions of each item."""


def estimate_figure(sums: SwapSums, name: str) -> Estimate:
    """One of `FIGURES` over all tokens, with a jackknife interval over items on the logarithm.

    Args:
        sums: What a swap changed.
        name: Which figure.

    Returns:
        Nats a token for the KLs, else `1 - Omega`; without an interval where nothing changed.
    """
    return _estimate([sums], [], name)


def sensitivity_ratio(upper: Sequence[SwapSums], lower: Sequence[SwapSums], name: str) -> Estimate:
    """Sum of a figure over some swaps, over its sum over others, as (q + k) / (v + o).

    Args:
        upper: Swaps of the numerator, of the same items in the same order.
        lower: Swaps of the denominator.
        name: One of `FIGURES`.

    Returns:
        The ratio with a jackknife interval over items on the logarithm, Student's t; undefined where the denominator
        is 0.

    Source:
        Miller (1974) for the jackknife; its coverage on this kind of figure: `estimate_shape_drift`.
    """
    return _estimate(upper, lower, name)


def _estimate(upper: Sequence[SwapSums], lower: Sequence[SwapSums], name: str) -> Estimate:
    n = len(upper[0].positions)

    def figure(one_out: bool) -> Float64:
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.sum([_value(sums, name, one_out) for sums in upper], axis=0)
            below = np.sum([_value(sums, name, one_out) for sums in lower], axis=0) if lower else 1.0
            ratio: Float64 = above / below
        return ratio

    value = float(figure(one_out=False))
    if not math.isfinite(value):
        return Estimate(None, None, None, n, "the projections of the denominator change nothing")
    degenerate = "nothing changed in all items or in all but one"
    return jackknife(value, figure(one_out=True), np.log, np.exp, unit="items", degenerate=degenerate)


def _value(sums: SwapSums, name: str, one_out: bool) -> Float64:
    def total(part: Float64) -> Float64:
        whole = part.sum()
        return np.asarray(whole - part if one_out else whole)

    if name == "attention_kl":
        return total(sums.attention_kl) / total(sums.positions)
    if name == "kl":
        return total(sums.kl) / total(sums.tokens)
    base, now = np.sqrt(total(sums.base)), np.sqrt(total(sums.now))
    return np.asarray(np.maximum(total(sums.drift) - np.square(base - now), 0.0) / (2 * base * now))
