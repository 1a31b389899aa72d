"""Refits: no item is judged by a fit that saw it; accuracies and recovered shares written out."""

from __future__ import annotations

import numpy as np
import pytest

from hubaudit.stats.paired import mcnemar_p
from hubaudit.stats.probe import mean_difference
from hubaudit.stats.refit import compare_accuracies, deal_folds, refit_probe, refit_threshold


def make_scores(n: int, *, offset: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    base = rng.standard_normal(n) + 2.0 * positive - 1.0
    return base, base + offset, positive


@pytest.mark.parametrize(("n_neg", "n_pos", "count"), [(40, 40, 5), (3, 50, 3), (2, 2, 2)])
def test_folds_are_stratified_and_leave_both_classes(n_neg: int, n_pos: int, count: int) -> None:
    positive = np.arange(n_neg + n_pos) >= n_neg
    fold = deal_folds(positive, n_folds=5, seed=0)
    assert set(fold) == set(range(count))
    for held_out in range(count):
        for of_class in (positive, ~positive):
            inside = int((of_class & (fold == held_out)).sum())
            assert inside in (int(of_class.sum()) // count, -(-int(of_class.sum()) // count))
            assert int(of_class.sum()) > inside


def test_threshold_equals_plain_loops() -> None:
    _, variant, positive = make_scores(60, offset=0.7, seed=1)
    fold = deal_folds(positive, n_folds=5, seed=3)
    predicted = refit_threshold(variant, positive, fold)
    for i in range(60):
        high = [variant[j] for j in range(60) if fold[j] != fold[i] and positive[j]]
        low = [variant[j] for j in range(60) if fold[j] != fold[i] and not positive[j]]
        middle = (sum(high) / len(high) + sum(low) / len(low)) / 2
        assert predicted[i] == (variant[i] > middle)


def test_an_item_never_votes_on_itself() -> None:
    # Labels that say nothing about the features: a probe that saw the item would do better than chance.
    rng = np.random.default_rng(5)
    features, positive = rng.standard_normal((100, 300)), np.arange(100) % 2 == 0
    fold = deal_folds(positive, n_folds=5, seed=0)
    right = (refit_probe(features, positive, fold, fit=mean_difference) == positive).mean()
    assert right == pytest.approx(0.5, abs=0.15)  # 3 standard errors
    seen = (features @ mean_difference(features, positive) > 0) == positive
    assert seen.mean() > 0.9


def test_refits_follow_an_offset_of_the_scores() -> None:
    base, variant, positive = make_scores(80, offset=40.0, seed=2)
    fold = deal_folds(positive, n_folds=5, seed=0)
    assert refit_threshold(variant, positive, fold).tolist() == refit_threshold(base, positive, fold).tolist()


def test_accuracies_by_hand() -> None:
    # Base right on all four; the variant loses the two positives; no refit sees more than one item of each class.
    base, variant = np.array([-1.0, -2.0, 1.0, 2.0]), np.array([-11.0, -12.0, -9.0, -8.0])
    positive = np.array([False, False, True, True])
    found = compare_accuracies(
        base, variant, positive, threshold=0.0, base_features=None, variant_features=None, seed=0
    )
    assert (found.base, found.fixed, found.refit_threshold) == (1.0, 0.5, 1.0)
    assert (found.recovered_by_threshold, found.recovered_by_probe) == (1.0, None)
    assert (found.refit_probe, found.base_refit_probe, found.n_refit) == (None, None, 2)
    assert found.loss_p == mcnemar_p(2, 0) == 0.5


def test_nothing_lost_is_nothing_to_recover() -> None:
    base, _, positive = make_scores(40, offset=0.0, seed=3)
    found = compare_accuracies(
        base, base, positive, threshold=0.0, base_features=base[:, None], variant_features=base[:, None], seed=0
    )
    assert (found.recovered_by_threshold, found.recovered_by_probe) == (None, None)
    assert found.refit_probe == found.refit_mean_difference == found.base_refit_probe == found.refit_threshold


def test_threshold_of_the_base_is_used() -> None:
    base, variant, positive = make_scores(200, offset=0.5, seed=4)
    moved = compare_accuracies(
        base + 3, variant + 3, positive, threshold=3.0, base_features=None, variant_features=None, seed=0
    )
    plain = compare_accuracies(
        base, variant, positive, threshold=0.0, base_features=None, variant_features=None, seed=0
    )
    assert moved == plain
    assert plain.fixed == float(((variant > 0) == positive).mean())
