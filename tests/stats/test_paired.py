"""Paired counts: against plain sums, statsmodels 0.15.0, R output and exact enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from hubaudit.errors import InputError
from hubaudit.stats.paired import (
    check_counts,
    holm,
    mcnemar_p,
    minimum_detectable_difference,
    paired_bootstrap_interval,
    wilson_interval,
)


def binomial_tail(k: int, n: int) -> Fraction:
    return sum((Fraction(math.comb(n, i), 2**n) for i in range(k + 1)), Fraction(0))


def literal_mcnemar(lost: int, gained: int) -> float:
    return float(min(Fraction(1), 2 * binomial_tail(min(lost, gained), lost + gained)))


class TestMcnemar:
    @pytest.mark.parametrize(
        ("lost", "gained"), [(0, 0), (1, 0), (3, 3), (16, 6), (6, 16), (46, 46), (5, 40), (200, 150)]
    )
    def test_equals_the_sum_of_binomial_terms_and_statsmodels(self, lost: int, gained: int) -> None:
        assert mcnemar_p(lost, gained) == pytest.approx(literal_mcnemar(lost, gained), abs=1e-12)
        theirs = mcnemar([[10, lost], [gained, 10]], exact=True).pvalue
        assert mcnemar_p(lost, gained) == pytest.approx(theirs, abs=1e-10)

    def test_r_golden_value(self) -> None:
        # R package contingencytables 3.0.0, McNemar_exact_cond_test_paired_2x2(cavo_2012): P = 0.052479
        assert mcnemar_p(16, 6) == pytest.approx(0.052479, abs=5e-7)

    def test_no_discordant_item_is_p_one(self) -> None:
        assert mcnemar_p(0, 0) == 1.0

    def test_by_hand(self) -> None:
        # 1 of 5: 2 (1 + 5) / 32
        assert mcnemar_p(4, 1) == pytest.approx(12 / 32, abs=1e-15)

    def test_rejects_at_most_five_percent_at_its_null_for_any_discordance(self) -> None:
        n = 60
        # What the test rejects, from the sums above rather than from the function.
        rejects = [[literal_mcnemar(k, d - k) <= 0.05 for k in range(d + 1)] for d in range(n + 1)]
        given = np.array([stats.binom.pmf(np.flatnonzero(row), d, 0.5).sum() for d, row in enumerate(rejects)])
        sizes = [stats.binom.pmf(np.arange(n + 1), n, share) @ given for share in np.linspace(0.02, 1.0, 25)]
        assert 0.01 < max(sizes) <= 0.05


class TestWilson:
    def test_equals_statsmodels_and_the_formula(self) -> None:
        z = stats.norm.ppf(0.975)
        for k, n in [(0, 10), (10, 10), (3, 7), (510, 556), (1, 1000)]:
            low, high = wilson_interval(k, n)
            assert (low, high) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-12)
            p = k / n
            centre = (p + z * z / (2 * n)) / (1 + z * z / n)
            half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
            assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-12)

    def test_covers_94_to_97_percent_on_average(self) -> None:
        covered = []
        for n in (20, 50, 100, 400):
            inside = np.array([wilson_interval(k, n) for k in range(n + 1)])
            for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
                holds = (inside[:, 0] <= p) & (p <= inside[:, 1])
                covered.append(stats.binom.pmf(np.arange(n + 1), n, p)[holds].sum())
        assert 0.94 <= np.mean(covered) <= 0.97
        assert min(covered) > 0.89

    @pytest.mark.parametrize(("k", "n"), [(1, 0), (-1, 5), (6, 5)])
    def test_bad_counts(self, k: int, n: int) -> None:
        with pytest.raises(InputError, match=rf"expected 0 <= successes <= n with n >= 1, got {k} of {n}"):
            wilson_interval(k, n)


class TestPairedBootstrap:
    def test_is_the_percentile_interval_of_resampled_items(self) -> None:
        # 300 items drawn one by one, with replacement, from the table with half an item added to each count.
        lost, gained, n = 30, 12, 300
        rng = np.random.default_rng(3)
        shares = np.array([lost + 0.5, gained + 0.5, n - lost - gained + 0.5]) / (n + 1.5)
        differences = []
        for _ in range(4000):
            kinds = rng.choice(3, size=n, p=shares)
            differences.append(((kinds == 1).sum() - (kinds == 0).sum()) / n)
        low, high = paired_bootstrap_interval(lost, gained, n, seed=1)
        # Both ends are quantiles on a lattice of 1/n; two runs differ by about one step.
        assert (low, high) == pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])), abs=1.5 / n)

    def test_same_seed_same_interval_and_swapping_models_mirrors_it(self) -> None:
        assert paired_bootstrap_interval(9, 4, 200, seed=5) == paired_bootstrap_interval(9, 4, 200, seed=5)
        low, high = paired_bootstrap_interval(9, 4, 200)
        mirrored_low, mirrored_high = paired_bootstrap_interval(4, 9, 200)
        assert (low, high) == pytest.approx((-mirrored_high, -mirrored_low), abs=1.5 / 200)

    def test_no_flip_leaves_room_for_flips_not_seen(self) -> None:
        low, high = paired_bootstrap_interval(0, 0, 50)
        assert low < 0.0 < high

    def test_covers_94_to_97_percent_on_average_by_enumeration(self) -> None:
        n, covered = 100, []
        tables = [(a, b) for a in range(30) for b in range(30) if a + b <= 35]
        intervals = [paired_bootstrap_interval(a, b, n, n_resamples=1000) for a, b in tables]
        for discordance in (0.05, 0.1, 0.15):
            for share_lost in (0.5, 0.75, 1.0):
                lost, gained = discordance * share_lost, discordance * (1 - share_lost)
                weights = stats.multinomial.pmf(
                    [(a, b, n - a - b) for a, b in tables], n, [lost, gained, 1 - discordance]
                )
                holds = [low - 1e-12 <= gained - lost <= high + 1e-12 for low, high in intervals]
                covered.append(weights[holds].sum() / weights.sum())
        assert 0.94 <= np.mean(covered) <= 0.97
        assert min(covered) > 0.92


class TestMinimumDetectableDifference:
    @pytest.mark.parametrize(("n", "discordance"), [(50, 0.3), (256, 0.1), (975, 0.1143)])
    def test_has_80_percent_power_by_simulation(self, n: int, discordance: float) -> None:
        difference = minimum_detectable_difference(n, discordance)
        assert difference is not None
        rng = np.random.default_rng(0)
        shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
        draws = rng.multinomial(n, shares, size=6000)
        unique, counts = np.unique(draws[:, :2], axis=0, return_counts=True)
        rejected = sum(c for (a, b), c in zip(unique, counts, strict=True) if mcnemar_p(int(a), int(b)) <= 0.05)
        # Monte Carlo standard error .005
        assert rejected / 6000 == pytest.approx(0.8, abs=0.015)

    def test_is_close_to_and_above_connors_normal_approximation(self) -> None:
        n, discordance = 5000, 0.1
        z_level, z_power = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
        a, b, c = n + z_power**2, -2 * z_level * math.sqrt(n * discordance), (z_level**2 - z_power**2) * discordance
        connor = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
        exact = minimum_detectable_difference(n, discordance)
        assert exact is not None
        assert connor < exact < 1.06 * connor  # the exact test is the more cautious one

    def test_raises_the_discordance_where_all_flips_one_way_are_too_few(self) -> None:
        # With no flip expected the difference itself must bring at least 6 losses in 80 % of samples.
        difference = minimum_detectable_difference(100, 0.0)
        assert difference is not None
        assert stats.binom.sf(5, 100, difference) == pytest.approx(0.8, abs=1e-6)

    def test_none_where_no_difference_is_seen(self) -> None:
        assert minimum_detectable_difference(5, 0.2) is None  # 5 of 5 one way: p = 1/16
        assert minimum_detectable_difference(6, 0.2) == pytest.approx(0.8 ** (1 / 6), abs=1e-6)  # p = 1/32

    def test_falls_with_n_and_rises_with_discordance(self) -> None:
        by_n = [minimum_detectable_difference(n, 0.1) or 1.0 for n in (50, 200, 800)]
        by_flips = [minimum_detectable_difference(400, share) or 1.0 for share in (0.02, 0.1, 0.4)]
        assert by_n == sorted(by_n, reverse=True)
        assert by_flips == sorted(by_flips)

    def test_bad_discordance(self) -> None:
        with pytest.raises(InputError, match=r"expected a discordance in \[0, 1\], got 1.2"):
            minimum_detectable_difference(10, 1.2)


class TestHolm:
    def test_equals_statsmodels(self) -> None:
        p = {f"cell {i}": x for i, x in enumerate([0.01, 0.04, 0.03, 0.005, 0.5, 0.04])}
        theirs = multipletests(list(p.values()), method="holm")[1]
        assert list(holm(p).values()) == pytest.approx(list(theirs), abs=1e-15)
        assert list(holm(p)) == list(p)

    def test_by_hand(self) -> None:
        # Sorted .01 .02 .04: times 3, 2, 1, and never falling.
        assert holm({"a": 0.04, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})

    def test_undefined_cells_stay_none_and_are_not_counted(self) -> None:
        assert holm({"a": 0.02, "b": None, "c": 0.5}) == {"a": 0.04, "b": None, "c": 0.5}
        assert holm({}) == {}

    @pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
    def test_bad_p(self, p: float) -> None:
        with pytest.raises(InputError, match=r"expected p values in \[0, 1\], got .* for 'cell'"):
            holm({"cell": p})


@pytest.mark.parametrize(
    ("counts", "message"),
    [((0, 0, 0), "expected at least one item"), ((-1, 0, 5), "at least 0"), ((3, 3, 5), "sum to at most n = 5")],
)
def test_counts_that_no_table_has(counts: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_counts(*counts)
