"""Accuracy after refitting a threshold or a probe, every item judged by a fit that did not see it."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from hubaudit.stats.paired import mcnemar_p

__all__ = ["Accuracies", "compare_accuracies", "folds", "refit_probe", "refit_threshold"]

Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[np.float64]


N_FOLDS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracies:
    """Accuracies over the same items, and what each refit brings back."""

    base: float
    fixed: float
    refit_threshold: float
    refit_probe: float | None
    base_refit_probe: float | None
    recovered_by_threshold: float | None
    recovered_by_probe: float | None
    n_refit: int
    lost: int
    """Items right at the base's threshold for the base, wrong for the variant."""
    gained: int
    """Items wrong for the base, right for the variant."""

    @property
    def loss_p(self) -> float:
        """Exact McNemar p value of the loss at the base's threshold."""
        return mcnemar_p(self.lost, self.gained)


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
        positive: True for class 1, (n,).
        threshold: Threshold of the base, in score units; a score above it means class 1.
        base_features: Activations of the base, (n, d), or None.
        variant_features: Activations of the variant, (n, d), or None.
        seed: Seed of the folds.

    Returns:
        All accuracies over all n items. A recovered share is None where nothing was lost or nothing was refit.
    """
    fold = folds(positive, n_folds=N_FOLDS, seed=seed)
    right_base = (base_scores > threshold) == positive
    right_fixed = (variant_scores > threshold) == positive
    by_threshold = _accuracy(refit_threshold(variant_scores, positive, fold), positive)
    by_probe, base_by_probe = (
        None if features is None else _accuracy(refit_probe(features, positive, fold), positive)
        for features in (variant_features, base_features)
    )
    base, fixed = float(right_base.mean()), float(right_fixed.mean())

    def recovered(accuracy: float | None) -> float | None:
        return None if accuracy is None or fixed >= base else (accuracy - fixed) / (base - fixed)

    return Accuracies(
        base=base,
        fixed=fixed,
        refit_threshold=by_threshold,
        refit_probe=by_probe,
        base_refit_probe=base_by_probe,
        recovered_by_threshold=recovered(by_threshold),
        recovered_by_probe=recovered(by_probe),
        n_refit=int(len(fold) - np.bincount(fold).max()),
        lost=int((right_base & ~right_fixed).sum()),
        gained=int((~right_base & right_fixed).sum()),
    )


def _accuracy(predicted: Mask, positive: Mask) -> float:
    return float((predicted == positive).mean())


def folds(positive: Mask, *, n_folds: int, seed: int) -> npt.NDArray[np.int64]:
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


def refit_threshold(scores: Array, positive: Mask, fold: npt.NDArray[np.int64]) -> Mask:
    """Classify by the midpoint of the class means of the other folds.

    Args:
        scores: Decision values, (n,).
        positive: True for class 1, (n,).
        fold: Fold of each item, (n,).

    Returns:
        True where an item is put into class 1, (n,).
    """
    return refit_probe(scores[:, None], positive, fold, direction=np.ones(1))


def refit_probe(
    features: Array, positive: Mask, fold: npt.NDArray[np.int64], *, direction: Array | None = None
) -> Mask:
    """Classify by the difference of class means of the other folds, threshold midway between them.

    Args:
        features: Activations, (n, d).
        positive: True for class 1, (n,).
        fold: Fold of each item, (n,).
        direction: Direction to keep, (d,), where only the threshold is to be refit.

    Returns:
        True where an item is put into class 1, (n,).

    Source:
        The probe of Cosine Similarity Is Not Evidence, section 6 (unit difference of means, midpoint threshold);
        the length of the direction does not change the decision.
    """
    predicted = np.zeros(len(positive), dtype=bool)
    for held_out in range(int(fold.max()) + 1):
        fit, judged = fold != held_out, fold == held_out
        mean_pos = features[fit & positive].mean(axis=0)
        mean_neg = features[fit & ~positive].mean(axis=0)
        along = mean_pos - mean_neg if direction is None else direction
        predicted[judged] = features[judged] @ along > (mean_pos + mean_neg) @ along / 2.0
    return predicted
