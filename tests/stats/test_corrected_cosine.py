"""The corrected cosine, its interval and its test, against the definition and by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from simulated_contrast import simulated_contrast

from hubaudit.stats.corrected_cosine import corrected_cosine, cosine_test
from hubaudit.stats.cosine_sampling import CosineSampling
from hubaudit.stats.paired_contrast import PairedContrast, paired_contrast


def literal_moment(left: np.ndarray, right: np.ndarray, in_a: np.ndarray) -> float:
    """<r_left, r_right> - sum_c tr Cov_c(left, right) / n_c, coordinate by coordinate."""
    total = 0.0
    for k in range(left.shape[1]):
        differences = []
        for column in (left[:, k], right[:, k]):
            mean_a = sum(column[i] for i in range(len(column)) if in_a[i]) / in_a.sum()
            mean_b = sum(column[i] for i in range(len(column)) if not in_a[i]) / (~in_a).sum()
            differences.append(mean_a - mean_b)
        total += differences[0] * differences[1]
        for members in (in_a, ~in_a):
            n_c = members.sum()
            mean_left, mean_right = left[members, k].mean(), right[members, k].mean()
            covariance = sum((left[i, k] - mean_left) * (right[i, k] - mean_right) for i in np.flatnonzero(members))
            total -= covariance / (n_c - 1) / n_c
    return total


def test_the_literal_definition() -> None:
    rng = np.random.default_rng(1)
    labels = np.array([1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1])
    base = rng.standard_normal((11, 5)) + np.outer(labels, np.ones(5)) * 2
    variant = base + rng.standard_normal((11, 5)) * 0.3
    contrast = paired_contrast(variant, base, labels)
    in_a = labels == 1
    squares = literal_moment(variant, variant, in_a) * literal_moment(base, base, in_a)
    assert corrected_cosine(contrast) == pytest.approx(
        literal_moment(variant, base, in_a) / math.sqrt(squares), abs=1e-12
    )


def test_estimator_noise_leaves_the_cosine() -> None:
    """Ten degrees seen through private noise of one and a half SDs: the mean over audits is still cos 10."""
    rng = np.random.default_rng(2)
    setting: dict[str, Any] = {"n_a": 20, "n_b": 30, "d": 100, "kappa": 30.0, "degrees": 10.0, "noise": 1.5}
    plain, corrected = [], []
    for _ in range(300):
        contrast = simulated_contrast(rng, **setting)
        w = contrast.weights
        lengths = (w @ contrast.gram_base @ w) * (w @ contrast.gram_variant @ w)
        plain.append(w @ contrast.gram_cross @ w / math.sqrt(lengths))
        corrected.append(corrected_cosine(contrast))
    assert np.mean(plain) < 0.95
    error = np.std(corrected) / math.sqrt(300)
    assert error < 0.003
    assert np.mean(corrected) == pytest.approx(math.cos(math.radians(10)), abs=3.5 * error)


def contrasts(count: int, **changes: Any) -> list[PairedContrast]:
    setting: dict[str, Any] = {"n_a": 24, "n_b": 40, "d": 64, "kappa": 40.0, "degrees": 3.0, "noise_power": 0.5}
    rng = np.random.default_rng(3)
    return [simulated_contrast(rng, **(setting | changes)) for _ in range(count)]


def test_the_ends_are_the_cosines_that_the_tails_just_reject() -> None:
    for contrast in contrasts(8) + contrasts(8, degrees=0.0, noise=0.4):
        found, sampling = cosine_test(contrast), CosineSampling(contrast)
        assert found is not None
        assert found.ci_low < corrected_cosine(contrast) < found.ci_high
        if found.ci_low < 1.0:
            assert sampling.tails(found.ci_low)[0] == pytest.approx(0.025, abs=1e-6)
        if found.ci_high < 1.0:
            assert sampling.tails(found.ci_high)[1] == pytest.approx(0.025, abs=1e-6)
        assert (found.rotation_p < 0.05) == (found.ci_high < 1.0)
        assert found.rotation_p == pytest.approx(min(1.0, 2.0 * sampling.tails(1.0)[1]))
        # Every value between the ends is kept, every value outside is rejected: counting tails is counting coverage.
        for cosine in np.linspace(max(-1.0, found.ci_low - 0.02), min(1.0, found.ci_high + 0.02), 41):
            inside = found.ci_low <= cosine <= found.ci_high
            assert inside == (min(sampling.tails(cosine)) >= 0.025)


def test_a_higher_level_is_a_wider_interval() -> None:
    contrast = contrasts(1)[0]
    ends = [cosine_test(contrast, level=level) for level in (0.8, 0.95, 0.99)]
    lows, highs = [e.ci_low for e in ends if e], [e.ci_high for e in ends if e]
    assert lows == sorted(lows, reverse=True)
    assert highs == sorted(highs)


def test_more_power_needs_a_larger_rotation() -> None:
    contrast = contrasts(1)[0]
    found = [cosine_test(contrast, power=power) for power in (0.5, 0.8, 0.95)]
    degrees = [test.min_detectable_degrees for test in found if test]
    assert degrees == sorted(degrees)
    assert degrees[0] < degrees[2]


def test_the_base_against_itself_and_against_a_multiple() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], 12)
    base = rng.standard_normal((24, 6)) + np.outer(labels, np.ones(6))
    assert corrected_cosine(paired_contrast(base, base, labels)) == 1.0
    for factor in (1.0, 3.0, 1e-3):
        found = cosine_test(paired_contrast(factor * base, base, labels))
        assert found is not None
        assert (found.ci_low, found.ci_high, found.rotation_p, found.min_detectable_degrees) == (1.0, 1.0, 1.0, 0.0)


def test_a_rotation_without_noise_is_known_exactly() -> None:
    labels = np.repeat([0, 1], 6)
    contrast = paired_contrast(np.outer(labels, [4.0, 3.0]), np.outer(labels, [1.0, 0.0]), labels)
    found = cosine_test(contrast)
    assert found is not None
    assert corrected_cosine(contrast) == pytest.approx(0.8, abs=1e-15)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.8, 0.8), abs=1e-9)
    assert found.rotation_p == 0.0


def test_opposite_directions_end_at_minus_one() -> None:
    contrast = contrasts(1)[0]
    found = cosine_test(paired_contrast(-contrast.variant, contrast.base, contrast.in_a))
    assert found is not None
    assert found.ci_low == -1.0
    assert found.ci_high < -0.9


def test_a_class_of_three_has_no_interval() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], [3, 12])
    base = rng.standard_normal((15, 6)) + 3 * np.outer(labels, np.ones(6))
    assert cosine_test(paired_contrast(base + 0.1 * rng.standard_normal((15, 6)), base, labels)) is None


def test_without_separation_there_is_no_cosine() -> None:
    # Class means coincide exactly, so the unbiased squared length is minus the noise.
    base = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert corrected_cosine(paired_contrast(base, base, [0, 0, 1, 1])) is None


def rates(audits: int, seed: int, **setting: Any) -> tuple[float, float]:
    """Share of audits that detect a rotation, and share of intervals that cover."""
    rng = np.random.default_rng(seed)
    cosine = math.cos(math.radians(setting["degrees"]))
    detected = covered = defined = 0
    while defined < audits:
        contrast = simulated_contrast(rng, **setting)
        if corrected_cosine(contrast) is None:
            continue  # no separation is left to measure: one audit in thousands at the smallest kappa
        defined += 1
        sampling = CosineSampling(contrast)
        detected += sampling.tails(1.0)[1] < 0.025
        covered += min(sampling.tails(cosine)) >= 0.025
    return detected / audits, covered / audits


# (prompts of A, of B, width, kappa, power of the covariance, power of the private noise)
SETTINGS = [(32, 32, 256, 0.8, 0.0, 0.0), (16, 48, 256, 60.0, 1.0, 0.0), (32, 32, 256, 600.0, 1.0, 1.0)]


def as_setting(cell: tuple[int, int, int, float, float, float]) -> dict[str, Any]:
    return dict(zip(("n_a", "n_b", "d", "kappa", "power", "noise_power"), cell, strict=True))


@pytest.mark.parametrize("cell", SETTINGS)
def test_false_alarms_and_coverage_without_rotation(cell: tuple[int, int, int, float, float, float]) -> None:
    detected, covered = rates(400, 6, degrees=0.0, **as_setting(cell))
    # 5 % and 93 %, with two standard errors of 400 audits.
    assert detected <= 0.05 + 2 * 0.0109
    assert covered >= 0.93 - 2 * 0.0128


@pytest.mark.parametrize("cell", SETTINGS)
def test_coverage_of_ten_degrees(cell: tuple[int, int, int, float, float, float]) -> None:
    _, covered = rates(400, 7, degrees=10.0, **as_setting(cell))
    # 93 to 97 %, with two standard errors of 400 audits.
    assert 0.93 - 2 * 0.0128 <= covered <= 0.97 + 2 * 0.0085


def test_the_smallest_detectable_rotation_is_detected_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    setting: dict[str, Any] = {"n_a": 32, "n_b": 32, "d": 256, "kappa": 60.0}
    found = [cosine_test(simulated_contrast(rng, degrees=0.0, **setting)) for _ in range(10)]
    degrees = float(np.median([test.min_detectable_degrees for test in found if test]))
    detected, _ = rates(300, 9, degrees=degrees, **setting)
    assert detected == pytest.approx(0.8, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("along_noise", [False, True])
@pytest.mark.parametrize("cell", [*SETTINGS, (64, 64, 256, 8.0, 1.0, 1.0), (16, 16, 576, 60.0, 0.0, 1.0)])
def test_coverage_over_the_grid(
    cell: tuple[int, int, int, float, float, float], degrees: float, along_noise: bool
) -> None:
    detected, covered = rates(2000, 10, degrees=degrees, along_noise=along_noise, **as_setting(cell))
    # Two standard errors of 2000 audits: .0097 at 95 %.
    if degrees == 0.0:
        assert detected <= 0.05 + 0.0097
        assert covered >= 0.93 - 0.0115
    elif cell[5] == 0.0:
        assert 0.93 - 0.0115 <= covered <= 0.97 + 0.0077
    else:
        # Correlated noise about as large as the rotation: see the limits that `cosine_test` states.
        assert 0.91 - 0.0128 <= covered <= 0.999
