"""Whether a figure that needs no labels orders the variants as their risk gaps do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Float64
from hubaudit.stats.result import Result

__all__ = ["PooledRanking", "Ranking", "pooled_ranking", "ranking"]

_FEWEST = 3
_FEWEST_FOR_INTERVAL = 9
"""Below it the interval covers too rarely: 76 % at 6 variants and a correlation of 0.95 (simulated)."""
_PERMUTATIONS = 9999
_RESAMPLES = 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking(Result):
    """Rank correlations across the variants of one base on one task."""

    spearman: dict[str, float | None]
    """Spearman correlation of each predictor with the absolute risk gap, -1 to 1."""
    p_value: dict[str, float | None]
    """Two-sided permutation p-value of each correlation against no association: exact for up to 7 variants."""
    ci_low: dict[str, float | None]
    """Lower end of each correlation's 95 % interval, by resampling variants; null for fewer than 9 variants."""
    ci_high: dict[str, float | None]
    """Upper end of that interval."""
    n_used: dict[str, int]
    """Variants that each correlation is over: those where predictor and gap are both defined."""
    n: int
    """Number of variants given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledRanking(Result):
    """Rank correlations across the variants of one base, averaged over tasks."""

    spearman: dict[str, float | None]
    """Mean over the tasks of each predictor's Spearman correlation with the absolute risk gap, -1 to 1."""
    sem: dict[str, float | None]
    """Standard error of that mean over the tasks, as the paper prints it; it knows nothing of the few variants."""
    ci_low: dict[str, float | None]
    """Lower end of the mean's 95 % interval, by resampling variants for all tasks at once."""
    ci_high: dict[str, float | None]
    """Upper end of that interval."""
    n_tasks: dict[str, int]
    """Tasks that each mean is over: those whose correlation is defined."""
    n_used: dict[str, int]
    """Variants that have predictor and gap on all of these tasks; the interval resamples these."""


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
        where one side is the same for all. Ties get their mean rank. The interval is the percentile bootstrap's
        over variants, for at least nine of them.

    Raises:
        InputError: If a predictor has another number of variants than the gaps.

    Source:
        PRISM, section 5.2; `scipy.stats.spearmanr` and `scipy.stats.permutation_test`.

    Example:
        >>> ranking({"bound": [1.0, 2.0, 4.0]}, [0.1, 0.3, 0.2]).spearman
        {'bound': 0.5}
    """
    gaps = _numbers(abs_gaps)
    result = Ranking(spearman={}, p_value={}, ci_low={}, ci_high={}, n_used={}, n=len(gaps))
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
            result.spearman[name] = result.p_value[name] = result.ci_low[name] = result.ci_high[name] = None
            result.reasons[name] = reason
            continue
        result.spearman[name] = _spearman(x, y)
        result.p_value[name] = _permutation_p(x, y, seed)
        result.ci_low[name], result.ci_high[name] = _interval(x[None], y[None], seed)
        if result.ci_low[name] is None:
            result.reasons[f"ci_low.{name}"] = result.reasons[f"ci_high.{name}"] = _TOO_FEW
    return result


def pooled_ranking(
    predictors: Mapping[str, Sequence[Sequence[float | None]]],
    abs_gaps: Sequence[Sequence[float | None]],
    *,
    seed: int = 0,
) -> PooledRanking:
    """Mean over tasks of Spearman's rank correlation with the absolute risk gap.

    Args:
        predictors: By name, for each task one value a variant, (tasks, variants), None where undefined.
        abs_gaps: Absolute risk gaps, (tasks, variants), None where undefined.
        seed: Of the resampling.

    Returns:
        The means; None, with the reason under the predictor's name, where no task has a correlation. Tasks share
        their variants, so the interval draws variants, the same for all tasks.

    Raises:
        InputError: If the shapes differ.

    Source:
        PRISM, section 5.2, whose average over tasks carries the standard error over tasks alone; interval:
        percentile bootstrap (Efron and Tibshirani, 1993), coverage simulated in `tests/stats/test_ranking.py`.

    Example:
        >>> pooled_ranking({"kl": [[1.0, 2.0, 4.0], [1.0, 2.0, 3.0]]}, [[0.1, 0.3, 0.2], [1, 2, 3]]).spearman
        {'kl': 0.75}
    """
    gaps = np.array([_numbers(row) for row in abs_gaps])
    result = PooledRanking(spearman={}, sem={}, ci_low={}, ci_high={}, n_tasks={}, n_used={})
    for name, given in predictors.items():
        values = np.array([_numbers(row) for row in given])
        if values.shape != gaps.shape:
            raise InputError(
                f"expected {name!r} for the same tasks and variants as the gaps, {gaps.shape}, got {values.shape}; "
                "use None where a figure is undefined"
            )
        by_task = {}
        for task, (x, y) in enumerate(zip(values, gaps, strict=True)):
            both = np.isfinite(x) & np.isfinite(y)
            if _why_undefined(x[both], y[both]) is None:
                by_task[task] = _spearman(x[both], y[both])
        known = list(by_task.values())
        result.n_tasks[name] = len(known)
        if not known:
            result.n_used[name] = 0
            result.spearman[name] = result.sem[name] = result.ci_low[name] = result.ci_high[name] = None
            result.reasons[name] = "no task has a rank correlation"
            continue
        result.spearman[name] = float(np.mean(known))
        result.sem[name] = float(np.std(known, ddof=1) / len(known) ** 0.5) if len(known) > 1 else None
        if len(known) < 2:
            result.reasons[f"sem.{name}"] = "a standard error over tasks needs two tasks"
        x, y = values[list(by_task)], gaps[list(by_task)]
        shared = np.isfinite(x).all(axis=0) & np.isfinite(y).all(axis=0)
        result.n_used[name] = int(shared.sum())
        result.ci_low[name], result.ci_high[name] = _interval(x[:, shared], y[:, shared], seed)
        if result.ci_low[name] is None:
            result.reasons[f"ci_low.{name}"] = result.reasons[f"ci_high.{name}"] = _TOO_FEW
    return result


_TOO_FEW = f"an interval needs at least {_FEWEST_FOR_INTERVAL} variants with both figures that are not all alike"


def _spearman(x: Float64, y: Float64) -> float:
    return float(scipy.stats.spearmanr(x, y).statistic)


def _interval(x: Float64, y: Float64, seed: int) -> tuple[float | None, float | None]:
    """95 % percentile interval of the mean over tasks; draws of variants with one value only are left out."""
    n = x.shape[1]
    if n < _FEWEST_FOR_INTERVAL:
        return None, None
    drawn = np.random.default_rng(seed).integers(0, n, size=(_RESAMPLES, n))
    ranks = [scipy.stats.rankdata(values[:, drawn], axis=-1) - (n + 1) / 2 for values in (x, y)]
    product, spread = (ranks[0] * ranks[1]).sum(-1), (ranks[0] ** 2).sum(-1) * (ranks[1] ** 2).sum(-1)
    usable = (spread > 0).all(axis=0)
    if not usable.any():
        return None, None
    means = (product[:, usable] / np.sqrt(spread[:, usable])).mean(axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


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
