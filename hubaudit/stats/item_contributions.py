"""Which items the drift of the features comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.alignment import check_rotation
from hubaudit.stats.arrays import Float64, as_float64, check_finite_rows, check_rows, namespace, place_like, to_numpy
from hubaudit.stats.weights import check_row_weights, item_index, row_weights_of

__all__ = ["ItemContributions", "item_contributions"]

_CHUNK_NUMBERS = 2**20


@dataclasses.dataclass(frozen=True)
class ItemContributions:
    """What each item adds to D, the mean square drift of the features."""

    item_ids: tuple[Hashable, ...]
    """Items in the order of their first row."""
    contribution: Float64
    """Weighted sum of |z_T - z_P W|^2 over the rows of each item, (items,); the sum over items is D."""

    def largest(self, count: int) -> list[tuple[Hashable, float]]:
        """The items that drift most and what each adds to D, largest first."""
        order = np.argsort(-self.contribution, kind="stable")[:count]
        return [(self.item_ids[item], float(self.contribution[item])) for item in order]


def item_contributions(
    z_base: Any,
    z_variant: Any,
    item_ids: Sequence[Hashable] | npt.NDArray[Any],
    *,
    row_weights: Any = None,
    rotation: Any = None,
) -> ItemContributions:
    """Split D into what each item adds to it.

    Args:
        z_base: The base's features, (n, d): numpy or torch, any float dtype.
        z_variant: The variant's features of the same tokens, (n, d).
        item_ids: Item of each row, (n,).
        row_weights: Weights of the rows, (n,), of any total; None gives every item the same weight, as `prism_bound`
            does by default.
        rotation: The alignment W, orthogonal, (d, d); None for the identity.

    Returns:
        The items and their contributions, in squared feature units.

    Raises:
        InputError: If shapes differ, a value is NaN or infinite, ids or weights are not one a row, or W is not
            orthogonal.

    Source:
        PRISM, Eq. (2), term by term.

    Example:
        >>> item_contributions([[3.0], [1.0], [2.0]], [[1.0], [1.0], [3.0]], ["a", "a", "b"]).largest(2)
        [('a', 1.0), ('b', 0.5)]
    """
    base, variant = check_rows(z_base, "base features"), check_rows(z_variant, "variant features")
    if tuple(base.shape) != tuple(variant.shape):
        raise InputError(
            f"expected the same tokens of both models, got base features of shape {tuple(base.shape)} and variant "
            f"features of shape {tuple(variant.shape)}; feed both models the same token ids"
        )
    n_rows, d = (int(side) for side in base.shape)
    check_finite_rows(base, "base features")
    check_finite_rows(variant, "variant features")
    turn = None if rotation is None else check_rotation(rotation, d)
    index = item_index(item_ids, n_rows)
    weights = row_weights_of(item_ids, n_rows) if row_weights is None else check_row_weights(row_weights, n_rows)
    squares = np.empty(n_rows)
    step = max(1, _CHUNK_NUMBERS // d)
    for start in range(0, n_rows, step):
        x = as_float64(variant[start : start + step])
        z = as_float64(place_like(base[start : start + step], variant))
        drift = z - (x if turn is None else x @ place_like(turn, x))
        squares[start : start + step] = to_numpy(namespace(drift).sum(drift**2, axis=1))
    _, first = np.unique(index, return_index=True)
    ids = item_ids.tolist() if hasattr(item_ids, "tolist") else item_ids
    contribution: Float64 = np.bincount(index, weights=weights / weights.sum() * squares).astype(np.float64)
    return ItemContributions(tuple(ids[row] for row in first), contribution)
