"""The largest distance between any two of many points, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubaudit.stats.arrays import (
    Array,
    Float64,
    as_float64,
    check_finite_rows,
    check_rows,
    namespace,
    place_like,
    to_numpy,
)

__all__ = ["diameter", "largest_norm"]

_BLOCK_NUMBERS = 2**22


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

    Args:
        points: Rows, (n, d), n >= 1: numpy or torch, any float dtype.

    Returns:
        The distance and the indices of two rows that have it; 0 and the same row twice where all rows are equal.

    Raises:
        InputError: If a value is NaN or infinite; the row is named.

    Example:
        >>> diameter([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
        (5.0, 0, 1)
    """
    points = check_rows(points, "points")
    check_finite_rows(points, "points")
    radii = _distances(points, _mean(points))
    best = _farthest_walk(points, int(radii.argmax()))
    # A pair beats the best only if its two distances to the mean add up to more.
    kept = np.flatnonzero(radii + radii.max() > best[0] * (1 - 1e-9))
    order = kept[np.argsort(-radii[kept], kind="stable")]
    rows = to_numpy(points[place_like(order, points)]) if len(order) else np.zeros((0, 1))
    for i in range(len(order)):
        if i + 1 == len(order) or radii[order[i]] + radii[order[i + 1]] <= best[0]:
            break
        gaps = np.sqrt(((rows[i + 1 :] - rows[i]) ** 2).sum(axis=1))
        j = int(gaps.argmax())
        if gaps[j] > best[0]:
            best = (float(gaps[j]), int(order[i]), int(order[i + 1 + j]))
    return best[0], min(best[1:]), max(best[1:])


def _blocks(points: Array) -> list[slice]:
    n, d = points.shape
    step = max(1, _BLOCK_NUMBERS // int(d))
    return [slice(start, min(start + step, int(n))) for start in range(0, int(n), step)]


def _mean(points: Array) -> Float64:
    total = np.zeros(int(points.shape[1]))
    for block in _blocks(points):
        rows = as_float64(points[block])
        total += to_numpy(namespace(rows).sum(rows, axis=0))
    return total / int(points.shape[0])


def _distances(points: Array, centre: Float64) -> Float64:
    """Distances of all rows to one point, (n,), from differences in float64."""
    found = []
    for block in _blocks(points):
        rows = as_float64(points[block])
        xp = namespace(rows)
        found.append(to_numpy(xp.sqrt(xp.sum((rows - place_like(centre, rows)) ** 2, axis=1))))
    return np.concatenate(found)


def _farthest_walk(points: Array, start: int) -> tuple[float, int, int]:
    """A long distance between two rows: from a row to the farthest one, and on while it grows."""
    best = (0.0, start, start)
    here = start
    while True:
        distances = _distances(points, to_numpy(points[here]))
        there = int(distances.argmax())
        if distances[there] <= best[0]:
            return best
        best = (float(distances[there]), here, there)
        here = there
