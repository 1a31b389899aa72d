"""The two probes: literal solutions, limits, and the case that only whitening repairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hubaudit.stats.probe import RIDGES, discriminant, discriminant_path, mean_difference

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def make_features(n: int, d: int, *, seed: int, spread: Array | None = None) -> tuple[Array, Mask]:
    rng = np.random.default_rng(seed)
    positive = np.arange(n) % 3 == 0
    features = rng.standard_normal((n, d)) * (np.ones(d) if spread is None else spread)
    features[positive, 0] += 1.5
    return features, positive


def cosine(one: Array, other: Array) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("n", "d"), [(60, 7), (20, 45)])
def test_path_solves_the_ridge_system_written_out(n: int, d: int) -> None:
    features, positive = make_features(n, d, seed=1, spread=np.linspace(0.2, 3, d))
    covariance = np.zeros((d, d))
    for of_class in (positive, ~positive):
        for row in features[of_class]:
            deviation = row - features[of_class].mean(axis=0)
            covariance += np.outer(deviation, deviation) / n
    variance = np.trace(covariance) / d
    difference = features[positive].mean(axis=0) - features[~positive].mean(axis=0)
    for ridge, direction in zip(
        (0.01, 1.0, 50.0), discriminant_path(features, positive, (0.01, 1.0, 50.0)), strict=True
    ):
        wanted = np.linalg.solve(covariance + ridge * variance * np.eye(d), ridge * variance * difference)
        # The wide form inverts n x n instead of d x d; both lose digits to the smallest ridge.
        assert direction == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_small_ridge_is_scikit_learns_discriminant() -> None:
    features, positive = make_features(200, 6, seed=2, spread=np.array([1, 2, 0.5, 1, 3, 0.2]))
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(features, positive).coef_[0]
    assert cosine(discriminant_path(features, positive, (1e-10,))[0], theirs) == pytest.approx(1.0, abs=1e-9)


def test_large_ridge_is_the_difference_of_means() -> None:
    features, positive = make_features(50, 8, seed=3)
    direction = discriminant_path(features, positive, (1e12,))[0]
    assert direction == pytest.approx(mean_difference(features, positive), rel=1e-9)


def test_few_items_fall_back_to_the_difference_of_means() -> None:
    features, positive = make_features(20, 5, seed=4)  # 7 positives
    assert discriminant(features, positive).tolist() == mean_difference(features, positive).tolist()


def test_features_without_spread() -> None:
    positive = np.array([True, False] * 10)
    features = np.outer(positive, np.array([1.0, 2.0]))
    assert discriminant(features, positive).tolist() == [1.0, 2.0]


def test_the_chosen_ridge_is_one_of_the_path() -> None:
    features, positive = make_features(90, 10, seed=5)
    path = discriminant_path(features, positive, RIDGES)
    assert any(np.allclose(discriminant(features, positive), row, rtol=1e-12) for row in path)


def test_whitening_finds_a_direction_attenuated_with_its_noise() -> None:
    # Signal and noise along the first axis shrunk to a fifth: the difference of means drowns in the other axes.
    features, positive = make_features(600, 64, seed=6)
    features[:, 0] *= 0.2
    truth = np.eye(64)[0]
    assert cosine(discriminant(features, positive), truth) > 0.9
    assert cosine(mean_difference(features, positive), truth) < 0.5


def test_isotropic_features_are_left_alone() -> None:
    features, positive = make_features(600, 64, seed=7)
    # Whitening an identity from 600 rows would only add noise; the ridge must mostly switch it off.
    truth = np.eye(64)[0]
    assert cosine(discriminant(features, positive), truth) > cosine(mean_difference(features, positive), truth) - 0.03
