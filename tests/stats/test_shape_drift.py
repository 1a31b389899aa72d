"""Signals of drift over sequences: figures by hand, and what their intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from hubaudit.errors import InputError
from hubaudit.stats.head import Head
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_bound import prism_bound
from hubaudit.stats.shape_drift import (
    Estimate,
    SequenceSums,
    estimate_forgetting,
    estimate_shape_drift,
    estimate_shape_share,
    mean_of,
)


def _sets(rng, lengths=(5, 9, 4, 7)):
    base = [rng.standard_normal((length, 6)) for length in lengths]
    now = [1.1 * rows + 0.2 * rng.standard_normal(rows.shape) for rows in base]
    return base, now


def test_drift_and_share_are_those_of_prism_bound():
    base, now = _sets(np.random.default_rng(0))
    sums = SequenceSums.of(base, now)
    moments = PrismMoments(6)
    moments.update(np.concatenate(base), np.concatenate(now))
    bound = prism_bound(moments, Head(np.eye(6)))
    assert estimate_shape_drift(sums).value == pytest.approx(1 - bound.omega, rel=1e-9)
    shape = 2 * bound.rho_base * bound.rho_variant * (1 - bound.omega)
    scale = (bound.rho_base - bound.rho_variant) ** 2
    assert estimate_shape_share(sums).value == pytest.approx(shape / (shape + scale), rel=1e-9)


def test_forgetting_is_a_mean_over_tokens():
    found = estimate_forgetting(np.array([2.0, 4.0, 0.0]), np.array([3.0, 9.0, 0.0]), np.array([2.0, 8.0, 0.0]))
    assert found.value == pytest.approx(0.6)
    assert found.n == 2
    assert found.ci_low < 0.6 < found.ci_high


@pytest.mark.parametrize("lengths", [(5,), (5, 5)])
def test_no_drift_has_no_interval_but_a_reason(lengths):
    base, _ = _sets(np.random.default_rng(0), lengths)
    sums = SequenceSums.of(base, base)
    drift = estimate_shape_drift(sums)
    assert drift.value == pytest.approx(0, abs=1e-15)
    assert drift.ci_low is None
    assert drift.reason
    assert estimate_forgetting(np.zeros(1), np.ones(1), np.ones(1)).reason == "an interval needs two sequences"
    assert estimate_forgetting(np.zeros(1), np.ones(1), np.zeros(1)).value is None


def test_other_tokens_are_refused():
    base, now = _sets(np.random.default_rng(0))
    with pytest.raises(InputError, match="same tokens"):
        SequenceSums.of(base, now[::-1])


def test_mean_of_sets_adds_their_errors():
    sets = [Estimate(0.1, 0.05, 0.2, 8), Estimate(0.3, 0.15, 0.6, 8)]
    positive, plain = mean_of(sets, positive=True), mean_of(sets)
    assert positive.value == plain.value == pytest.approx(0.2)
    assert positive.n == 16
    assert 0 < positive.ci_low < 0.2 < positive.ci_high
    assert mean_of([Estimate(None, None, None, 1, "why"), *sets]).reason == "undefined for a set: why"
    assert mean_of([]).value is None


def _draw(rng, n):
    """Sequences of varying length, whose drift varies by a log-sd of .8."""
    base = 64 * np.exp(0.3 * rng.standard_normal(n))
    level, scale = 0.02 * np.exp(0.8 * rng.standard_normal(n)), 1 + 0.05 * rng.standard_normal(n)
    noise = 0.02 * np.sqrt(level) * base * rng.standard_normal(n)
    return SequenceSums(base, scale**2 * (base + 2 * noise + level * base), scale * (base + noise), np.ones(n))


@pytest.mark.parametrize(("n", "low"), [(8, 0.86), (32, 0.90)])
@pytest.mark.parametrize("estimate", [estimate_shape_drift, estimate_shape_share])
def test_intervals_cover(n, low, estimate):
    rng = np.random.default_rng(0)
    truth = estimate(_draw(rng, 2_000_000)).value
    found = [estimate(_draw(rng, n)) for _ in range(1000)]
    covered = np.mean([entry.ci_low <= truth <= entry.ci_high for entry in found])
    assert low <= covered <= 0.99
