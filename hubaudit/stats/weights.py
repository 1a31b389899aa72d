"""How much each token counts: every item the same, or every token the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Float64, to_numpy

__all__ = ["RowWeights", "check_row_weights", "item_index", "row_weights_of"]

RowWeights = Literal["item", "token"]
"""`item`: 1 / (items x tokens of the item), the paper's autoregressive risk; `token`: 1 / tokens."""


def item_index(item_ids: Sequence[Any] | npt.NDArray[Any] | None, n_rows: int) -> npt.NDArray[np.int64]:
    """Number the items of the rows 0, 1, ... in the order of their first row.

    Args:
        item_ids: The item that each row belongs to, (n,), strings or integers; None makes each row its own item.
        n_rows: Rows there are.

    Returns:
        The number of each row's item, (n,).

    Raises:
        InputError: If there is not one id a row.
    """
    if item_ids is None:
        return np.arange(n_rows)
    if len(item_ids) != n_rows:
        raise InputError(f"expected one item id a row, {n_rows}, got {len(item_ids)}; give each token its item's id")
    ids = item_ids.tolist() if hasattr(item_ids, "tolist") else list(item_ids)
    numbers: dict[Any, int] = {}
    return np.fromiter((numbers.setdefault(item, len(numbers)) for item in ids), np.int64, n_rows)


def row_weights_of(
    item_ids: Sequence[Any] | npt.NDArray[Any] | None, n_rows: int, *, weights: RowWeights = "item"
) -> Float64:
    """Weights of the rows that add up to 1.

    Args:
        item_ids: The item that each row belongs to, (n,); None makes each row its own item.
        n_rows: Rows there are, at least 1.
        weights: `item` gives each item the same total, spread evenly over its rows; `token` each row the same.

    Returns:
        Weights, (n,), positive, sum 1.

    Raises:
        InputError: If there are no rows, not one id a row, or another word for `weights`.

    Source:
        PRISM, Eq. (6) and appendix D.

    Example:
        >>> row_weights_of(["a", "a", "b"], 3).tolist()
        [0.25, 0.25, 0.5]
    """
    if n_rows < 1:
        raise InputError("expected at least one row, got none; give one row of features for each scored token")
    index = item_index(item_ids, n_rows)
    if weights == "token":
        return np.full(n_rows, 1.0 / n_rows)
    if weights != "item":
        raise InputError(
            f"expected weights 'item' or 'token', got {weights!r}; use 'item' unless items have one length"
        )
    sizes = np.bincount(index)
    return np.asarray(1.0 / (len(sizes) * sizes[index]), dtype=np.float64)


def check_row_weights(values: Any, n_rows: int) -> Float64:
    """Read weights of rows.

    Args:
        values: Weights, (n,), of any positive total; None for equal ones.
        n_rows: Rows there are.

    Returns:
        The weights as given, (n,), float64.

    Raises:
        InputError: If there is not one a row, one is negative or not finite, or all are 0.
    """
    if values is None:
        return np.ones(n_rows)
    weights = to_numpy(values)
    if weights.shape != (n_rows,):
        raise InputError(f"expected row weights of shape ({n_rows},), got {weights.shape}; give one weight a row")
    if not np.isfinite(weights).all() or (weights < 0).any():
        row = int(np.flatnonzero(~np.isfinite(weights) | (weights < 0))[0])
        raise InputError(f"expected finite weights of at least 0, got {weights[row]} in row {row}; correct that weight")
    if not weights.any():
        raise InputError("expected a positive weight in at least one row, got only zeros; give some row a weight")
    return weights
