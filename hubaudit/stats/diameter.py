"""The largest distance between any two of many points, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.stats.arrays import (
    Array,
    Float64,
    as_float64,
    check_rows,
    namespace,
    place_like,
    to_numpy,
)
from hubaudit.stats.farthest_pair import FarthestPair
from hubaudit.stats.rough_distances import RoughDistances

__all__ = ["diameter", "largest_norm"]

_BLOCK_NUMBERS = 2**18
"""Few enough for a block in float64 to stay in the processor's cache."""


def largest_norm(points: Any) -> tuple[float, int]:
    """The largest norm of a row and the row that has it.

    Args:
        points: Rows, (n, d), numpy or torch.

    Returns:
        The norm and the index of the first such row.
    """
    points = check_rows(points, "points")
    norms = _distances(points, np.zeros(int(points.shape[1])))
    row = int(norms.argmax())
    return float(norms[row]), row


def diameter(points: Any) -> tuple[float, int, int]:
    """The largest distance between two rows, exact up to float64 rounding.

    Rows near the mean are left out first: a pair beats a known distance only if its two distances to the mean add
    up to more. What remains goes through `FarthestPair`.

    Args:
        points: Rows, (n, d), n >= 1: numpy or torch, any float dtype. The products run in their library, on their
            device.

    Returns:
        The distance and the indices of two rows that have it; 0 and the same row twice where all rows are equal.

    Raises:
        InputError: If a value is NaN or infinite; the row is named.

    Example:
        >>> diameter([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
        (5.0, 0, 1)
    """
    points = check_rows(points, "points")
    rough = RoughDistances(points)
    squares, error = rough.squared(rough.mean)
    best = _farthest_walk(points, rough, int(squares.argmax()))
    if best[0] == 0 and not _distances(points, to_numpy(points[best[1]])).any():
        return best
    reach = np.sqrt(np.maximum(squares + error, 0))
    kept = np.flatnonzero(reach + reach.max() > best[0])
    radii = _distances(points[place_like(kept, points)], rough.mean)
    kept, radii = (values[radii + radii.max(initial=0) > best[0]] for values in (kept, radii))
    if len(kept) < 2:
        return best
    centre = rough.mean

    def fetch(indices: npt.NDArray[np.intp]) -> Float64:
        return to_numpy(points[place_like(kept[indices], points)]) - centre

    pairs = FarthestPair(_centred(points, kept, centre), radii, fetch, best[0])
    pairs.search()
    if pairs.pair is None:
        return best
    first, second = sorted(int(kept[row]) for row in pairs.pair)
    return pairs.best, first, second


def _blocks(n: int, d: int) -> list[slice]:
    step = max(1, _BLOCK_NUMBERS // d)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _distances(points: Array, centre: Float64) -> Float64:
    """Distances of all rows to one point, (n,), from differences in float64."""
    found = []
    for block in _blocks(*points.shape):
        rows = as_float64(points[block])
        xp = namespace(rows)
        found.append(to_numpy(xp.sqrt(xp.sum((rows - place_like(centre, rows)) ** 2, axis=1))))
    return np.concatenate(found)


def _centred(points: Array, kept: npt.NDArray[np.intp], centre: Float64) -> Array:
    """Some rows relative to the centre, float32, in the library and on the device of the points."""
    xp = namespace(points)
    parts = []
    for block in _blocks(len(kept), int(points.shape[1])):
        rows = as_float64(points[place_like(kept[block], points)])
        parts.append(xp.astype(place_like(rows - place_like(centre, rows), points), xp.float32))
    return xp.concat(parts, axis=0)


def _farthest_walk(points: Array, rough: RoughDistances, start: int) -> tuple[float, int, int]:
    """A long distance between two rows: from a row to the farthest one, and on while it grows."""
    best = (0.0, start, start)
    here = start
    while True:
        row = to_numpy(points[here])
        there = int(rough.squared(row)[0].argmax())
        distance = float(np.linalg.norm(row - to_numpy(points[there])))
        if distance <= best[0]:
            return best
        best = (distance, min(here, there), max(here, there))
        here = there
