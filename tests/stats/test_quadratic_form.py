"""The law of a quadratic form against laws that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hubaudit.stats.quadratic_form import QuadraticForm


@pytest.mark.parametrize(("df", "tolerance"), [(1, 0.007), (2, 0.002), (3, 0.0012), (8, 0.0004), (200, 1e-5)])
def test_equal_weights_are_a_chi_square(df: int, tolerance: float) -> None:
    form = QuadraticForm(np.full(df, 3.0), np.ones(df))
    assert form.variance == pytest.approx(2 * df * 9)
    assert form.skew == pytest.approx(math.sqrt(8 / df))
    for p in (0.025, 0.2, 0.5, 0.8, 0.975, 0.999):
        value = 3.0 * (stats.chi2.ppf(p, df) - df)
        below, above = form.tails(value)
        assert below == pytest.approx(p, abs=tolerance)
        if p in (0.025, 0.975):
            assert below == pytest.approx(p, abs=0.0022)
        assert below + above == pytest.approx(1.0, abs=1e-12)
        assert form.tails(form.quantile(p))[0] == pytest.approx(p, abs=1e-8)


def test_the_far_tail_keeps_its_relative_accuracy() -> None:
    form = QuadraticForm(np.ones(5), np.ones(5))
    assert form.tails(120.0 - 5.0)[1] == pytest.approx(stats.chi2.sf(120.0, 5), rel=0.03)


def test_unequal_weights() -> None:
    # Imhof (1961), Biometrika 48, Table 1, Q1 = .6 chi2(1) + .3 chi2(1) + .1 chi2(1): P(Q1 > x).
    form = QuadraticForm(np.array([0.6, 0.3, 0.1]), np.ones(3))
    for x, above in ((0.1, 0.9458), (0.7, 0.5064), (2.0, 0.1240)):
        assert form.tails(x - 1.0)[1] == pytest.approx(above, abs=0.007)


def test_weights_of_both_signs() -> None:
    # chi2(2) - chi2(2) is a Laplace variable of scale 2.
    form = QuadraticForm(np.array([1.0, -1.0]), np.array([2.0, 2.0]))
    for x in (-9.0, -1.0, 0.0, 0.5, 6.0, 40.0):
        assert form.tails(x)[1] == pytest.approx(stats.laplace(scale=2).sf(x), rel=0.06)


def test_mirroring_the_weights_mirrors_the_law() -> None:
    weights = np.array([2.0, 0.5, 0.1])
    form, mirrored = QuadraticForm(weights, np.ones(3)), QuadraticForm(-weights, np.ones(3))
    assert form.quantile(0.025) == pytest.approx(-mirrored.quantile(0.975), rel=1e-7)
    assert form.tails(1.3) == pytest.approx(mirrored.tails(-1.3)[::-1], rel=1e-9)


def test_a_form_of_zeros_is_zero() -> None:
    form = QuadraticForm(np.zeros(4), np.ones(4))
    assert form.quantile(0.975) == 0.0
    assert [form.tails(x) for x in (-1.0, 0.0, 1.0)] == [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]
