"""Two linear probes: the difference of class means, and the same whitened by a ridge-shrunken covariance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["discriminant", "discriminant_path", "mean_difference"]

Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[np.float64]

RIDGES = tuple(float(x) for x in np.geomspace(1e-4, 1e4, 9))
"""Ridges tried, in units of the mean within-class variance; the last is all but the difference of means."""

INNER_FOLDS = 4


def mean_difference(features: Array, positive: Mask) -> Array:
    """Difference of the class means, the estimator of the refusal-direction literature.

    Args:
        features: Activations, (n, d).
        positive: True for class 1, (n,), at least one item of each class.

    Returns:
        Mean of class 1 minus mean of class 0, (d,).
    """
    return np.asarray(features[positive].mean(axis=0) - features[~positive].mean(axis=0))


def discriminant(features: Array, positive: Mask) -> Array:
    """Linear discriminant whose ridge separates held-out items best.

    Where the within-class covariance is a multiple of the identity, every ridge gives the difference of means.
    Where a direction was attenuated together with its noise, only the whitening brings it back.

    Args:
        features: Activations, (n, d).
        positive: True for class 1, (n,), at least one item of each class; with fewer than 8 of a class the ridge
            cannot be chosen, and the difference of means is returned.

    Returns:
        Direction, (d,), of arbitrary length.

    Source:
        Fisher (1936); the ridge is Friedman's (1989) regularized discriminant, chosen by 4-fold cross-validation.
    """
    if min(positive.sum(), (~positive).sum()) < 2 * INNER_FOLDS:
        return mean_difference(features, positive)
    fold = np.empty(len(positive), dtype=np.int64)
    for of_class in (positive, ~positive):
        fold[of_class] = np.arange(of_class.sum()) % INNER_FOLDS
    separation = np.zeros(len(RIDGES))
    for held_out in range(INNER_FOLDS):
        seen = fold != held_out
        directions = discriminant_path(features[seen], positive[seen], RIDGES)
        separation += _separation(features[~seen] @ directions.T, positive[~seen])
    # Of equal ridges the largest: it is the simplest probe.
    best = len(RIDGES) - 1 - int(separation[::-1].argmax())
    return np.asarray(discriminant_path(features, positive, (RIDGES[best],))[0])


def discriminant_path(features: Array, positive: Mask, ridges: tuple[float, ...]) -> Array:
    """Discriminant directions for several ridges from one decomposition.

    Args:
        features: Activations, (n, d).
        positive: True for class 1, (n,), at least one item of each class.
        ridges: Ridges in units of the mean within-class variance, > 0.

    Returns:
        (covariance + ridge)^-1 times the difference of means, scaled by the ridge, (len(ridges), d).
    """
    direction = mean_difference(features, positive)
    residual: Array = features.copy()
    for of_class in (positive, ~positive):
        residual[of_class] -= features[of_class].mean(axis=0)
    n, d = residual.shape
    variance = float((residual**2).sum()) / (n * d)
    if variance == 0.0:
        return np.tile(direction, (len(ridges), 1))
    ridge = np.array(ridges)[:, None] * variance
    # ridge (S + ridge)^-1 r = r - R'U diag(1 / (n ridge + e)) U'R r, with e, U of R R'; in either form only the
    # smaller of the two Gram matrices is decomposed.
    if d <= n:
        values, vectors = np.linalg.eigh(residual.T @ residual / n)
        return np.asarray((vectors.T @ direction) * (ridge / (ridge + np.maximum(values, 0.0))) @ vectors.T)
    values, vectors = np.linalg.eigh(residual @ residual.T)
    inner = (vectors.T @ (residual @ direction)) / (n * ridge + np.maximum(values, 0.0))
    return np.asarray(direction - (inner @ vectors.T) @ residual)


def _separation(scores: Array, positive: Mask) -> Array:
    """Class separation of each column of scores in within-class SDs; 0 where a column has no spread."""
    high, low = scores[positive], scores[~positive]
    variance = (((high - high.mean(0)) ** 2).sum(0) + ((low - low.mean(0)) ** 2).sum(0)) / max(1, len(scores) - 2)
    difference = high.mean(0) - low.mean(0)
    return np.asarray(np.divide(difference, np.sqrt(variance), out=np.zeros_like(difference), where=variance > 0.0))
