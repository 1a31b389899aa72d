"""Drift between two models' scores: literal influence values and resampling, invariants, coverage."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize

from hubaudit.stats.separation import measure_drift

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def make_scores(
    n_neg: int, n_pos: int, *, shift: float, gain: float, noise: float, seed: int, distance: float = 1.25
) -> tuple[Array, Array, Mask]:
    rng = np.random.default_rng(seed)
    positive = np.arange(n_neg + n_pos) >= n_neg
    unit = rng.standard_normal(n_neg + n_pos)
    base = unit + distance * positive
    return base, unit + shift + gain * distance * positive + noise * rng.standard_normal(len(unit)), positive


def literal_influence(base: Array, variant: Array, positive: Mask) -> dict[str, tuple[float, list[float], list[float]]]:
    """Value and each item's influence, item by item, from the definitions of the two d' and of the shift."""
    parts = {}
    for name, scores in (("base", base), ("variant", variant)):
        neg, pos = scores[~positive].tolist(), scores[positive].tolist()
        means = sum(neg) / len(neg), sum(pos) / len(pos)
        squares = [(x - means[0]) ** 2 for x in neg], [(x - means[1]) ** 2 for x in pos]
        variance = (sum(squares[0]) + sum(squares[1])) / (len(neg) + len(pos) - 2)
        # An item moves the pooled variance by its own squared deviation, weighted with the share of its class.
        moved = [
            [len(s) / (len(neg) + len(pos) - 2) * (x - sum(s) / len(s)) / variance / 2 for x in s] for s in squares
        ]
        parts[name] = (neg, pos, means, math.sqrt(variance), moved)
    found = {}
    for name, (neg, pos, means, sd, moved) in parts.items():
        d = (means[1] - means[0]) / sd
        found[name] = (
            d,
            [-(x - means[0]) / sd - d * m for x, m in zip(neg, moved[0], strict=True)],
            [(x - means[1]) / sd - d * m for x, m in zip(pos, moved[1], strict=True)],
        )
    neg, _, _, sd, moved = parts["base"]
    shifts = [p - b for p, b in zip(parts["variant"][0], neg, strict=True)]
    mean_shift = sum(shifts) / len(shifts)
    value = mean_shift / sd
    found["shift"] = (
        value,
        [(s - mean_shift) / sd - value * m for s, m in zip(shifts, moved[0], strict=True)],
        [-value * m for m in moved[1]],
    )
    return found


def literal_error(neg: list[float], pos: list[float]) -> float:
    return math.sqrt(sum(sum(x * x for x in v) / (len(v) * (len(v) - 1)) for v in (neg, pos)))


def literal_ratio(found: dict[str, tuple[float, list[float], list[float]]], ratio: float) -> tuple[float, float]:
    """d'(variant) - ratio d'(base) and its error."""
    (base_d, base_neg, base_pos), (variant_d, variant_neg, variant_pos) = found["base"], found["variant"]
    neg = [p - ratio * b for p, b in zip(variant_neg, base_neg, strict=True)]
    pos = [p - ratio * b for p, b in zip(variant_pos, base_pos, strict=True)]
    return variant_d - ratio * base_d, literal_error(neg, pos)


@pytest.mark.parametrize("sign", [1, -1])
def test_equals_the_bootstrap_written_out(sign: int) -> None:
    base, variant, positive = make_scores(14, 20, shift=0.4, gain=0.7, noise=0.3, seed=2, distance=3.0)
    base, variant = sign * base + 50.0, sign * variant + 50.0
    drift = measure_drift(base, variant, positive, seed=9, n_resamples=200)
    found = literal_influence(base, variant, positive)
    ratio = found["variant"][0] / found["base"][0]
    rng = np.random.default_rng(9)
    rows_neg = rng.integers(0, 14, (200, 14))
    rows_pos = rng.integers(0, 20, (200, 20))
    shift_pivots, ratio_pivots = [], []
    for neg, pos in zip(rows_neg, rows_pos, strict=True):
        rows = np.concatenate([np.flatnonzero(~positive)[neg], np.flatnonzero(positive)[pos]])
        again = literal_influence(base[rows], variant[rows], positive[rows])
        shift_pivots.append((again["shift"][0] - found["shift"][0]) / literal_error(*again["shift"][1:]))
        difference, error = literal_ratio(again, ratio)
        ratio_pivots.append(difference / error)
    low, high = np.quantile(shift_pivots, [0.025, 0.975])
    error = literal_error(*found["shift"][1:])
    assert drift.translation == pytest.approx(found["shift"][0], abs=1e-12)
    assert drift.translation_interval == pytest.approx(
        (found["shift"][0] - high * error, found["shift"][0] - low * error), abs=1e-10
    )
    assert drift.d_prime_base == pytest.approx(found["base"][0], abs=1e-12)
    assert drift.d_prime_variant == pytest.approx(found["variant"][0], abs=1e-12)
    assert drift.attenuation == pytest.approx(1 - ratio, abs=1e-12)
    ends = []
    for quantile in np.quantile(ratio_pivots, [0.025, 0.975]):
        # The ratio whose pivot is the quantile, by search instead of the quadratic.
        def gap(r: float, quantile: float = float(quantile)) -> float:
            value, spread = literal_ratio(found, r)
            return value / spread - quantile

        ends.append(1 - optimize.brentq(gap, -5.0, 5.0, xtol=1e-13))
    assert drift.attenuation_interval == pytest.approx(sorted(ends), abs=1e-9)


def test_by_hand() -> None:
    # Negatives -1, 1 and positives 3, 5: SD sqrt((2 + 2) / 2) = sqrt 2, d' = 4 / sqrt 2.
    # The variant: 1, 3 and 3, 5: shift 2 / sqrt 2, d' half as large.
    drift = measure_drift(
        np.array([-1.0, 1.0, 3.0, 5.0]), np.array([1.0, 3.0, 3.0, 5.0]), np.array([False, False, True, True]), seed=0
    )
    assert drift.d_prime_base == pytest.approx(4 / math.sqrt(2), abs=1e-15)
    assert drift.translation == pytest.approx(2 / math.sqrt(2), abs=1e-15)
    assert drift.attenuation == pytest.approx(1 / 2, abs=1e-15)


def test_identity_is_exactly_nothing() -> None:
    base, _, positive = make_scores(40, 40, shift=0, gain=1, noise=0, seed=1)
    drift = measure_drift(base, base.copy(), positive, seed=0)
    assert (drift.translation, drift.translation_interval) == (0.0, (0.0, 0.0))
    assert (drift.attenuation, drift.attenuation_interval) == (0.0, (0.0, 0.0))


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("offset", [-3.0, 1e-3, 1.875, 1e4])
def test_a_pure_offset_attenuates_nothing(offset: float, mean: float) -> None:
    base, _, positive = make_scores(40, 40, shift=0, gain=1, noise=0, seed=1)
    base += mean
    drift = measure_drift(base, base + offset, positive, seed=0)
    # Adding the offset rounds each score to a relative 1e-16 of it.
    assert drift.attenuation == pytest.approx(0.0, abs=1e-9)
    assert drift.attenuation_interval == (drift.attenuation, drift.attenuation)
    low, high = drift.translation_interval
    assert min(low, high) < drift.translation < max(low, high)
    assert math.copysign(1.0, low) == math.copysign(1.0, offset)


def test_scale_and_large_means_change_nothing() -> None:
    base, variant, positive = make_scores(30, 50, shift=0.3, gain=0.8, noise=0.2, seed=3)
    plain = measure_drift(base, variant, positive, seed=4)
    scaled = measure_drift(1000.0 * base + 1e6, 1000.0 * variant + 1e6, positive, seed=4)
    for one, other in (
        (plain.translation_interval, scaled.translation_interval),
        (plain.attenuation_interval, scaled.attenuation_interval),
        (plain.d_prime_base, scaled.d_prime_base),
    ):
        assert one == pytest.approx(other, rel=1e-7)  # 1e6 against a spread of 1000 leaves 1e-13 of each score


def test_only_the_separation_counts_for_attenuation() -> None:
    base, variant, positive = make_scores(60, 60, shift=0.3, gain=0.8, noise=0.2, seed=3)
    moved = measure_drift(base, 0.1 * variant - 7.0, positive, seed=4)
    plain = measure_drift(base, variant, positive, seed=4)
    assert moved.attenuation == pytest.approx(plain.attenuation, abs=1e-12)
    assert moved.attenuation_interval == pytest.approx(plain.attenuation_interval, abs=1e-9)


def test_chunks_draw_other_resamples_but_the_same_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    base, variant, positive = make_scores(100, 100, shift=0.3, gain=0.8, noise=0.2, seed=3)
    whole = measure_drift(base, variant, positive, seed=4)
    monkeypatch.setattr("hubaudit.stats.separation.CHUNK_VALUES", 20_000)
    parts = measure_drift(base, variant, positive, seed=4)
    # 999 resamples place a 2.5 % quantile to about .1 standard errors.
    width = whole.translation_interval[1] - whole.translation_interval[0]
    assert parts.translation_interval == pytest.approx(whole.translation_interval, abs=0.1 * width)


def test_no_interval_of_a_ratio_to_nothing() -> None:
    base, variant, positive = make_scores(30, 30, shift=0, gain=1, noise=0.1, seed=5, distance=0.05)
    drift = measure_drift(base, variant, positive, seed=0)
    assert drift.attenuation is not None
    assert drift.attenuation_interval is None
    level = measure_drift(
        np.array([0.0, 2, 0, 2]), np.array([0.0, 1, 2, 3]), np.array([False, False, True, True]), seed=0
    )
    assert (level.attenuation, level.attenuation_interval) == (None, None)


def coverage(n_neg: int, n_pos: int, *, shift: float, gain: float, noise: float, audits: int) -> tuple[float, float]:
    """Share of audits whose intervals hold the true translation and attenuation."""
    lost = 1 - gain / math.sqrt(1 + noise**2)
    held = np.zeros(2)
    for seed in range(audits):
        drift = measure_drift(*make_scores(n_neg, n_pos, shift=shift, gain=gain, noise=noise, seed=seed), seed=seed)
        assert drift.attenuation_interval is not None
        held += (
            drift.translation_interval[0] <= shift <= drift.translation_interval[1],
            drift.attenuation_interval[0] <= lost <= drift.attenuation_interval[1],
        )
    return float(held[0] / audits), float(held[1] / audits)


def test_intervals_cover() -> None:
    # The full grid is benchmarks/coverage_translation.py. Monte Carlo standard error at 200 audits: .015.
    for held in coverage(64, 48, shift=0.5, gain=0.8, noise=0.2, audits=200):
        assert 0.905 <= held <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize(("n_neg", "n_pos"), [(48, 48), (64, 128)])
@pytest.mark.parametrize(("shift", "gain", "noise"), [(0.0, 1.0, 0.1), (0.5, 0.7, 0.3), (1.9, 0.5, 0.1)])
def test_intervals_cover_93_to_97_percent(n_neg: int, n_pos: int, shift: float, gain: float, noise: float) -> None:
    for held in coverage(n_neg, n_pos, shift=shift, gain=gain, noise=noise, audits=4000):
        assert 0.93 - 0.007 <= held <= 0.97 + 0.007  # two Monte Carlo standard errors
