"""Area under the ROC curve of two scores on the same items, and DeLong's test of their difference."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from hubaudit.stats.scores import check_labels, check_scores

__all__ = ["PairedAuroc", "auroc", "paired_auroc"]

Vector = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedAuroc:
    """Two areas, their difference, and how sure it is."""

    base: float
    """Probability that the base scores a positive item above a negative one, ties counted half."""
    variant: float
    """The same for the variant."""
    delta: float
    """Variant minus base."""
    standard_error: float
    """DeLong's standard error of the difference."""
    p: float | None
    """Two-sided p value for equal areas; 1 where no item changed its rank among the other class.

    None where the areas differ and the estimated variance is 0, which happens only when every item of a class
    has the same placement, as with two perfect rankings of opposite sign.
    """


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Area under the ROC curve: P(positive > negative) + P(tie) / 2.

    Args:
        scores: Decision values, (n,), higher means class 1.
        labels: Classes, (n,), 0 or 1, both present.

    Returns:
        The area, 0 to 1.

    Raises:
        InputError: If lengths differ, a score is not finite, or a class is missing.

    Example:
        >>> auroc([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
        0.875
    """
    positive = check_labels(labels)
    wins, _ = _wins(check_scores(scores, len(positive), "scores"), positive)
    return _area(wins, positive)


def paired_auroc(variant_scores: npt.ArrayLike, base_scores: npt.ArrayLike, labels: npt.ArrayLike) -> PairedAuroc:
    """Compare the areas of two scores of the same items.

    Args:
        variant_scores: The variant's decision values, (n,).
        base_scores: The base's decision values of the same items, (n,).
        labels: Classes, (n,), 0 or 1, at least two of each.

    Returns:
        Both areas, their difference, its standard error and the p value.

    Raises:
        InputError: If lengths differ, a score is not finite, or a class has fewer than two items.

    Source:
        DeLong, DeLong and Clarke-Pearson (1988), by the midranks of Sun and Xu (2014); as R's `pROC::roc.test`.
    """
    positive = check_labels(labels, at_least=2)
    values = [
        check_scores(base_scores, len(positive), "base scores"),
        check_scores(variant_scores, len(positive), "variant scores"),
    ]
    (base_pos, base_neg), (variant_pos, variant_neg) = (_wins(v, positive) for v in values)
    base, variant = _area(base_pos, positive), _area(variant_pos, positive)
    # The variance of the difference comes from each item's own change: no cancellation between the terms of
    # Var - 2 Cov + Var, and exactly 0 where no item's rank among the other class changed.
    n_pos, n_neg = len(base_pos), len(base_neg)
    moved_pos, moved_neg = (variant_pos - base_pos) / n_neg, (variant_neg - base_neg) / n_pos
    error = math.sqrt(moved_pos.var(ddof=1) / n_pos + moved_neg.var(ddof=1) / n_neg)
    if error > 0.0:
        p: float | None = float(2.0 * stats.norm.sf(abs(variant - base) / error))
    else:
        p = 1.0 if variant == base else None
    return PairedAuroc(base=base, variant=variant, delta=variant - base, standard_error=error, p=p)


def _area(wins: Vector, positive: npt.NDArray[np.bool_]) -> float:
    # A sum of halves is exact, so the area does not depend on the order of the items.
    return float(wins.sum() / (len(wins) * int((~positive).sum())))


def _wins(values: Vector, positive: npt.NDArray[np.bool_]) -> tuple[Vector, Vector]:
    """Negatives that each positive item beats, and positives that beat each negative item; ties count half."""
    overall = stats.rankdata(values)
    of_pos: Vector = overall[positive] - stats.rankdata(values[positive])
    of_neg: Vector = len(of_pos) - (overall[~positive] - stats.rankdata(values[~positive]))
    return of_pos, of_neg
