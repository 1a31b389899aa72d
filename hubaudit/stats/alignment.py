"""Orthogonal maps W that turn the variant's features towards the base's before they are compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Float64, to_numpy

__all__ = ["Alignment", "check_rotation", "procrustes"]

_ORTHOGONAL_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class Alignment:
    """An alignment and how it was found."""

    name: str
    """`identity`, `procrustes`, `joint` or `custom`."""
    rotation: Float64 | None
    """W, (d, d); None for the identity."""


def check_rotation(rotation: Any, d: int) -> Float64:
    """Read a map W that must be orthogonal.

    Args:
        rotation: W, (d, d).
        d: Width of the features.

    Returns:
        W in float64, (d, d).

    Raises:
        InputError: If the shape differs or W'W is further than 1e-6 from the identity in any entry: the bound
            holds for orthogonal W only.
    """
    w = to_numpy(rotation)
    if w.shape != (d, d):
        raise InputError(f"expected an alignment W of shape ({d}, {d}), got {w.shape}; give one for this width")
    error = float(np.abs(w.T @ w - np.eye(d)).max())
    if not error <= _ORTHOGONAL_TOLERANCE:
        raise InputError(
            f"expected an orthogonal alignment W, got max |W'W - I| = {error:.2g}; "
            "use 'identity', 'procrustes' or 'joint', or orthogonalise W by its polar factor"
        )
    return w


def procrustes(cross_variant_base: Float64) -> Float64:
    """The orthogonal W that brings the variant's features closest to the base's.

    Args:
        cross_variant_base: `Z_P' Z_T`, up to a positive factor, (d, d).

    Returns:
        W, (d, d), the minimiser of `||Z_T - Z_P W||_F`; the same as `scipy.linalg.orthogonal_procrustes(Z_P, Z_T)`
        gives. It is unique where `Z_P' Z_T` has full rank.

    Source:
        PRISM, Eq. (25)-(27).

    Example:
        >>> procrustes(np.array([[0.0, 2.0], [-1.0, 0.0]]))
        array([[ 0.,  1.],
               [-1.,  0.]])
    """
    u, _, vt = scipy.linalg.svd(cross_variant_base)
    return np.asarray(u @ vt)
