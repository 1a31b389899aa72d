"""The whole direction block: by hand, verdicts, reasons and errors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from simulated_contrast import simulated_contrast

from hubaudit.errors import InputError
from hubaudit.stats.direction_floor import DirectionFloor, direction_floor
from hubaudit.stats.direction_null import class_kappa, floor_half_split, floor_independent

# Class A first. Base: r = (4, 0), the covariances have trace 2 and 2. Variant: r = (8, 3), traces 10 and 2.
BASE = np.array([[3.0, 1.0], [5.0, 1.0], [0.0, 0.0], [0.0, 2.0]])
VARIANT = np.array([[6.0, 3.0], [10.0, 5.0], [0.0, 0.0], [0.0, 2.0]])
LABELS = ["yes", "yes", "no", "no"]


def test_by_hand_in_fractions() -> None:
    found = direction_floor(VARIANT, BASE, LABELS)
    assert (found.n_a, found.n_b, found.n_per_class, found.d) == (2, 2, 2.0, 2)
    # Pooled variance per dimension (2 + 2) / 2 / 2 = 1; rho^2 = 16 - 2/2 - 2/2.
    assert found.rho_naive == pytest.approx(4, abs=1e-12)
    assert found.rho == pytest.approx(math.sqrt(14), abs=1e-12)
    assert found.rho_per_sqrt_d == pytest.approx(math.sqrt(7), abs=1e-12)
    assert found.kappa == pytest.approx(14, abs=1e-12)
    assert found.floor_half_split == pytest.approx(7 / 9, abs=1e-12)
    assert found.floor_independent == pytest.approx(7 / 8, abs=1e-12)
    assert found.cosine == pytest.approx(8 / math.sqrt(73), abs=1e-12)
    # <r_P, r_T> = 32 less 4/2 + 2/2; |r_P|^2 = 73 less 10/2 + 2/2.
    assert found.corrected_cosine == pytest.approx(29 / math.sqrt(67 * 14), abs=1e-12)
    assert found.rotation_degrees == pytest.approx(math.degrees(math.acos(29 / math.sqrt(938))), abs=1e-9)
    assert found.subspace_gain == pytest.approx((6 + 10) / (3 + 5), abs=1e-12)
    # One prompt of each class in each half: both ways of pairing them give the base the same cosine.
    assert found.base_null_mean == pytest.approx(14 / math.sqrt(10 * 26), abs=1e-12)
    assert found.base_null_sd == pytest.approx(0, abs=1e-12)
    ways = sorted([69 / math.sqrt(45 * 109), 65 / math.sqrt(37 * 125)])
    assert ways[0] < found.own_null_mean < ways[1]
    assert found.resolution == 2 * found.own_null_sd
    assert found.ci_low is None
    assert found.reasons["ci_low"] == "an interval needs at least 4 prompts in each class"


def block(degrees: float, *, n: int = 48, noise: float = 0.2, theta0: float = 5.0, seed: int = 1) -> DirectionFloor:
    rng = np.random.default_rng(seed)
    contrast = simulated_contrast(rng, n_a=n, n_b=n, d=64, kappa=60.0, degrees=degrees, noise=noise)
    return direction_floor(contrast.variant, contrast.base, contrast.in_a, theta0_degrees=theta0)


def test_verdicts_follow_the_interval() -> None:
    assert block(0.0).calibrated_verdict == "preserved"
    assert block(12.0).calibrated_verdict == "rotation"
    assert block(5.0).calibrated_verdict == "inconclusive"
    assert block(5.0, theta0=1.0).calibrated_verdict == "rotation"
    assert block(12.0, theta0=30.0).calibrated_verdict == "preserved"
    found = block(5.0)
    assert found.rotation_detected is True
    assert found.theta0_degrees == 5.0


def test_the_rotation_is_the_angle_of_the_cosine() -> None:
    found = block(12.0)
    assert found.rotation_degrees == pytest.approx(math.degrees(math.acos(found.corrected_cosine)))
    assert found.rotation_degrees_low == pytest.approx(math.degrees(math.acos(found.ci_high)))
    assert found.rotation_degrees_high == pytest.approx(math.degrees(math.acos(found.ci_low)))
    assert found.rotation_degrees_low < 12.0 < found.rotation_degrees_high
    beyond_one = next(found for found in (block(0.0, seed=seed) for seed in range(20)) if found.corrected_cosine > 1)
    assert beyond_one.rotation_degrees == 0.0


def test_the_calibrated_test_sees_what_the_papers_rule_does_not() -> None:
    found = block(5.0, n=128, seed=2)
    assert found.verdict == "within_noise"
    assert found.rotation_detected is True
    assert found.min_detectable_degrees < 5.0
    assert found.rotation_p < 1e-6


def test_a_noisier_variant_without_rotation_has_a_lower_own_null() -> None:
    found = block(0.0, noise=2.0)
    assert found.own_null_mean < found.base_null_mean - 0.1
    assert found.rotation_detected is False


def test_the_floors_are_those_of_the_measured_separation() -> None:
    found = block(0.0)
    assert found.kappa == pytest.approx(class_kappa(found.rho, 48, 64))
    assert found.floor_half_split == floor_half_split(found.kappa)
    assert found.floor_independent == floor_independent(found.kappa)
    # Measured within the base, the same floor: one contrast set's null lies within .02 of it here.
    assert found.base_null_mean == pytest.approx(found.floor_half_split, abs=0.02)


def test_the_base_against_itself_is_exact() -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 20)
    base = (rng.standard_normal((40, 30)) + np.outer(labels, np.full(30, 0.7))).astype(np.float32)
    found = direction_floor(base, base, labels)
    assert found.cosine == pytest.approx(1.0, abs=1e-15)
    assert (found.corrected_cosine, found.ci_low, found.ci_high) == (1.0, 1.0, 1.0)
    assert (found.rotation_degrees, found.rotation_detected, found.subspace_gain) == (0.0, False, 1.0)
    assert (found.verdict, found.calibrated_verdict, found.own_null_mean) == (
        "within_noise",
        "preserved",
        found.base_null_mean,
    )


def test_swapping_the_classes_changes_only_their_sizes() -> None:
    rng = np.random.default_rng(4)
    contrast = simulated_contrast(rng, n_a=10, n_b=14, d=8, kappa=60.0, degrees=8.0)
    found = direction_floor(contrast.variant, contrast.base, contrast.in_a).to_dict()
    swapped = direction_floor(contrast.variant, contrast.base, ~contrast.in_a).to_dict()
    assert (found["n_a"], found["n_b"]) == (swapped["n_b"], swapped["n_a"]) == (10, 14)
    # The nulls draw other splits.
    random = {"own_null_mean", "own_null_sd", "base_null_mean", "base_null_sd", "resolution", "n_a", "n_b", "verdict"}
    for name in found.keys() - random:
        assert swapped[name] == (
            pytest.approx(found[name], rel=1e-6) if isinstance(found[name], float) else found[name]
        )


def test_the_seed_sets_the_splits() -> None:
    one, same, other = (direction_floor(VARIANT, BASE, LABELS, seed=seed, n_splits=7) for seed in (1, 1, 2))
    assert one == same
    assert one.n_splits == 7
    assert one.own_null_mean != other.own_null_mean


def test_what_is_undefined_is_null_with_its_reason() -> None:
    labels = np.repeat([0, 1], 5)
    constant = direction_floor(np.full((10, 3), 0.3), np.full((10, 3), 0.1), labels)
    apart = direction_floor(np.outer(labels, [1.0, 2.0]), np.outer(labels, [1.0, 0.0]), labels)
    close = direction_floor(np.eye(10), np.eye(10)[::-1], [0, 1] * 5)
    for found in (constant, apart, close):
        values = found.to_dict()
        assert {name for name, value in values.items() if value is None} == set(values["reasons"])
        json.dumps(values, allow_nan=False)
    assert "do not vary within the classes" in constant.reasons["rho"]
    assert "no direction" in constant.reasons["cosine"]
    assert "not positive" in constant.reasons["corrected_cosine"]
    assert "do not vary within the classes" in apart.reasons["kappa"]
    assert apart.corrected_cosine == pytest.approx(1 / math.sqrt(5))
    # Ten unit vectors: |r|^2 = 2/5, exactly the noise, and rho^2 is zero but for rounding.
    assert close.rho is None or close.rho < 1e-6


def test_a_negative_rho_squared_is_null() -> None:
    base = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = direction_floor(base, base, LABELS)
    assert found.rho_naive == 0.0
    assert found.rho is None
    assert "rho^2 is negative" in found.reasons["rho"]
    assert "rho_naive" not in found.reasons


def test_the_keys_are_the_contracts() -> None:
    # DESIGN.md, section 4: these names stay; new ones may follow.
    contract = [
        "rho_naive",
        "rho",
        "rho_per_sqrt_d",
        "kappa",
        "n_a",
        "n_b",
        "n_per_class",
        "d",
        "floor_half_split",
        "floor_independent",
        "cosine",
        "own_null_mean",
        "own_null_sd",
        "base_null_mean",
        "verdict",
        "resolution",
        "corrected_cosine",
        "ci_low",
        "ci_high",
        "rotation_degrees",
        "rotation_detected",
        "min_detectable_degrees",
        "theta0_degrees",
        "calibrated_verdict",
        "subspace_gain",
    ]
    assert list(block(5.0).to_dict())[: len(contract)] == contract


@pytest.mark.parametrize(
    ("theta0", "n_splits", "message"),
    [(-1.0, 200, r"theta0_degrees must lie in \[0, 90\], but got -1"), (91.0, 200, "theta0"), (5.0, 1, "n_splits")],
)
def test_options_out_of_range(theta0: float, n_splits: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        direction_floor(VARIANT, BASE, LABELS, theta0_degrees=theta0, n_splits=n_splits)
