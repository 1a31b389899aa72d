"""Whether a figure that needs no labels orders the variants as their risk gaps do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Float64
from hubaudit.stats.result import Result

__all__ = ["Ranking", "ranking"]

_FEWEST = 3
_PERMUTATIONS = 9999


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking(Result):
    """Rank correlations across the variants of one base on one task."""

    spearman: dict[str, float | None]
    """Spearman correlation of each predictor with the absolute risk gap, -1 to 1."""
    p_value: dict[str, float | None]
    """Two-sided permutation p-value of each correlation against no association: exact for up to 7 variants."""
    n_used: dict[str, int]
    """Variants that each correlation is over: those where predictor and gap are both defined."""
    n: int
    """Number of variants given."""


def ranking(
    predictors: Mapping[str, Sequence[float | None]],
    abs_gaps: Sequence[float | None],
    *,
    seed: int = 0,
) -> Ranking:
    """Spearman's rank correlation of each predictor with the absolute risk gap.

    Args:
        predictors: By name (bound, delta, d_mean_square, logratio_bound, kl, ...), one value a variant, None where
            undefined. The other-dtype row of the base counts as a variant, as in the paper's tables.
        abs_gaps: Absolute risk gap of each variant, None where undefined.
        seed: Of the permutations, where there are too many variants for all of them.

    Returns:
        A correlation for each predictor; None, with the reason under its name, for fewer than three variants or
        where one side is the same for all. Ties get their mean rank.

    Raises:
        InputError: If a predictor has another number of variants than the gaps.

    Source:
        PRISM, section 5.2; `scipy.stats.spearmanr` and `scipy.stats.permutation_test`.

    Example:
        >>> ranking({"bound": [1.0, 2.0, 4.0]}, [0.1, 0.3, 0.2]).spearman
        {'bound': 0.5}
    """
    gaps = _numbers(abs_gaps)
    result = Ranking(spearman={}, p_value={}, n_used={}, n=len(gaps))
    for name, given in predictors.items():
        values = _numbers(given)
        if len(values) != len(gaps):
            raise InputError(
                f"expected one value a variant, {len(gaps)}, for {name!r}, got {len(values)}; use None where a "
                "variant's figure is undefined"
            )
        both = np.isfinite(values) & np.isfinite(gaps)
        x, y = values[both], gaps[both]
        result.n_used[name] = len(x)
        if reason := _why_undefined(x, y):
            result.spearman[name] = result.p_value[name] = None
            result.reasons[name] = reason
            continue
        result.spearman[name] = float(scipy.stats.spearmanr(x, y).statistic)
        result.p_value[name] = _permutation_p(x, y, seed)
    return result


def _numbers(values: Sequence[float | None]) -> Float64:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _why_undefined(x: Float64, y: Float64) -> str | None:
    if len(x) < _FEWEST:
        return f"a rank correlation needs at least {_FEWEST} variants with both figures, there are {len(x)}"
    if np.ptp(x) == 0:
        return "the predictor is the same for all variants"
    if np.ptp(y) == 0:
        return "the risk gap is the same for all variants"
    return None


def _permutation_p(x: Float64, y: Float64, seed: int) -> float:
    ranks = [scipy.stats.rankdata(values) for values in (x, y)]
    centred = ranks[1] - ranks[1].mean()

    def covariance(paired: Float64, *, axis: int = -1) -> Float64:
        return np.asarray((paired * centred).sum(axis=axis))

    test = scipy.stats.permutation_test(
        (ranks[0],),
        covariance,
        permutation_type="pairings",
        n_resamples=_PERMUTATIONS,
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)
