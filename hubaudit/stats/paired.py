"""Two models answering the same items: exact McNemar test, its power, intervals, and Holm's correction.

Everything here needs three counts only: items that were lost (`regressions`: base right, variant wrong),
items that were gained (`recoveries`), and all items (`n`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from scipy import optimize, stats

from hubaudit.errors import InputError

__all__ = [
    "check_counts",
    "holm",
    "mcnemar_p",
    "minimum_detectable_difference",
    "paired_bootstrap_interval",
    "wilson_interval",
]

Key = TypeVar("Key", bound=Hashable)


def check_counts(regressions: int, recoveries: int, n: int) -> None:
    """Refuse counts that no paired table can have.

    Raises:
        InputError: If a count is negative, n is 0, or more items changed than there are.
    """
    if n < 1:
        raise InputError(f"expected at least one item, got n = {n}; give the items both models answered")
    if min(regressions, recoveries) < 0 or regressions + recoveries > n:
        raise InputError(
            f"expected regressions and recoveries of at least 0 that sum to at most n = {n}, "
            f"got {regressions} and {recoveries}; count each item once"
        )


def wilson_interval(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion.

    Args:
        successes: Items that count, 0 to n.
        n: Items, at least 1.
        level: Confidence level.

    Returns:
        Lower and upper end, within [0, 1].

    Raises:
        InputError: If n is 0 or successes is not between 0 and n.

    Source:
        Wilson (1927), through `scipy.stats.binomtest`.
    """
    if n < 1 or not 0 <= successes <= n:
        raise InputError(f"expected 0 <= successes <= n with n >= 1, got {successes} of {n}; count each item once")
    low, high = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    return float(low), float(high)


def mcnemar_p(regressions: int, recoveries: int) -> float:
    """Exact two-sided McNemar test that as many items are gained as lost.

    Args:
        regressions: Items that only the base got right.
        recoveries: Items that only the variant got right.

    Returns:
        The p value; 1 when the models never disagree about what is right.

    Raises:
        InputError: If a count is negative.

    Source:
        McNemar (1947); the binomial form, as in R's `exact2x2::mcnemar.exact`.
    """
    check_counts(regressions, recoveries, max(1, regressions + recoveries))
    discordant = regressions + recoveries
    if discordant == 0:
        return 1.0
    return float(stats.binomtest(regressions, discordant, 0.5).pvalue)


def paired_bootstrap_interval(
    regressions: int, recoveries: int, n: int, *, seed: int = 0, level: float = 0.95, n_resamples: int = 10_000
) -> tuple[float, float]:
    """Percentile interval of the accuracy difference, from resampled items.

    Resampling n items with replacement, pairs staying together, changes only how many items are lost, gained
    or neither: a multinomial draw of three counts, so no item has to be touched. Half an item is added to each
    count before drawing. Without it the interval has no width where nothing flipped and covers as little as
    48 % at n = 50; with it at least 92 % (benchmarks/results/coverage_agreement.json).

    Args:
        regressions: Items that only the base got right.
        recoveries: Items that only the variant got right.
        n: All items.
        seed: Seed of the draws.
        level: Confidence level.
        n_resamples: Number of draws.

    Returns:
        Lower and upper end of variant accuracy minus base accuracy.

    Raises:
        InputError: If the counts fit no paired table.

    Source:
        Efron (1979), percentile interval; the added half is the prior of Jeffreys for the three shares.
    """
    check_counts(regressions, recoveries, n)
    shares = (np.array([regressions, recoveries, n - regressions - recoveries]) + 0.5) / (n + 1.5)
    draws = np.random.default_rng(seed).multinomial(n, shares, size=n_resamples)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(draws[:, 1] - draws[:, 0], [tail, 1.0 - tail]) / n
    return float(low), float(high)


def minimum_detectable_difference(
    n: int, discordance: float, *, level: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest accuracy difference that the exact McNemar test sees with the given power.

    The power is exact: the number of discordant items is Binomial(n, discordance), and given it the losses are
    binomial with odds that the difference sets.

    Args:
        n: Items.
        discordance: Share of items on which exactly one model is right. Where even a difference as large as
            this is not seen, the discordance is raised with the difference.
        level: Two-sided level of the test.
        power: Wanted probability of rejection.

    Returns:
        The absolute accuracy difference in [0, 1], or None where no difference at all is seen at this n.

    Raises:
        InputError: If n is below 1 or the discordance is outside [0, 1].

    Source:
        Connor (1987) gives the normal approximation, which the tests compare with.
    """
    check_counts(0, 0, n)
    if not 0.0 <= discordance <= 1.0:
        raise InputError(f"expected a discordance in [0, 1], got {discordance}; give the share of items that flip")

    def shortfall(difference: float) -> float:
        return _mcnemar_power(n, max(discordance, difference), difference, level) - power

    if shortfall(1.0) < 0.0:
        return None
    return float(optimize.brentq(shortfall, 0.0, 1.0, xtol=1e-9))


def _mcnemar_power(n: int, discordance: float, difference: float, level: float) -> float:
    """Probability that the exact test rejects, summed over the number of discordant items."""
    # Counts outside this range have no weight that the power could show.
    low, high = (int(x) for x in stats.binom.ppf([1e-13, 1.0 - 1e-13], n, discordance))
    discordant = np.arange(max(0, low), high + 1)
    # The largest count of the rarer direction that still rejects; -1 where none does.
    critical = stats.binom.ppf(level / 2.0, discordant, 0.5)
    critical = np.where(stats.binom.cdf(critical, discordant, 0.5) <= level / 2.0, critical, critical - 1)
    lost = (1.0 - difference / discordance) / 2.0 if discordance > 0.0 else 0.5
    rejects = stats.binom.cdf(critical, discordant, lost) + stats.binom.cdf(critical, discordant, 1.0 - lost)
    return float(stats.binom.pmf(discordant, n, discordance) @ rejects)


def holm(p_values: Mapping[Key, float | None]) -> dict[Key, float | None]:
    """Holm's step-down adjustment over named cells.

    Args:
        p_values: One p value a cell; None where a cell has none. Such a cell stays None and is not counted.

    Returns:
        Adjusted p values under the same keys, in the same order: a cell counts at level alpha over the whole
        family when its adjusted value is at most alpha.

    Raises:
        InputError: If a p value is outside [0, 1] or not finite.

    Source:
        Holm (1979), as in R's `p.adjust(method = "holm")`.
    """
    defined = {key: float(p) for key, p in p_values.items() if p is not None}
    for key, p in defined.items():
        if not 0.0 <= p <= 1.0:
            raise InputError(f"expected p values in [0, 1], got {p} for {key!r}; leave undefined cells as None")
    adjusted: dict[Key, float | None] = dict.fromkeys(p_values)
    highest = 0.0
    for rank, key in enumerate(sorted(defined, key=defined.__getitem__)):
        highest = max(highest, min(1.0, (len(defined) - rank) * defined[key]))
        adjusted[key] = highest
    return adjusted
