"""Checks of decision values, labels and features, with the row that is wrong in the message."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError

__all__ = ["check_features", "check_labels", "check_scores"]

Vector = npt.NDArray[np.float64]


def check_labels(labels: npt.ArrayLike, *, at_least: int = 1) -> npt.NDArray[np.bool_]:
    """Read binary labels.

    Args:
        labels: Classes, (n,), 0 or 1 (or booleans).
        at_least: Items that each class must have.

    Returns:
        True where the label is 1, (n,).

    Raises:
        InputError: If there are none, they are not one-dimensional, a value is neither 0 nor 1, or a class has
            too few items.
    """
    values = _numpy(labels)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"expected labels of shape (n,) with n >= 1, got {values.shape}; give one label an item")
    wrong = np.flatnonzero(~np.isin(values, (0, 1)))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"expected labels 0 or 1, got {values[row].item()!r} in row {row}; code the classes as 0 and 1"
        )
    positive: npt.NDArray[np.bool_] = values.astype(np.int64) == 1
    n_pos = int(positive.sum())
    if min(n_pos, len(positive) - n_pos) < at_least:
        raise InputError(
            f"expected at least {at_least} items of each class, got {len(positive) - n_pos} of class 0 and "
            f"{n_pos} of class 1; give items of both classes"
        )
    return positive


def check_scores(scores: npt.ArrayLike, n: int, name: str) -> Vector:
    """Read decision values as float64.

    Args:
        scores: Decision values, (n,): a list, numpy array or torch tensor of any float type.
        n: Number of labels.
        name: What the scores are, for the message.

    Returns:
        The values, (n,).

    Raises:
        InputError: If the shape is not (n,) or a value is NaN or infinite.
    """
    values = _numpy(scores).astype(np.float64)
    if values.shape != (n,):
        raise InputError(f"expected {name} of shape ({n},), one a label, got {values.shape}; join them by item first")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(bad[0])
        raise InputError(f"expected finite {name}, got {values[row]} in row {row}; leave the item out of both models")
    return values


def check_features(features: Any, n: int, name: str) -> npt.NDArray[np.float64]:
    """Read features as float64.

    Args:
        features: Activations, (n, d): nested lists, a numpy array or a torch tensor of any float type.
        n: Number of labels.
        name: What the features are, for the message.

    Returns:
        The values, (n, d).

    Raises:
        InputError: If the shape is not (n, d) with d >= 1, or a value is NaN or infinite.
    """
    values = _numpy(features).astype(np.float64)
    if values.ndim != 2 or values.shape[0] != n or values.shape[1] == 0:
        raise InputError(f"expected {name} of shape ({n}, d), got {values.shape}; give one row a label")
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise InputError(f"expected finite {name}, got NaN or infinity in row {int(bad[0])}; leave the item out")
    return values


def _numpy(values: Any) -> npt.NDArray[Any]:
    """As a numpy array; tensors come from any device, bfloat16 by way of float32."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        return np.asarray(values.float() if str(values.dtype) == "torch.bfloat16" else values)
    try:
        array = np.asarray(values)
    except ValueError as exc:
        raise InputError("expected an array of numbers, got rows of different lengths; pad or drop them") from exc
    if array.dtype.kind not in "biuf":
        raise InputError(f"expected an array of numbers, got {array.dtype}; convert the values to numbers")
    return array
