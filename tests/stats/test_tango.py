"""Tango's score test: against its definition solved numerically, R output, and enumeration of its size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from hubaudit.errors import InputError
from hubaudit.stats.tango import tango_equivalence_p, tango_statistic

TABLES = [(16, 6, 161), (6, 16, 161), (0, 0, 40), (3, 0, 50), (0, 4, 50), (46, 46, 975), (20, 40, 160)]


def literal_statistic(lost: int, gained: int, n: int, difference: float) -> float:
    """The definition: maximise the likelihood under the hypothesis by search, then standardise."""
    least = max(0.0, -difference)

    def share_gained(share_lost: float) -> float:
        return share_lost + difference

    def loss(share_lost: float) -> float:
        terms = (
            (lost, share_lost),
            (gained, share_gained(share_lost)),
            (n - lost - gained, 1 - 2 * share_lost - difference),
        )
        return -sum(count * math.log(max(share, 1e-300)) for count, share in terms if count)

    most = (1 - difference) / 2
    found = optimize.minimize_scalar(loss, bounds=(least, most), method="bounded", options={"xatol": 1e-14}).x
    share_lost = min((least, found, most), key=loss)
    variance = n * (share_lost + share_gained(share_lost) - difference**2)
    return (gained - lost - n * difference) / math.sqrt(variance)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("difference", [-0.1, -0.02, 0.02, 0.2])
def test_equals_the_score_test_with_the_likelihood_maximised_numerically(
    table: tuple[int, int, int], difference: float
) -> None:
    # The search stops within 1e-8 of the maximum, which moves the statistic by about as much.
    assert tango_statistic(*table, difference) == pytest.approx(literal_statistic(*table, difference), abs=2e-5)


def test_r_golden_interval() -> None:
    # R package contingencytables 3.0.0, Tango_asymptotic_score_CI_paired_2x2(cavo_2012), n12 = 6, n21 = 16, n = 161:
    # estimate = -0.0621 (95% CI -0.1240 to -0.0054). An interval end is where the statistic is +-1.96.
    low = optimize.brentq(lambda d: tango_statistic(16, 6, 161, d) - stats.norm.ppf(0.975), -0.5, 0.0)
    high = optimize.brentq(lambda d: tango_statistic(16, 6, 161, d) + stats.norm.ppf(0.975), -0.5, 0.5)
    assert (low, high) == pytest.approx((-0.1240, -0.0054), abs=5e-5)


def test_at_zero_difference_it_is_the_mcnemar_statistic() -> None:
    assert tango_statistic(16, 6, 161, 0.0) == pytest.approx((6 - 16) / math.sqrt(22), abs=1e-12)
    assert tango_statistic(0, 0, 10, 0.0) == 0.0


def test_by_hand() -> None:
    # Nothing flips in 99 items: under a difference of -1/100 the likeliest share of regressions is 1/100.
    # Z = 99/100 / sqrt(99 (1/100 - 1/10000)) = 1.
    assert tango_statistic(0, 0, 99, -0.01) == pytest.approx(1.0, abs=1e-12)


def test_arrays_equal_single_tables() -> None:
    lost, gained = np.array([0, 3, 16]), np.array([2, 0, 6])
    together = tango_statistic(lost, gained, 161, -0.02)
    assert together.tolist() == [tango_statistic(int(a), int(b), 161, -0.02) for a, b in zip(lost, gained, strict=True)]


@pytest.mark.parametrize("table", TABLES)
def test_swapping_the_models_changes_nothing(table: tuple[int, int, int]) -> None:
    lost, gained, n = table
    for exact in (True, False):
        assert tango_equivalence_p(lost, gained, n, 0.05, exact=exact) == tango_equivalence_p(
            gained, lost, n, 0.05, exact=exact
        )


def test_approximate_p_is_the_larger_normal_tail() -> None:
    above = stats.norm.sf(tango_statistic(46, 40, 975, -0.02))
    below = stats.norm.cdf(tango_statistic(46, 40, 975, 0.02))
    assert tango_equivalence_p(46, 40, 975, 0.02, exact=False) == pytest.approx(max(above, below), abs=1e-14)


def literal_exact_p(lost: int, gained: int, n: int, margin: float) -> float:
    """Sum the tail over every table, at each of many shares of recoveries."""
    tables = [(a, b) for a in range(n + 1) for b in range(n + 1 - a)]
    worst = []
    for side in (-1, 1):
        seen = -side * tango_statistic(lost, gained, n, side * margin)
        tail = [(a, b) for a, b in tables if -side * tango_statistic(a, b, n, side * margin) >= seen - 1e-9]
        counts = np.array([(a, b, n - a - b) for a, b in tail])
        for share in np.linspace(0.0, (1 - margin) / 2, 400):
            small, large = share, share + margin
            shares = [large, small, 1 - small - large] if side < 0 else [small, large, 1 - small - large]
            worst.append(stats.multinomial.pmf(counts, n, np.maximum(shares, 0.0)).sum())
    return float(max(worst))


@pytest.mark.parametrize(("lost", "gained", "n", "margin"), [(0, 0, 25, 0.1), (2, 1, 25, 0.15), (3, 5, 30, 0.2)])
def test_exact_p_equals_the_sum_over_all_tables(lost: int, gained: int, n: int, margin: float) -> None:
    # The two grids of shares differ: the worst share is met to about 1e-4.
    assert tango_equivalence_p(lost, gained, n, margin) == pytest.approx(
        literal_exact_p(lost, gained, n, margin), abs=3e-4
    )


def exact_size(n: int, margin: float, *, exact: bool) -> float:
    """Probability of "equivalent" at a difference of exactly -margin, at the worst share of recoveries."""
    lost, gained = (x.ravel() for x in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    above, below = (tango_statistic(lost, gained, n, d) for d in (-margin, margin))
    approximate = stats.norm.sf(np.minimum(above, -below))
    # Tables whose approximate p is far above the level cannot reject; they only cost time.
    close = np.flatnonzero((lost + gained <= n) & (approximate <= 0.1))
    rejected = [
        (lost[i], gained[i], n - lost[i] - gained[i])
        for i in close
        if tango_equivalence_p(int(lost[i]), int(gained[i]), n, margin, exact=exact) <= 0.05
    ]
    if not rejected:
        return 0.0
    shares = np.linspace(0.0, (1 - margin) / 2, 300)
    return max(
        float(stats.multinomial.pmf(rejected, n, [q + margin, q, max(0.0, 1 - 2 * q - margin)]).sum()) for q in shares
    )


@pytest.mark.parametrize(("n", "margin"), [(30, 0.1), (60, 0.05), (133, 0.02)])
def test_size_is_at_most_five_percent_by_enumeration(n: int, margin: float) -> None:
    assert exact_size(n, margin, exact=True) <= 0.05


def test_the_normal_approximation_would_be_too_large() -> None:
    # Why the exact tail is summed: (1 - .02)^133 = .068, the chance of no flip at all.
    assert exact_size(133, 0.02, exact=False) == pytest.approx(0.98**133, abs=1e-6)


def test_real_pair_is_equivalent_only_at_enough_items() -> None:
    assert tango_equivalence_p(46, 46, 975, 0.02) < 0.05
    assert tango_equivalence_p(5, 5, 100, 0.02) > 0.05


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, math.nan])
def test_bad_margin(margin: float) -> None:
    with pytest.raises(InputError, match=r"expected a margin in \(0, 1\)"):
        tango_equivalence_p(1, 1, 10, margin)
