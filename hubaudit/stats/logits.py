"""What both models' distributions over the whole vocabulary say about each token, from features and heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Array, Float64, as_array, check_rows, namespace, place_like, to_numpy
from hubaudit.stats.head import Head
from hubaudit.stats.softmax_pair import BlockStatistics, PairStatistics, combine_blocks, compare_block, log_mass

__all__ = ["RowStatistics", "row_statistics"]

_CHUNK_NUMBERS = 2**22
"""Features of one model that are held in float32 at once: 16 MB."""
_TILE_ROWS = 512
_TILE_TOKENS = 4096
"""Tokens whose head rows are cast at once, and with `_TILE_ROWS` the logits that exist at once: 8 MB an array."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowStatistics:
    """Figures of each scored position, float64 arrays of shape (n,) in nats unless said otherwise.

    `a_y = log p_base(y) - log p_variant(y)`. Rows with `finite` False hold NaN. The log-probabilities of the label
    are None where no labels were given, `logp_hybrid` also where the two models' features differ in width.
    """

    kl: Float64
    """KL(base || variant)."""
    top1_equal: npt.NDArray[np.bool_]
    """Whether both models put the same token first."""
    logp_base: Float64 | None
    """Log-probability of the label under the base."""
    logp_variant: Float64 | None
    """Log-probability of the label under the variant."""
    logp_hybrid: Float64 | None
    """Log-probability of the label for the variant's features through the base's head."""
    max_log_ratio: Float64
    """max_y a_y."""
    max_neg_log_ratio: Float64
    """max_y -a_y."""
    extra_mass_base: Float64
    """Probability that the base gives to tokens outside the common vocabulary."""
    extra_mass_variant: Float64
    """Probability that the variant gives to tokens outside the common vocabulary."""
    finite: npt.NDArray[np.bool_]
    """Whether the features and all that follows from them are finite numbers."""

    def __len__(self) -> int:
        return len(self.kl)

    def take(self, rows: Any) -> RowStatistics:
        """The rows that a boolean mask or an index array selects."""
        taken = {name: value[rows] for name, value in vars(self).items() if value is not None}
        return dataclasses.replace(self, **taken)

    def struck_out(self, finite: npt.NDArray[np.bool_]) -> RowStatistics:
        """The same with NaN in every row that `finite` rules out or that holds a value that is not finite."""
        numbers = {name: value for name, value in vars(self).items() if getattr(value, "dtype", None) == np.float64}
        kept = finite & self.finite & np.isfinite(np.stack(list(numbers.values()))).all(axis=0)
        struck = {name: np.where(kept, value, np.nan) for name, value in numbers.items()}
        return dataclasses.replace(self, **struck, top1_equal=self.top1_equal & kept, finite=kept)

    @staticmethod
    def concat(parts: Sequence[RowStatistics]) -> RowStatistics:
        """One after the other.

        Raises:
            InputError: If there are none, or only some of them have labels.
        """
        if not parts:
            raise InputError("expected at least one part to join, got none; compute row statistics first")
        joined: dict[str, Any] = {}
        for field in dataclasses.fields(RowStatistics):
            values = [getattr(part, field.name) for part in parts]
            missing = sum(value is None for value in values)
            if missing not in (0, len(values)):
                raise InputError(f"expected {field.name} in all parts or in none, got {missing} without; score alike")
            joined[field.name] = None if missing else np.concatenate(values)
        return RowStatistics(**joined)


def row_statistics(
    z_base: Any,
    z_variant: Any,
    base_head: Head,
    variant_head: Head | None = None,
    labels: Any = None,
    *,
    n_common: int | None = None,
) -> RowStatistics:
    """Compare two models' distributions at each position, over the whole vocabulary.

    The logits exist for a tile of positions and tokens at a time; the tiles follow from the shapes alone. The change
    of the logits is computed from the change of the features and of the head, not as a difference of logits, so
    small drifts keep their digits and equal models give exactly 0. Arithmetic is in float32, and in float64 where
    features and heads all are; sums over tiles are in float64.

    Args:
        z_base: The base's features at the head's input, (n, d_base): numpy or torch, any float dtype.
        z_variant: The variant's features of the same positions, (n, d_variant).
        base_head: The base's head, (V_base, d_base); its library and device do the work.
        variant_head: The variant's head, (V_variant, d_variant); None where it is the base's.
        labels: The token that follows each position, (n,), ids below `n_common`; None for positions without.
        n_common: Tokens that mean the same in both vocabularies, the first ones of each; the rest leaves both
            softmaxes, and its mass is reported. None where the heads have equally many rows.

    Returns:
        One value a position. A position whose features or logits are not finite is marked and holds NaN.

    Raises:
        InputError: If rows, widths or labels do not fit the heads, or the vocabularies differ and `n_common` is not
            given.

    Example:
        >>> head = Head([[1.0, 0.0], [0.0, 1.0]])
        >>> rows = row_statistics([[0.0, 0.0]], [[1.0, 1.0]], head, labels=[1])
        >>> float(rows.kl[0]), round(float(rows.logp_base[0]), 6)
        (0.0, -0.693147)
    """
    variant_head = base_head if variant_head is None else variant_head
    base, variant = check_rows(z_base, "base features"), check_rows(z_variant, "variant features")
    base_head.check_width(base, "base features")
    variant_head.check_width(variant, "variant features")
    if base.shape[0] != variant.shape[0]:
        raise InputError(
            f"expected features of the same positions, got {base.shape[0]} base rows and {variant.shape[0]} variant "
            "rows; feed both models the same token ids"
        )
    n_common = _common(base_head, variant_head, n_common)
    ids = _labels(labels, int(base.shape[0]), n_common)
    pair = _HeadPair(base_head, variant_head, n_common, _dtype(base, variant, base_head, variant_head))
    step = max(1, _CHUNK_NUMBERS // max(base_head.width, variant_head.width))
    parts = []
    for start in range(0, int(base.shape[0]), step):
        rows = slice(start, start + step)
        parts.append(_chunk(base[rows], variant[rows], pair, None if ids is None else ids[rows]))
    return RowStatistics.concat(parts)


def _common(base_head: Head, variant_head: Head, n_common: int | None) -> int:
    smaller = min(base_head.n_rows, variant_head.n_rows)
    if n_common is None and base_head.n_rows != variant_head.n_rows:
        raise InputError(
            f"expected heads of equally many tokens, got {base_head.n_rows} (base), {variant_head.n_rows} (variant); "
            "check that the first ids mean the same tokens and give n_common"
        )
    n_common = smaller if n_common is None else n_common
    if not 1 <= n_common <= smaller:
        raise InputError(f"expected 1 to {smaller} common tokens, got {n_common}; count the ids that both heads have")
    return n_common


def _labels(labels: Any, n_rows: int, n_common: int) -> npt.NDArray[np.int64] | None:
    if labels is None:
        return None
    given = as_array(labels)
    ids = to_numpy(given, np.int64)
    if ids.shape != (n_rows,) or "int" not in str(given.dtype):
        raise InputError(
            f"expected integer labels of shape ({n_rows},), got {given.dtype} of shape {ids.shape}; give the id of "
            "the token that follows each position"
        )
    wrong = np.flatnonzero((ids < 0) | (ids >= n_common))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"expected labels from 0 to {n_common - 1}, the tokens that both heads have, got {ids[row]} in row {row}; "
            "leave such positions out, or check that labels and head belong to one tokenizer"
        )
    return ids


def _dtype(base: Array, variant: Array, base_head: Head, variant_head: Head) -> str:
    inputs = (base, variant, base_head.weight, variant_head.weight)
    return "float64" if all("float64" in str(x.dtype) for x in inputs) else "float32"


class _HeadPair:
    """Both heads over the common tokens, in blocks: the base's rows, and what the variant's add to them."""

    def __init__(self, base: Head, variant: Head, n_common: int, dtype: str) -> None:
        self.base, self.variant, self.n_common, self.dtype = base, variant, n_common, dtype
        self.same_width = base.width == variant.width
        self.same = self.same_width and base.narrow(n_common).same_map(variant.narrow(n_common))

    def place(self, rows: Array) -> Array:
        xp = namespace(self.base.weight)
        return xp.astype(place_like(rows, self.base.weight), getattr(xp, self.dtype))

    def rows(self, head: Head, start: int, stop: int) -> tuple[Array, Array]:
        weight, bias = head.rows(start, stop, self.dtype), head.biases(start, stop, self.dtype)
        return place_like(weight, self.base.weight), place_like(bias, self.base.weight)

    def block(self, start: int, stop: int) -> _HeadBlock:
        weight, bias = self.rows(self.base, start, stop)
        if self.same:
            return _HeadBlock(self, start, weight, bias, None)
        other_weight, other_bias = self.rows(self.variant, start, stop)
        if self.same_width:
            return _HeadBlock(self, start, weight, bias, (other_weight - weight, other_bias - bias))
        return _HeadBlock(self, start, weight, bias, (other_weight, other_bias))


@dataclasses.dataclass(frozen=True)
class _HeadBlock:
    """Rows of both heads for some tokens, cast once for many positions."""

    pair: _HeadPair
    first_token: int
    weight: Array
    bias: Array
    other: tuple[Array, Array] | None
    """What the variant's head adds to weight and bias; the variant's own where widths differ; None where the same."""

    def tile(self, z: Array, x: Array) -> tuple[Array, Array, Array | None]:
        """The base's logits, (rows, tokens), and what the variant and the hybrid add to them.

        The hybrid is None where it is the variant (equal heads) or does not exist (features of another width).
        """
        pair, raw = self.pair, z @ self.weight.T + self.bias
        logits = pair.base.cap(raw)
        if not pair.same_width and self.other is not None:
            return logits, pair.variant.cap(x @ self.other[0].T + self.other[1]) - logits, None
        by_features = (x - z) @ self.weight.T
        if self.other is None:
            return logits, _capped_change(raw, by_features, pair.base.softcap), None
        by_both = by_features + x @ self.other[0].T + self.other[1]
        hybrid = _capped_change(raw, by_features, pair.base.softcap)
        if pair.base.softcap == pair.variant.softcap:
            return logits, _capped_change(raw, by_both, pair.base.softcap), hybrid
        return logits, pair.variant.cap(raw + by_both) - logits, hybrid


def _capped_change(raw: Array, change: Array, softcap: float | None) -> Array:
    """What `change` of uncapped logits does to capped ones: tanh x - tanh y = tanh(x - y)(1 - tanh x tanh y)."""
    if softcap is None:
        return change
    tanh = namespace(raw).tanh
    return softcap * tanh(change / softcap) * (1 - tanh(raw / softcap) * tanh((raw + change) / softcap))


def _chunk(base: Array, variant: Array, pair: _HeadPair, ids: npt.NDArray[np.int64] | None) -> RowStatistics:
    """The statistics of so many rows that their features fit in memory in the dtype of the arithmetic."""
    z, x = pair.place(base), pair.place(variant)
    xp = namespace(z)
    finite = xp.all(xp.isfinite(z), axis=1) & xp.all(xp.isfinite(x), axis=1)
    # Zeros keep a bad row from raising warnings; its figures are struck out at the end.
    z, x = (xp.where(finite[:, None], rows, xp.zeros_like(rows)) for rows in (z, x))
    tiles = [slice(first, first + _TILE_ROWS) for first in range(0, int(z.shape[0]), _TILE_ROWS)]
    blocks: list[list[BlockStatistics]] = [[] for _ in tiles]
    # The label's logit under the base, and what the variant and the hybrid add to it.
    labelled = np.zeros((3, int(z.shape[0])))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, pair.n_common, _TILE_TOKENS):
            block = pair.block(start, min(start + _TILE_TOKENS, pair.n_common))
            for found, rows in zip(blocks, tiles, strict=True):
                logits, change, hybrid = block.tile(z[rows], x[rows])
                found.append(compare_block(logits, change, hybrid, first_token=start))
                if ids is not None:
                    at = ids[rows] - start
                    labelled[0, rows] += _picked(logits, at)
                    labelled[1, rows] += _picked(change, at)
                    labelled[2, rows] += 0.0 if hybrid is None else _picked(hybrid, at)
        outside = [_outside(z, pair, pair.base, tiles), _outside(x, pair, pair.variant, tiles)]
    parts = [
        _rows(combine_blocks(found), labelled[:, rows], [mass[rows] for mass in outside], pair, ids is not None)
        for found, rows in zip(blocks, tiles, strict=True)
    ]
    return RowStatistics.concat(parts).struck_out(to_numpy(finite, np.bool_))


def _picked(values: Array, columns: npt.NDArray[np.int64]) -> Float64:
    """One entry of each row, (n,); 0 where the column lies outside."""
    inside = (columns >= 0) & (columns < int(values.shape[1]))
    index = place_like(np.where(inside, columns, 0)[:, None], values)
    return np.where(inside, to_numpy(namespace(values).take_along_axis(values, index, axis=1))[:, 0], 0.0)


def _outside(z: Array, pair: _HeadPair, head: Head, tiles: Sequence[slice]) -> Float64:
    """The log-sum-exp of the logits of one model's tokens outside the common vocabulary, (n,)."""
    total = np.full(int(z.shape[0]), -np.inf)
    for start in range(pair.n_common, head.n_rows, _TILE_TOKENS):
        weight, bias = pair.rows(head, start, min(start + _TILE_TOKENS, head.n_rows))
        for rows in tiles:
            total[rows] = np.logaddexp(total[rows], log_mass(head.cap(z[rows] @ weight.T + bias)))
    return total


def _rows(
    both: PairStatistics, labelled: Float64, outside: Sequence[Float64], pair: _HeadPair, has_labels: bool
) -> RowStatistics:
    moved = both.change.mean + both.change.excess
    totals = both.log_total, both.log_total + moved
    extra = [np.exp(mass - np.logaddexp(mass, total)) for mass, total in zip(outside, totals, strict=True)]
    ratio, neg_ratio = moved - both.lowest, both.highest - moved
    logp: list[Float64 | None] = [None, None, None]
    if has_labels:
        base = labelled[0] - both.log_total
        log_ratio = moved - labelled[1]
        # The label is one of the tokens: rounding must not lift its ratio above the largest.
        ratio, neg_ratio = np.maximum(ratio, log_ratio), np.maximum(neg_ratio, -log_ratio)
        logp[:2] = base, base - log_ratio
        if both.hybrid is not None:
            logp[2] = base - (both.hybrid.mean + both.hybrid.excess - labelled[2])
        elif pair.same:
            logp[2] = logp[1]
    return RowStatistics(
        kl=both.change.excess,
        top1_equal=both.top1_equal,
        logp_base=logp[0],
        logp_variant=logp[1],
        logp_hybrid=logp[2],
        max_log_ratio=ratio,
        max_neg_log_ratio=neg_ratio,
        extra_mass_base=extra[0],
        extra_mass_variant=extra[1],
        finite=np.ones(len(moved), dtype=np.bool_),
    )
