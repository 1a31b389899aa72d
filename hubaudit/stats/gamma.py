"""The head's part of the bound: how far two heads' logits differ on the variant's features."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg.lapack

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Array, Float64, namespace, place_like
from hubaudit.stats.head import Head
from hubaudit.stats.moments import PrismMoments

__all__ = ["K_PRED", "check_same_vocabulary", "head_discrepancy", "why_no_gamma"]

K_PRED = math.sqrt(2.0)
"""Lipschitz constant of cross-entropy in the logits (PRISM, appendix A.5)."""
_BLOCK_NUMBERS = 2**22


def check_same_vocabulary(base_head: Head, variant_head: Head) -> None:
    """Raise InputError unless both heads have the same tokens and the same width."""
    ours, theirs = (base_head.n_rows, base_head.width), (variant_head.n_rows, variant_head.width)
    if ours != theirs:
        raise InputError(
            f"expected a variant head of {ours[0]} rows of width {ours[1]} as the base's, got {theirs[0]} of "
            f"{theirs[1]}; keep the common tokens of both with Head.narrow"
        )


def why_no_gamma(base_head: Head, variant_head: Head) -> str | None:
    """Why gamma cannot be bounded for these heads, or None where it can."""
    if base_head.softcap != variant_head.softcap:
        return (
            f"the heads cap their logits differently (base {base_head.softcap}, variant {variant_head.softcap}), "
            "so logits may differ without any difference of the matrices"
        )
    return None


def head_discrepancy(
    moments: PrismMoments, base_head: Head, variant_head: Head, *, rotation: Float64 | None = None
) -> float:
    """gamma, an upper bound of the risk that the change of head moves.

    `sqrt(2) * sqrt(mean_i ||z_i W H_T' - z_i H_P'||^2)` over the variant's rows z_i, as the norm of the difference
    of the heads, formed first, times a factor of `Sigma_P`; never a difference of Gram matrices. Scales are folded
    into the heads; a bias is one more feature that is always 1, which W leaves alone. A soft cap has slope at most
    1, so a cap that both heads share leaves this an upper bound.

    Args:
        moments: The moments of the rows.
        base_head: H_T.
        variant_head: H_P, of the same tokens.
        rotation: W, orthogonal, (d, d); None for the identity.

    Returns:
        gamma in nats, at least 0; exactly 0 for equal heads under the identity.

    Raises:
        InputError: If vocabularies, widths or soft caps of the heads differ.

    Source:
        PRISM, Eq. (35).
    """
    check_same_vocabulary(base_head, variant_head)
    if reason := why_no_gamma(base_head, variant_head):
        raise InputError(f"expected heads with one soft cap, got two: {reason}; leave gamma undefined for this pair")
    if rotation is None and base_head.same_map(variant_head):
        return 0.0
    factor = _factor(moments)
    turn = None if rotation is None else place_like(rotation, base_head.weight)
    factor_array = place_like(factor, base_head.weight)
    total = 0.0
    step = max(1, _BLOCK_NUMBERS // base_head.width)
    for start in range(0, base_head.n_rows, step):
        block = _difference(base_head, variant_head, start, min(start + step, base_head.n_rows), turn)
        xp = namespace(block)
        total += float(xp.sum((block @ factor_array) ** 2))
    return K_PRED * math.sqrt(total)


def _difference(base_head: Head, variant_head: Head, start: int, stop: int, turn: Array | None) -> Array:
    """Rows of `[H_T W' - H_P, b_T - b_P]` in float64, (rows, d + 1)."""
    base = base_head.rows(start, stop, "float64")
    xp = namespace(base)
    variant = place_like(variant_head.rows(start, stop, "float64"), base)
    base_bias = base_head.biases(start, stop, "float64")
    bias = base_bias - place_like(variant_head.biases(start, stop, "float64"), base)
    turned = base if turn is None else base @ turn.T
    return xp.concat([turned - variant, bias[:, None]], axis=1)


def _factor(moments: PrismMoments) -> Float64:
    """L with `L L'` the second moment of the variant's rows and a constant 1, (d + 1, rank).

    Cholesky with pivots: directions that the rows never take are left out, instead of adding the square root of
    their rounding.
    """
    mean = moments.mean_variant[:, None]
    moment = np.block([[moments.sigma_variant, mean], [mean.T, np.ones((1, 1))]])
    lower, pivots, rank, _ = scipy.linalg.lapack.dpstrf(moment, lower=1)
    factor = np.empty((len(moment), rank))
    factor[pivots - 1] = np.tril(lower)[:, :rank]
    return factor
