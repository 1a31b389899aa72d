"""Distances of all rows to one point, quickly, with a bound on their error: what exact searches start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Array, Float64, as_float64, check_finite_rows, namespace, place_like, to_numpy

__all__ = ["RoughDistances"]

_BLOCK_NUMBERS = 2**20


class RoughDistances:
    """Squared distances in float32 (float64 for wider numbers), from squared norms and products.

    Products are formed by elements and not as matrix products, which some settings round to fewer digits.

    Args:
        points: Rows, (n, d), in any library, on any device.

    Raises:
        InputError: If a value is NaN or infinite (the row is named), or a squared norm is.
    """

    def __init__(self, points: Array) -> None:
        self._points = points
        wide = not any(name in str(points.dtype) for name in ("bfloat16", "float16", "float32"))
        self._dtype = np.float64 if wide else np.float32
        self._unit = 2.0**-53 if wide else 2.0**-24
        sums, squares = self._moments()
        if not np.isfinite(squares).all():
            check_finite_rows(points, "points")
            raise InputError(
                f"expected rows whose squared norms are finite in {np.dtype(self._dtype).name}, got larger ones; "
                "check the file, no head has such weights"
            )
        self._squares = squares
        self._largest = float(np.sqrt(squares.max()))
        self.mean: Float64 = self._rounded(sums / len(squares))
        """A point near the rows' mean, (d,), exact in the precision of the distances."""

    def squared(self, point: Float64) -> tuple[Float64, float]:
        """Squared distances of all rows to a point.

        Args:
            point: (d,), exact in the precision of the rows, as a row of them or `mean` is.

        Returns:
            The squares, (n,), and the most that any of them is off.
        """
        other = place_like(point.astype(self._dtype), self._points)
        products = np.concatenate(
            [to_numpy(namespace(rows).sum(rows * place_like(other, rows), axis=1)) for rows in self._blocks()]
        )
        length = float(np.linalg.norm(point))
        # Sums of d products, of norms at most the largest: d roundings of half a unit each, and a few more.
        error = 2.0 * (len(point) + 8) * self._unit * (self._largest + length) ** 2
        return self._squares - 2.0 * products + length**2, error

    def _rounded(self, point: Float64) -> Float64:
        return np.asarray(point.astype(self._dtype), dtype=np.float64)

    def _moments(self) -> tuple[Float64, Float64]:
        """Sum of the rows, (d,), and their squared norms, (n,)."""
        sums, squares = np.zeros(int(self._points.shape[1])), []
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in self._blocks():
                xp = namespace(rows)
                sums += to_numpy(xp.sum(rows, axis=0))
                squares.append(to_numpy(xp.sum(rows**2, axis=1)))
        return sums, np.concatenate(squares)

    def _blocks(self) -> Any:
        n, d = (int(side) for side in self._points.shape)
        step = max(1, _BLOCK_NUMBERS // d)
        for start in range(0, n, step):
            rows = self._points[start : start + step]
            if self._dtype == np.float64:
                yield as_float64(rows)
            else:
                xp = namespace(rows)
                yield xp.astype(rows, xp.float32, copy=False)
