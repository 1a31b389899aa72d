"""AUROC and DeLong: against the definition over all pairs, another implementation, and simulation."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from hubaudit.errors import InputError
from hubaudit.stats.auroc import auroc, paired_auroc

LABELS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
BASE = [0.1, 0.4, 0.35, 0.8, 0.2, 0.55, 0.55, 0.3, 0.7, 0.9, 0.55, 0.6, 0.95, 0.4, 0.85, 0.75]
VARIANT = [0.2, 0.3, 0.45, 0.7, 0.65, 0.5, 0.6, 0.3, 0.6, 0.8, 0.35, 0.6, 0.9, 0.5, 0.7, 0.4]


def beats(high: float, low: float) -> float:
    return 1.0 if high > low else 0.5 if high == low else 0.0


def literal_auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    rows = list(zip(np.asarray(scores).tolist(), np.asarray(labels).tolist(), strict=True))
    pairs = [beats(high, low) for (high, a), (low, b) in product(rows, rows) if a == 1 and b == 0]
    return sum(pairs) / len(pairs)


def literal_delong(variant: npt.ArrayLike, base: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[float, float]:
    """DeLong, DeLong and Clarke-Pearson (1988): structural components over all m n pairs, then S10/m + S01/n."""
    y = np.asarray(labels)
    v10, v01 = [], []
    for scores in (np.asarray(base), np.asarray(variant)):
        pos, neg = scores[y == 1].tolist(), scores[y == 0].tolist()
        v10.append([sum(beats(x, z) for z in neg) / len(neg) for x in pos])
        v01.append([sum(beats(x, z) for x in pos) / len(pos) for z in neg])
    covariance = np.cov(v10) / len(v10[0]) + np.cov(v01) / len(v01[0])
    variance = covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1]
    z = (np.mean(v10[1]) - np.mean(v10[0])) / math.sqrt(variance)
    return math.sqrt(variance), 2 * stats.norm.sf(abs(z))


@pytest.mark.parametrize("decimals", [1, 2, 12])
@pytest.mark.parametrize(("n_neg", "n_pos"), [(2, 2), (30, 11), (12, 50)])
def test_equals_the_definition_over_all_pairs(n_neg: int, n_pos: int, decimals: int) -> None:
    rng = np.random.default_rng(n_neg + decimals)
    labels = rng.permutation([0] * n_neg + [1] * n_pos)
    base = np.round(rng.standard_normal(n_neg + n_pos) + labels, decimals)  # few decimals make ties
    variant = np.round(base + 0.5 * rng.standard_normal(len(base)), decimals)
    result = paired_auroc(variant, base, labels)
    assert result.base == pytest.approx(literal_auroc(base, labels), abs=1e-12)
    assert result.variant == pytest.approx(literal_auroc(variant, labels), abs=1e-12)
    if result.standard_error > 0:
        error, p = literal_delong(variant, base, labels)
        assert result.standard_error == pytest.approx(error, abs=1e-12)
        assert result.p == pytest.approx(p, abs=1e-10)


def test_another_implementation() -> None:
    # MLstatkit 0.1.91: Delong_test(LABELS, BASE, VARIANT) -> z -1.5740165468913092, p 0.11548362406597795,
    # AUROC .8671875 and .703125, var_diff 0.010864257812499998
    result = paired_auroc(VARIANT, BASE, LABELS)
    assert (result.base, result.variant, result.delta) == (0.8671875, 0.703125, -0.1640625)
    assert result.standard_error**2 == pytest.approx(0.010864257812499998, abs=1e-15)
    assert result.p == pytest.approx(0.11548362406597795, abs=1e-10)


def test_by_hand() -> None:
    # Pairs (positive, negative): .4 against .1 wins, .4 against .4 ties, .9 wins twice: 3.5 / 4.
    assert auroc([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1]) == 3.5 / 4
    assert auroc([1.0, 1.0], [0, 1]) == 0.5


def test_order_of_the_items_and_monotone_maps_change_no_bit() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 500)
    scores = rng.standard_normal(500) + labels
    order = rng.permutation(500)
    assert auroc(scores[order], labels[order]) == auroc(scores, labels)
    assert auroc(scores + 1.875, labels) == auroc(scores, labels)
    assert auroc(np.exp(scores), labels) == auroc(scores, labels)


def test_negated_scores_mirror_the_area() -> None:
    assert auroc([-x for x in BASE], LABELS) == pytest.approx(1 - auroc(BASE, LABELS), abs=1e-15)


def test_no_change_of_rank_is_p_one() -> None:
    result = paired_auroc([2 * x + 1 for x in BASE], BASE, LABELS)
    assert (result.delta, result.standard_error, result.p) == (0.0, 0.0, 1.0)


def test_opposite_perfect_rankings_leave_p_undefined() -> None:
    result = paired_auroc([4, 3, 2, 1], [1, 2, 3, 4], [0, 0, 1, 1])
    assert (result.base, result.variant, result.p) == (1.0, 0.0, None)


def test_rejects_at_most_five_percent_at_its_null() -> None:
    # Two scores of equal quality: the same signal, private noise of the same size.
    rng, labels = np.random.default_rng(7), np.repeat([0, 1], 60)
    rejected = 0
    for _ in range(500):
        shared = rng.standard_normal(120) + 1.2 * labels
        base, variant = (shared + 0.5 * rng.standard_normal(120) for _ in range(2))
        p = paired_auroc(variant, base, labels).p
        rejected += p is not None and p <= 0.05
    assert 0.01 < rejected / 500 <= 0.05 + 2 * 0.0097  # Monte Carlo standard error .0097


@pytest.mark.parametrize(
    ("variant", "base", "labels", "message"),
    [
        ([1, 2, 3], [1, 2, 3, 4], [0, 0, 1, 1], r"expected variant scores of shape \(4,\)"),
        ([1, 2, 3, 4], [1, 2, 3, math.nan], [0, 0, 1, 1], "expected finite base scores, got nan in row 3"),
        ([1, 2, 3], [1, 2, 3], [0, 1, 1], "expected at least 2 items of each class"),
    ],
)
def test_bad_input(variant: list[float], base: list[float], labels: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paired_auroc(variant, base, labels)


def test_one_class_has_no_area() -> None:
    with pytest.raises(InputError, match="got 0 of class 0 and 2 of class 1"):
        auroc([1.0, 2.0], [1, 1])
