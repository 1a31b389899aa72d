"""Unbiased moments of a difference of class means, and their variance."""

from __future__ import annotations

import numpy as np
import pytest

from hubaudit.stats.contrast_moments import influence_rows, noise_matrix, noise_trace, unbiased_moment

IN_A = np.array([True, False, True, True, False, False, True, False, False])


def test_the_moment_is_the_u_statistic() -> None:
    rows = np.random.default_rng(1).standard_normal((9, 4))
    kernel = rows @ rows.T
    within_a = [kernel[i, j] for i in range(9) for j in range(9) if i != j and IN_A[i] and IN_A[j]]
    within_b = [kernel[i, j] for i in range(9) for j in range(9) if i != j and not IN_A[i] and not IN_A[j]]
    between = [kernel[i, j] for i in range(9) for j in range(9) if IN_A[i] and not IN_A[j]]
    literal = sum(within_a) / len(within_a) + sum(within_b) / len(within_b) - 2 * sum(between) / len(between)
    assert unbiased_moment(kernel, IN_A) == pytest.approx(literal, abs=1e-12)


def test_the_noise_trace_is_the_covariances() -> None:
    rows = np.random.default_rng(2).standard_normal((9, 4))
    literal = sum(np.trace(np.cov(rows[members].T)) / members.sum() for members in (IN_A, ~IN_A))
    assert noise_trace(rows @ rows.T, IN_A) == pytest.approx(literal, abs=1e-12)


def test_a_common_shift_changes_nothing() -> None:
    rows = np.random.default_rng(3).standard_normal((9, 4))
    shifted = rows + np.array([5.0, -3.0, 2.0, 40.0])
    for function in (unbiased_moment, noise_trace, influence_rows, noise_matrix):
        assert function(shifted @ shifted.T, IN_A) == pytest.approx(function(rows @ rows.T, IN_A), abs=1e-10)


def test_influences_are_the_definition() -> None:
    rows = np.random.default_rng(4).standard_normal((9, 4))
    direction = rows[IN_A].mean(axis=0) - rows[~IN_A].mean(axis=0)
    found = influence_rows(rows @ rows.T, IN_A)
    for i in range(9):
        members = IN_A if IN_A[i] else ~IN_A
        n_c = members.sum()
        sign = 1.0 if IN_A[i] else -1.0
        literal = 2 * sign * (rows[i] - rows[members].mean(axis=0)) @ direction / np.sqrt(n_c * (n_c - 1))
        assert found[i] == pytest.approx(literal, abs=1e-12)


def test_first_and_second_order_variance_are_unbiased() -> None:
    """Against the Gaussian formulas, for a dimension above n and covariances that differ between the classes."""
    rng, d, audits = np.random.default_rng(5), 12, 4000
    sds = np.array([np.linspace(0.5, 2.0, d), np.linspace(1.5, 0.2, d)])
    true = np.linspace(0.0, 1.0, d)
    first, other = sds**2
    noise = first / 4 + other / 5
    first_order, noise_square, cubed = 4 * (true**2 @ noise), noise @ noise, (noise**3).sum()
    # No prompt meets itself: 4 * 3 and 5 * 4 pairs within the classes, 4 * 5 between.
    second_order = 2 * (first @ first) / (4 * 3) + 2 * (other @ other) / (5 * 4) + 4 * (first @ other) / (4 * 5)
    found = np.zeros((audits, 4))
    for k in range(audits):
        rows = np.where(
            IN_A[:, None], true + sds[0] * rng.standard_normal((9, d)), sds[1] * rng.standard_normal((9, d))
        )
        kernel = rows @ rows.T
        influences, pairs = influence_rows(kernel, IN_A), noise_matrix(kernel, IN_A)
        found[k] = (
            unbiased_moment(kernel, IN_A),
            influences @ influences,
            2 * (pairs**2).sum(),
            (pairs @ pairs * pairs).sum(),
        )
    means, errors = found.mean(axis=0), found.std(axis=0) / np.sqrt(audits)
    expected = [true @ true, first_order + 4 * noise_square, second_order]
    # Three and a half standard errors of the simulation itself.
    assert np.abs(means[:3] - expected).tolist() <= (3.5 * errors[:3]).tolist()
    assert found[:, 0].var() == pytest.approx(first_order + second_order, rel=0.08)
    # The third moment of the noise keeps a bias of order 1/n; it only shapes the tails.
    assert means[3] == pytest.approx(cubed, rel=0.35)
