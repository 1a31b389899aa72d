"""Accuracy after refitting a threshold or a probe, every item judged by a fit that did not see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hubaudit.stats.paired import mcnemar_p
from hubaudit.stats.probe import discriminant, mean_difference

__all__ = ["Accuracies", "compare_accuracies", "deal_folds", "refit_probe", "refit_threshold"]

Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[np.float64]
Folds = npt.NDArray[np.int64]

N_FOLDS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracies:
    """Accuracies over the same items, and what each refit brings back; None where there is nothing to say."""

    base: float
    fixed: float
    refit_threshold: float
    refit_probe: float | None
    refit_mean_difference: float | None
    base_refit_probe: float | None
    recovered_by_threshold: float | None
    recovered_by_probe: float | None
    n_refit: int
    """Items of the smallest fit."""
    loss_p: float
    """Exact McNemar p value of the accuracy lost at the base's threshold."""


def compare_accuracies(
    base_scores: Array,
    variant_scores: Array,
    positive: Mask,
    *,
    threshold: float,
    base_features: Array | None,
    variant_features: Array | None,
    seed: int,
) -> Accuracies:
    """Accuracy at the base's threshold, after refitting the threshold, after refitting the probe.

    Args:
        base_scores: Decision values of the base, (n,).
        variant_scores: Decision values of the variant, (n,).
        positive: True for class 1, (n,), at least two items of each class.
        threshold: Threshold of the base, in score units; a score above it means class 1.
        base_features: Activations of the base, (n, d), or None.
        variant_features: Activations of the variant, (n, d), or None.
        seed: Seed of the folds.

    Returns:
        All accuracies over all n items. A recovered share is None where nothing was lost or nothing was refit.
    """
    fold = deal_folds(positive, n_folds=N_FOLDS, seed=seed)
    right_base = (base_scores > threshold) == positive
    right_fixed = (variant_scores > threshold) == positive
    base, fixed = float(right_base.mean()), float(right_fixed.mean())

    def probe(features: Array | None, fit: Fit) -> float | None:
        return None if features is None else _accuracy(refit_probe(features, positive, fold, fit=fit), positive)

    def recovered(accuracy: float | None) -> float | None:
        return None if accuracy is None or fixed >= base else (accuracy - fixed) / (base - fixed)

    by_threshold = _accuracy(refit_threshold(variant_scores, positive, fold), positive)
    by_probe = probe(variant_features, discriminant)
    return Accuracies(
        base=base,
        fixed=fixed,
        refit_threshold=by_threshold,
        refit_probe=by_probe,
        refit_mean_difference=probe(variant_features, mean_difference),
        base_refit_probe=probe(base_features, discriminant),
        recovered_by_threshold=recovered(by_threshold),
        recovered_by_probe=recovered(by_probe),
        n_refit=int(len(fold) - np.bincount(fold).max()),
        loss_p=mcnemar_p(int((right_base & ~right_fixed).sum()), int((~right_base & right_fixed).sum())),
    )


Fit = Callable[[Array, Mask], Array]
"""From activations (n, d) and classes (n,) to a direction (d,)."""


def deal_folds(positive: Mask, *, n_folds: int, seed: int) -> Folds:
    """Deal the items of each class into folds of about equal size.

    Args:
        positive: True for class 1, (n,), at least two items of each class.
        n_folds: Wanted number of folds; fewer where a class has fewer items.
        seed: Seed of the deal.

    Returns:
        Fold of each item, (n,), counted from 0. The items outside any one fold hold both classes.
    """
    count = min(n_folds, int(positive.sum()), int((~positive).sum()))
    rng = np.random.default_rng(seed)
    fold = np.empty(len(positive), dtype=np.int64)
    for of_class in (positive, ~positive):
        rows = rng.permutation(np.flatnonzero(of_class))
        fold[rows] = np.arange(len(rows)) % count
    return fold


def refit_threshold(scores: Array, positive: Mask, fold: Folds) -> Mask:
    """Classify by the midpoint of the class means of the other folds.

    Args:
        scores: Decision values, (n,).
        positive: True for class 1, (n,).
        fold: Fold of each item, (n,).

    Returns:
        True where an item is put into class 1, (n,).
    """
    return refit_probe(scores[:, None], positive, fold, fit=lambda _features, _positive: np.ones(1))


def refit_probe(features: Array, positive: Mask, fold: Folds, *, fit: Fit) -> Mask:
    """Classify by a probe fit on the other folds, its threshold midway between their class means.

    Args:
        features: Activations, (n, d).
        positive: True for class 1, (n,).
        fold: Fold of each item, (n,).
        fit: Finds the direction.

    Returns:
        True where an item is put into class 1, (n,).
    """
    predicted = np.zeros(len(positive), dtype=bool)
    for held_out in range(int(fold.max()) + 1):
        seen, judged = fold != held_out, fold == held_out
        direction = fit(features[seen], positive[seen])
        midpoint = (features[seen & positive].mean(axis=0) + features[seen & ~positive].mean(axis=0)) / 2.0
        predicted[judged] = (features[judged] - midpoint) @ direction > 0.0
    return predicted


def _accuracy(predicted: Mask, positive: Mask) -> float:
    return float((predicted == positive).mean())
