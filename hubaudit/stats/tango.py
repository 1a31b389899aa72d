"""Tango's score test for the difference of two paired proportions."""

from __future__ import annotations

import math

from scipy import stats

from hubaudit.errors import InputError
from hubaudit.stats.paired import check_counts

__all__ = ["tango_equivalence_p", "tango_statistic"]


def tango_statistic(regressions: int, recoveries: int, n: int, difference: float) -> float:
    """Score statistic of "variant accuracy minus base accuracy equals `difference`"."""
    lost = (n - recoveries + regressions) * difference
    b = -regressions - recoveries + lost + n * difference
    c = -regressions * difference * (1.0 - difference)
    share_lost = (math.sqrt(max(0.0, b * b - 8.0 * n * c)) - b) / (4.0 * n)
    variance = n * (2.0 * share_lost + difference * (1.0 - difference))
    distance = recoveries - regressions - n * difference
    if variance <= 0.0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def tango_equivalence_p(regressions: int, recoveries: int, n: int, margin: float) -> float:
    """Larger of the two one-sided p values against differences of -margin and +margin."""
    check_counts(regressions, recoveries, n)
    if not 0.0 < margin < 1.0:
        raise InputError(f"expected a margin in (0, 1), got {margin}; it is a difference of accuracies, .02 by default")
    above = stats.norm.sf(tango_statistic(regressions, recoveries, n, -margin))
    below = stats.norm.cdf(tango_statistic(regressions, recoveries, n, margin))
    return float(max(above, below))
