"""Two softmaxes over the same tokens, compared block by block, from the logits of one and what the other adds.

With base logits v, a change u of them and p = softmax(v), everything asked for follows from p-weighted sums:
`log sum exp(v + u) = log sum exp(v) + E_p[u] + log E_p[exp(u - E_p[u])]`, and the last term is KL(base || variant).
It is summed as `E_p[exp(x) - 1 - x]`, whose terms are not negative, so a small drift keeps its digits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from hubaudit.stats.arrays import Array, Float64, namespace, to_numpy

__all__ = ["BlockStatistics", "Change", "PairStatistics", "combine_blocks", "compare_block", "log_mass"]

_WIDEST_SPREAD = 40.0
"""Beyond it, tokens whose probability underflows under the base may matter for the variant."""


@dataclasses.dataclass(frozen=True)
class Change:
    """How a change of logits moves the normaliser of each row, float64, (n,) or (blocks, n)."""

    mean: Float64
    """E_p[u]."""
    excess: Float64
    """log E_p[exp(u - E_p[u])], at least 0: the KL divergence where the block is the whole vocabulary."""


@dataclasses.dataclass(frozen=True)
class BlockStatistics:
    """Figures of each row over one block of tokens, (n,)."""

    log_total: Float64
    """log sum exp of the base's logits."""
    change: Change
    """Of the variant's logits against the base's."""
    hybrid: Change | None
    """Of the variant's features through the base's head against the base; None where it is the variant."""
    lowest: Float64
    """Smallest change of a logit."""
    highest: Float64
    """Largest change of a logit."""
    top_base: Float64
    """The base's largest logit."""
    top_base_token: npt.NDArray[np.int64]
    top_variant: Float64
    """The variant's largest logit."""
    top_variant_token: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class PairStatistics:
    """Figures of each row over all blocks, (n,)."""

    log_total: Float64
    """log sum exp of the base's logits."""
    change: Change
    hybrid: Change | None
    lowest: Float64
    highest: Float64
    top1_equal: npt.NDArray[np.bool_]

    @property
    def log_total_change(self) -> Float64:
        """The log-sum-exp of the variant's logits minus that of the base's."""
        return self.change.mean + self.change.excess


def compare_block(logits: Array, change: Array, hybrid: Array | None, *, first_token: int) -> BlockStatistics:
    """Compare over one block of tokens.

    Args:
        logits: The base's logits, (n, tokens).
        change: The variant's logits minus these.
        hybrid: The hybrid's logits minus the base's; None where the heads are the same.
        first_token: Id of the block's first token.

    Returns:
        The sums that `combine_blocks` needs.
    """
    xp = namespace(logits)
    top_base_token = xp.argmax(logits, axis=1)
    top_base = xp.take_along_axis(logits, top_base_token[:, None], axis=1)
    mass = xp.exp(logits - top_base)
    total = xp.sum(mass, axis=1)
    log_total = to_numpy(top_base[:, 0]) + np.log(to_numpy(total))
    variant = logits + change
    top_variant_token = xp.argmax(variant, axis=1)
    top_variant = xp.take_along_axis(variant, top_variant_token[:, None], axis=1)
    lowest, highest = to_numpy(xp.min(change, axis=1)), to_numpy(xp.max(change, axis=1))
    moved = _change(mass, total, change)
    if (wide := ~(highest - lowest <= _WIDEST_SPREAD)).any():
        moved = _replace_wide(moved, wide, log_total, variant, top_variant)
    moved_hybrid = None
    if hybrid is not None:
        moved_hybrid = _change(mass, total, hybrid)
        if (wide := ~(to_numpy(xp.max(hybrid, axis=1) - xp.min(hybrid, axis=1)) <= _WIDEST_SPREAD)).any():
            mixed = logits + hybrid
            moved_hybrid = _replace_wide(moved_hybrid, wide, log_total, mixed, xp.max(mixed, axis=1, keepdims=True))
    return BlockStatistics(
        log_total=log_total,
        change=moved,
        hybrid=moved_hybrid,
        lowest=lowest,
        highest=highest,
        top_base=to_numpy(top_base[:, 0]),
        top_base_token=to_numpy(top_base_token, np.int64) + first_token,
        top_variant=to_numpy(top_variant[:, 0]),
        top_variant_token=to_numpy(top_variant_token, np.int64) + first_token,
    )


def log_mass(logits: Array) -> Float64:
    """The log-sum-exp of each row, (n,)."""
    xp = namespace(logits)
    return _log_total(logits, xp.max(logits, axis=1, keepdims=True))


def combine_blocks(blocks: Sequence[BlockStatistics]) -> PairStatistics:
    """Join the blocks of all tokens, in float64; the order of the blocks changes the result by rounding only."""

    def stack(name: str) -> npt.NDArray[np.float64]:
        return np.stack([getattr(block, name) for block in blocks])

    log_totals = stack("log_total")
    log_total = logsumexp(log_totals, axis=0)
    shares = np.exp(log_totals - log_total)
    rows = np.arange(log_totals.shape[1])
    first_base = stack("top_base_token")[stack("top_base").argmax(axis=0), rows]
    first_variant = stack("top_variant_token")[stack("top_variant").argmax(axis=0), rows]
    hybrids = [block.hybrid for block in blocks if block.hybrid is not None]
    return PairStatistics(
        log_total=log_total,
        change=_join([block.change for block in blocks], shares),
        hybrid=_join(hybrids, shares) if hybrids else None,
        lowest=stack("lowest").min(axis=0),
        highest=stack("highest").max(axis=0),
        top1_equal=first_base == first_variant,
    )


def _change(mass: Array, total: Array, change: Array) -> Change:
    xp = namespace(mass)
    mean = xp.sum(mass * change, axis=1) / total
    # Rows of a wider spread are computed anew from their logits; the limit only keeps exp from overflowing.
    centred = xp.clip(change - mean[:, None], None, 80.0)
    excess = xp.sum(mass * (xp.expm1(centred) - centred), axis=1) / total
    # expm1(x) >= x exactly; a last digit below it is rounding.
    return Change(to_numpy(mean), np.log1p(np.maximum(to_numpy(excess), 0.0)))


def _replace_wide(moved: Change, wide: npt.NDArray[np.bool_], log_total: Float64, changed: Array, top: Array) -> Change:
    """The excess from both normalisers themselves, where the change is wide enough for this to be the exacter way."""
    direct = _log_total(changed, top) - log_total - moved.mean
    return Change(moved.mean, np.where(wide, np.maximum(direct, 0.0), moved.excess))


def _log_total(logits: Array, top: Array) -> Float64:
    xp = namespace(logits)
    total: Float64 = to_numpy(top[:, 0]) + np.log(to_numpy(xp.sum(xp.exp(logits - top), axis=1)))
    return total


def _join(changes: Sequence[Change], shares: Float64) -> Change:
    """One change from those of the blocks and the base's share of probability in each, both (blocks, n)."""
    means, excesses = np.stack([change.mean for change in changes]), np.stack([change.excess for change in changes])
    mean = (shares * means).sum(axis=0)
    apart = means - mean
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        terms = np.expm1(apart) - apart + np.exp(apart) * np.expm1(excesses)
        small = np.log1p((shares * terms).sum(axis=0))
        large = logsumexp(np.log(shares) + apart + excesses, axis=0)
    widest = np.maximum(np.abs(apart), excesses).max(axis=0)
    return Change(mean, np.where(widest < 1.0, small, large))
