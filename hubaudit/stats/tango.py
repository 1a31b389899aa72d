"""Tango's score test for the difference of two paired proportions, and equivalence by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from hubaudit.errors import InputError
from hubaudit.stats.paired import check_counts

__all__ = ["tango_equivalence_p", "tango_statistic"]

Array = npt.NDArray[np.float64]

NUISANCE_GRID = 160
"""Points at which the unknown share of recoveries is tried before the worst one is refined."""

TIE = 1e-9
"""Statistics closer than this count as equal: symmetric tables differ by rounding."""


def tango_statistic(regressions: Any, recoveries: Any, n: int, difference: float) -> Any:
    """Score statistic of the hypothesis "variant accuracy minus base accuracy equals `difference`".

    Args:
        regressions: Items that only the base got right; an integer or an array of them.
        recoveries: Items that only the variant got right; an integer or an array of them.
        n: All items.
        difference: Hypothesised difference of the accuracies, in (-1, 1).

    Returns:
        Observed minus hypothesised difference over its standard error at the hypothesis; about standard normal.
        0 where neither the difference nor the error is above 0.

    Source:
        Tango (1998), Statistics in Medicine 17, 891-908, equations (9) to (11).
    """
    lost, gained = np.asarray(regressions, dtype=np.float64), np.asarray(recoveries, dtype=np.float64)
    # The likelihood is largest, under the hypothesis, where the share of regressions solves a quadratic.
    b = -lost - gained + (2 * n - gained + lost) * difference
    c = -lost * difference * (1.0 - difference)
    share_lost = (np.sqrt(np.maximum(0.0, b * b - 8.0 * n * c)) - b) / (4.0 * n)
    variance = np.maximum(0.0, n * (2.0 * share_lost + difference * (1.0 - difference)))
    distance = gained - lost - n * difference
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(distance == 0.0, 0.0, distance / np.sqrt(variance))
    return statistic if statistic.ndim else float(statistic)


def tango_equivalence_p(regressions: int, recoveries: int, n: int, margin: float, *, exact: bool = True) -> float:
    """P value for "the accuracies differ by at least the margin"; small means equivalent.

    Two one-sided score tests, against -margin and +margin; the larger p value counts. The normal approximation
    rejects too often at some n (size .068 at n = 133 and margin .02), so by default the tail of the statistic is
    summed exactly over all tables, at the share of recoveries that makes it largest: the test's size is at most
    its level.

    Args:
        regressions: Items that only the base got right.
        recoveries: Items that only the variant got right.
        n: All items.
        margin: Accuracy difference that does not matter, in (0, 1).
        exact: Sum the tail exactly; otherwise the normal approximation.

    Returns:
        The p value.

    Raises:
        InputError: If the counts fit no paired table or the margin is outside (0, 1).

    Source:
        Tango (1998); the exact unconditional p value of his statistic is Sidik's (2003).
    """
    check_counts(regressions, recoveries, n)
    if not 0.0 < margin < 1.0:
        raise InputError(
            f"expected a margin in (0, 1), got {margin}; give the difference that does not matter, such as 0.02"
        )
    # Swapping the models turns the test against +margin into the one against -margin.
    one_sided = _exact_tail if exact else _normal_tail
    return max(one_sided(regressions, recoveries, n, margin), one_sided(recoveries, regressions, n, margin))


def _normal_tail(lost: int, gained: int, n: int, margin: float) -> float:
    return float(stats.norm.sf(tango_statistic(lost, gained, n, -margin)))


def _exact_tail(lost: int, gained: int, n: int, margin: float) -> float:
    """Largest probability, over tables with difference -margin, of a statistic at least as large as observed."""
    observed = tango_statistic(lost, gained, n, -margin) - TIE
    most_lost = _most_lost(observed, n, margin)
    widest = (1.0 - margin) / 2.0

    def tail(share_gained: float) -> float:
        # Counts farther than this from their mean weigh less than 1e-13 in all.
        reach = 8.0 * np.sqrt(n * share_gained) + 30.0
        mean = n * share_gained
        count = np.arange(max(0, int(mean - reach)), min(n, int(mean + reach)) + 1)
        edge = most_lost[count]
        given = min(1.0, (share_gained + margin) / (1.0 - share_gained))
        below = np.where(edge < 0, 0.0, special.bdtr(np.maximum(0, edge), n - count, given))
        return float(stats.binom.pmf(count, n, share_gained) @ below)

    # Small shares matter most and change fastest, so the grid is dense there.
    shares = widest * np.linspace(0.0, 1.0, NUISANCE_GRID) ** 3
    tails = np.array([tail(share) for share in shares])
    best = int(tails.argmax())
    around = shares[[max(0, best - 1), min(NUISANCE_GRID - 1, best + 1)]]
    refined = optimize.minimize_scalar(lambda share: -tail(share), bounds=tuple(around), method="bounded")
    return min(1.0, max(float(tails[best]), -float(refined.fun)))


def _most_lost(observed: float, n: int, margin: float) -> npt.NDArray[np.int64]:
    """For each count of recoveries, the most regressions with a statistic of at least `observed`; -1 if none.

    The statistic falls as regressions rise, so bisection finds the edge for all counts at once.
    """
    gained = np.arange(n + 1)
    low, high = np.full(n + 1, -1), n - gained
    while (low < high).any():
        middle = (low + high + 1) // 2
        reaches = tango_statistic(middle, gained, n, -margin) >= observed
        low, high = np.where(reaches, middle, low), np.where(reaches, high, middle - 1)
    return low
