"""Exact search for the farthest pair among points whose norms rule no pair out.

Two upper bounds on squared distances rule out pairs before their products are formed, by groups of points
(`PointGroups`) and by projection: with y the first k principal coordinates of a row and s the norm of the rest,
`x_i . x_j >= y_i . y_j - s_i s_j`, at k / d of the cost. What is left is computed in full. All of this runs in
float32 with a rigorous allowance for rounding, and whatever comes within it of the best distance is computed again in
float64. So the answer is exact, and only the time depends on the points: where they scatter evenly in all
directions, no bound helps and all pairs are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.stats.arrays import Array, Float64, as_float64, namespace, place_like, to_numpy
from hubaudit.stats.point_groups import PointGroups

__all__ = ["FarthestPair"]

Indices = npt.NDArray[np.intp]

_FEW_ROWS = 4096
_BLOCK_ROWS, _BLOCK_COLUMNS = 1024, 8192
_SAMPLE = 1024
_FIRST_PAIRS = 256
"""Pairs of groups that are compared in full at first: a better best rules out more of the others."""
_SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8)
"""Parts of the width that a projection may keep."""
_HOPELESS = 0.8
"""Share of the full cost above which the bounds are not worth their own."""
_UNIT = 2.0**-24


class FarthestPair:
    """Points to search, and the farthest pair so far.

    Args:
        rows: The points relative to a point near their mean, (m, d), float32, in any library, on any device.
        radii: Norms of the rows before they were rounded to float32, (m,), float64.
        fetch: Gives the unrounded rows of some indices, float64 in main memory.
        best: A distance that two of the points, or of those left out, are known to have.
    """

    def __init__(self, rows: Array, radii: Float64, fetch: Callable[[Indices], Float64], best: float) -> None:
        self.best = best
        self.pair: tuple[int, int] | None = None
        self._radii, self._fetch = radii, fetch
        # |x|^2 + |y|^2 - 2 x.y in float32, as one product of d + 2 terms: four terms of at most max|x|^2, each
        # with at most d + 8 roundings of half a unit of the last place, those of the rows included.
        self._allowance = 4.1 * (int(rows.shape[1]) + 8) * _UNIT * float(radii.max()) ** 2
        self._rows = self._trusted(rows)
        self._names: Indices = np.arange(len(radii))

    def search(self) -> None:
        """Find the farthest pair: afterwards `best` is its distance, and `pair` its indices unless none beat it."""
        directions = self._directions() if len(self._radii) > _FEW_ROWS else None
        if directions is None:
            self._reorder(np.argsort(-self._radii, kind="stable"))
            self._search_by_norm()
        else:
            self._search_by_group(directions)

    def _trusted(self, rows: Array) -> Array:
        """The rows, in float64 if products of float32 on this device turn out coarser than the allowance (TF32)."""
        xp = namespace(rows)
        left, right = _factors(rows[:64], self._radii[:64])
        wide = to_numpy(left) @ to_numpy(right).T
        error = float(np.abs(to_numpy(left @ right.T) - wide).max())
        return rows if error <= self._allowance else xp.astype(rows, xp.float64)

    def _reorder(self, order: Indices) -> None:
        self._names, self._radii = self._names[order], self._radii[order]
        self._rows = self._rows[place_like(order, self._rows)]

    def _search_by_norm(self) -> None:
        """All pairs, longest rows first, as far as two norms add up to more than the best."""
        left, right = _factors(self._rows, self._radii)
        for start in range(0, len(self._radii), _BLOCK_ROWS):
            beats = np.flatnonzero(self._radii[start] + self._radii[start:] > self.best) + start
            if not len(beats):
                break
            stop = int(beats[-1]) + 1
            self._compare(left, right, np.arange(start, min(start + _BLOCK_ROWS, stop)), np.arange(start, stop))

    def _directions(self) -> Array | None:
        """Leading principal directions, (d, k), k chosen by what a sample of pairs would cost; None if hopeless."""
        d = int(self._rows.shape[1])
        sample = np.arange(0, len(self._radii), max(1, len(self._radii) // (4 * _SAMPLE)))
        points = to_numpy(self._rows[place_like(sample, self._rows)])
        axes = np.linalg.eigh(points.T @ points)[1][:, ::-1]
        some = points[:: max(1, len(points) // _SAMPLE)] @ axes
        squares = (some**2).sum(axis=1)
        costs = {}
        for share in _SHARES:
            k = max(1, int(d * share))
            rest = np.sqrt(np.maximum(squares - (some[:, :k] ** 2).sum(axis=1), 0))
            bounds = squares[:, None] + squares - 2 * (some[:, :k] @ some[:, :k].T - np.outer(rest, rest))
            costs[k] = k / d + float((bounds > self.best**2).mean())
        k = min(costs, key=lambda k: costs[k])
        return place_like(np.ascontiguousarray(axes[:, :k]), self._rows) if costs[k] <= _HOPELESS else None

    def _project(self, directions: Array) -> Array:
        """First coordinates and the norm of the rest, (m, k + 1), float32."""
        xp = namespace(self._rows)
        parts = []
        for start in range(0, len(self._radii), _BLOCK_COLUMNS):
            rows = as_float64(self._rows[start : start + _BLOCK_COLUMNS])
            first = rows @ place_like(directions, rows)
            squares = place_like(self._radii[start : start + _BLOCK_COLUMNS] ** 2, rows)
            rest = squares - namespace(rows).sum(first**2, axis=1)
            # Upwards by what the rounding of the rows may hide.
            rest = namespace(rows).clip(rest, 0.0, None) + 4 * _UNIT * float(self._radii.max()) ** 2
            both = namespace(rows).concat([first, rest[:, None] ** 0.5], axis=1)
            parts.append(place_like(both, self._rows))
        return xp.astype(xp.concat(parts, axis=0), self._rows.dtype)

    def _search_by_group(self, directions: Array) -> None:
        projected = self._project(directions)
        groups = PointGroups(to_numpy(projected[:, :-1], np.float32), self._radii, self._allowance)
        self._reorder(groups.order)
        projected = projected[place_like(groups.order, projected)]
        full = _factors(self._rows, self._radii)
        rough = _factors(projected, self._radii, negative_last=True)
        for mine, theirs in groups.widest(_FIRST_PAIRS):
            self._compare(*full, mine, theirs)
        for group in range(len(groups)):
            # Four products of float32 enter the bound of a group.
            mine, theirs = groups.candidates(group, self.best**2 - 4 * self._allowance)
            for start in range(0, len(mine), _BLOCK_ROWS):
                self._compare(*full, mine[start : start + _BLOCK_ROWS], theirs, rough=rough)

    def _compare(
        self, left: Array, right: Array, mine: Indices, theirs: Indices, *, rough: tuple[Array, Array] | None = None
    ) -> None:
        """Compare rows with rows, those first whose upper bound is above the best if `rough` factors are given."""
        for start in range(0, len(theirs), _BLOCK_COLUMNS):
            rows, columns = mine, theirs[start : start + _BLOCK_COLUMNS]
            if rough is not None:
                rows, columns = self._above(_squares(*rough, rows, columns), rows, columns)
            if not len(rows):
                continue
            squares = _squares(left, right, rows, columns)
            row, column = divmod(int(namespace(squares).argmax(squares)), len(columns))
            if float(squares[row, column]) <= self.best**2 - self._allowance:
                continue
            # The best pair first: it may leave nothing else to do.
            self._exactly(rows[[row]], columns[[column]])
            rows, columns = self._above(squares, rows, columns)
            self._exactly(rows, columns)

    def _above(self, squares: Array, rows: Indices, columns: Indices) -> tuple[Indices, Indices]:
        """The rows and columns that hold a value which may, but for rounding, be above the best."""
        xp = namespace(squares)
        limit = self.best**2 - self._allowance
        some = to_numpy(xp.max(squares, axis=0), np.float64) > limit
        if not some.any():
            return rows[:0], columns[:0]
        return rows[to_numpy(xp.max(squares, axis=1), np.float64) > limit], columns[some]

    def _exactly(self, rows: Indices, columns: Indices) -> None:
        """Compare in float64, the largest by their differences."""
        if not len(rows):
            return
        rows, columns = self._names[rows], self._names[columns]
        left, right = self._fetch(rows), self._fetch(columns)
        squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
        # Products in float64 may rank nearly equal pairs wrongly in the last digits; differences do not.
        close = squares.max() - 1e-12 * float((left**2).sum(axis=1).max() + (right**2).sum(axis=1).max())
        for i, j in np.argwhere(squares >= close)[:64]:
            distance = float(np.sqrt(((left[i] - right[j]) ** 2).sum()))
            if distance > self.best:
                self.best, self.pair = distance, (int(rows[i]), int(columns[j]))


def _factors(rows: Array, radii: Float64, *, negative_last: bool = False) -> tuple[Array, Array]:
    """Factors whose product holds the squared distances of all pairs, each (m, d + 2).

    With `negative_last`, the last column counts with the opposite sign, so that it raises the distance.
    """
    xp = namespace(rows)
    half = xp.astype(place_like(-0.5 * radii[:, None] ** 2, rows), rows.dtype)
    one = xp.ones_like(half)
    flipped = xp.concat([rows[:, :-1], -rows[:, -1:]], axis=1) if negative_last else rows
    return -2 * xp.concat([flipped, one, half], axis=1), xp.concat([rows, half, one], axis=1)


def _squares(left: Array, right: Array, rows: Indices, columns: Indices) -> Array:
    return left[_pick(rows, left)] @ right[_pick(columns, right)].T


def _pick(indices: Indices, like: Array) -> Any:
    """A slice where the indices follow each other, which saves a copy."""
    if len(indices) and int(indices[-1]) - int(indices[0]) + 1 == len(indices):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return place_like(indices, like)
