"""Arrays of numpy or torch behind one small interface, so that nothing else here asks which it is."""

from __future__ import annotations

from typing import Any

import array_api_compat as _compat
import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError

__all__ = [
    "Array",
    "Float64",
    "as_array",
    "as_float64",
    "check_finite_rows",
    "check_rows",
    "namespace",
    "place_like",
    "to_numpy",
]

Array = Any
"""A numpy array or a torch tensor on any device; torch itself is never imported here."""
Float64 = npt.NDArray[np.float64]


def namespace(x: Array) -> Any:
    """The array-API namespace of `x`: numpy's or torch's functions under the same names."""
    return _compat.array_namespace(x)


def as_array(x: Any) -> Array:
    """`x` as it is where it is an array or tensor (without its gradient), else as a numpy array."""
    if _compat.is_array_api_obj(x):
        return x.detach() if getattr(x, "requires_grad", False) else x
    return np.asarray(x)


def to_numpy(x: Any, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """`x` in main memory as a numpy array of `dtype`; bfloat16 passes through float32, which holds it exactly."""
    x = as_array(x)
    if isinstance(x, np.ndarray):
        return x.astype(dtype, copy=False)
    xp = namespace(x)
    x = _compat.to_device(x, "cpu")
    if "bfloat16" in str(x.dtype):
        x = xp.astype(x, xp.float32)
    return np.asarray(x).astype(dtype, copy=False)


def as_float64(x: Array) -> Array:
    """`x` in float64: a numpy array where it lies in main memory, else a tensor on its own device."""
    if str(_compat.device(x)) == "cpu":
        return to_numpy(x)
    xp = namespace(x)
    return xp.astype(x, xp.float64)


def place_like(x: Any, like: Array) -> Array:
    """`x` in the library and on the device of `like`, its values unchanged; bfloat16 becomes float32 in numpy."""
    x = as_array(x)
    if isinstance(like, np.ndarray):
        if isinstance(x, np.ndarray):
            return x
        narrow = "bfloat16" in str(x.dtype)
        return to_numpy(x, np.float32) if narrow else np.asarray(_compat.to_device(x, "cpu"))
    if isinstance(x, np.ndarray):
        x = namespace(like).asarray(np.ascontiguousarray(x))
    device = _compat.device(like)
    return x if _compat.device(x) == device else _compat.to_device(x, device)


def check_rows(x: Any, name: str) -> Array:
    """Return `x` as an array of shape (n, d).

    Args:
        x: Anything with rows: nested lists, a numpy array, a torch tensor.
        name: What the rows are, for the message.

    Returns:
        The array, its values and precision unchanged.

    Raises:
        InputError: If it is not two-dimensional or a side is 0.
    """
    x = as_array(x)
    if x.ndim != 2 or 0 in tuple(x.shape):
        raise InputError(
            f"expected {name} of shape (rows, width) with at least one of each, got {tuple(x.shape)}; "
            "give one row of features for each token"
        )
    return x


def check_finite_rows(rows: Array, name: str, *, first_row: int = 0) -> None:
    """Refuse NaN and infinity.

    Args:
        rows: The values, (n, d).
        name: What the rows are, for the message.
        first_row: Index of the first row within all that was given so far.

    Raises:
        InputError: If a value is NaN or infinite; the first such row is named.
    """
    xp = namespace(rows)
    wrong = np.flatnonzero(~to_numpy(xp.all(xp.isfinite(rows), axis=1), np.bool_))
    if wrong.size:
        raise InputError(
            f"expected finite {name}, got NaN or infinity in row {first_row + int(wrong[0])} ({wrong.size} such "
            "rows in this batch); leave these rows out and say how many, or run the model in bfloat16 or float32"
        )
