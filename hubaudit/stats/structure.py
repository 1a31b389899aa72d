"""What happened to the weights of one matrix: the size of the error, and how their distribution moved."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from scipy.stats import entropy

from hubaudit.stats.result import Result

__all__ = ["KL_BINS", "WeightDifference", "compare_weights"]

KL_BINS = 256
"""Bins of equal width over the joint range of both; each count is raised by a half, so that none is empty."""
_BLOCK = 1 << 20  # numbers whose float64 differences are held at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightDifference(Result):
    """Base and variant of one weight matrix."""

    n_weights: int
    """Numbers compared."""
    base_norm: float
    """Frobenius norm of the base's matrix."""
    relative_error: float | None
    """Frobenius norm of the difference over that of the base."""
    sqnr_db: float | None
    """Signal to quantization noise, 20 log10(norm of the base / norm of the difference), decibels."""
    max_error: float
    """Largest absolute difference of a weight."""
    wasserstein: float
    """Wasserstein-1 distance between the two distributions of weights, in units of a weight."""
    kl: float
    """KL divergence of the variant's from the base's distribution of weights in 256 bins of equal width, nats."""


def compare_weights(base: npt.NDArray[np.float32], variant: npt.NDArray[np.float32]) -> WeightDifference:
    """Compare two matrices of the same shape. Both are flattened and sorted in place.

    Args:
        base: Float32, any shape, contiguous and writable.
        variant: The same.

    Returns:
        The figures, all sums in float64.

    Raises:
        ValueError: If shapes differ, a matrix is empty, or holds NaN or infinity.

    Source:
        For samples of equal size the Wasserstein-1 distance is the mean absolute difference of the sorted
        samples, which needs two sorts in place where `scipy.stats.wasserstein_distance` sorts their union.
    """
    if base.shape != variant.shape or not base.size:
        raise ValueError(f"expected two matrices of one shape, got {list(base.shape)} and {list(variant.shape)}")
    first, second = base.reshape(-1), variant.reshape(-1)
    squared_error, largest, _ = _differences(first, second)
    norm = _squared_norm(first)
    if not (math.isfinite(norm) and math.isfinite(squared_error)):
        raise ValueError("expected finite weights, got NaN or infinity")
    moved, kl = _distances(first, second) if squared_error else (0.0, 0.0)
    relative = math.sqrt(squared_error / norm) if norm else None
    reasons = {}
    if relative is None:
        reasons = dict.fromkeys(("relative_error", "sqnr_db"), "all weights of the base are 0")
    elif relative == 0:
        reasons = {"sqnr_db": "nothing changed: the ratio is infinite"}
    return WeightDifference(
        n_weights=first.size,
        base_norm=math.sqrt(norm),
        relative_error=relative,
        sqnr_db=-20 * math.log10(relative) if relative else None,
        max_error=largest,
        wasserstein=moved / first.size,
        kl=kl,
        reasons=reasons,
    )


def _distances(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Sum of the sorted samples' absolute differences, and the KL divergence."""
    with ThreadPoolExecutor(2) as pool:  # numpy sorts without the interpreter's lock
        list(pool.map(lambda values: values.sort(), (first, second)))
    return _differences(first, second)[2], _kl(first, second)


def _differences(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> tuple[float, float, float]:
    """Sum of squares, maximum and sum of the absolute differences."""
    squares, largest, total = 0.0, 0.0, 0.0
    for start in range(0, first.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        apart = np.abs(first[part].astype(np.float64) - second[part])
        squares += float(apart @ apart)
        largest = max(largest, float(apart.max()))
        total += float(apart.sum())
    return squares, largest, total


def _squared_norm(values: npt.NDArray[np.float32]) -> float:
    return sum(
        float(part @ part)
        for start in range(0, values.size, _BLOCK)
        if (part := values[start : start + _BLOCK].astype(np.float64)).size
    )


def _kl(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> float:
    """Of two sorted samples: a bin's count is the distance of its edges' places."""
    low, high = float(min(first[0], second[0])), float(max(first[-1], second[-1]))
    if low == high:
        return 0.0
    edges = np.linspace(low, high, KL_BINS + 1)[1:-1].astype(np.float32)
    counts = [
        np.diff(np.searchsorted(values, edges), prepend=0, append=values.size) + 0.5 for values in (first, second)
    ]
    return float(entropy(counts[0], counts[1]))
