"""Which figure orders the variants of a base as their risk gaps do."""

from __future__ import annotations

from hubaudit.report.schema import VariantReport
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.ranking import PooledRanking, Ranking, pooled_ranking, ranking

__all__ = ["pool_ranks", "rank_variants"]

_IDENTITY = ("bound", "delta", "shape", "d_mean_square", "logratio_bound", "kl")
_PROCRUSTES = ("bound", "delta", "shape")
"""What another alignment changes; certificate and KL know none."""

_Figures = dict[str, list[float | None]]


def rank_variants(variants: list[VariantReport], tasks: list[str]) -> dict[str, Ranking]:
    """Spearman of bound, delta, shape, D, certificate and KL against the absolute risk gap, by task.

    Args:
        variants: The audit's variants; those without a risk gap on a task are left out of its ranking.
        tasks: Names of the tasks.

    Returns:
        One block a task; tasks on which no variant has a bound are left out. `bound_procrustes` and the like are
        under the best rotation of the variant's features.
    """
    found = {}
    for task in tasks:
        ranked = [variant for variant in variants if _gap(variant, task) is not None]
        if ranked:
            found[task] = ranking(_figures(ranked, task), [_gap(variant, task) for variant in ranked])
    return found


def pool_ranks(variants: list[VariantReport], tasks: list[str]) -> PooledRanking | None:
    """The same correlations averaged over the tasks; None for fewer than two tasks with risk gaps.

    Args:
        variants: The audit's variants.
        tasks: Names of the tasks.
    """
    ranked = [task for task in tasks if any(_gap(variant, task) is not None for variant in variants)]
    if len(ranked) < 2:
        return None
    by_task = [_figures(variants, task) for task in ranked]
    predictors = {name: [figures[name] for figures in by_task] for name in by_task[0]}
    return pooled_ranking(predictors, [[_gap(variant, task) for variant in variants] for task in ranked])


def _gap(variant: VariantReport, task: str) -> float | None:
    block = variant.prism_bound.get(task)
    return None if block is None or block.risk_gap is None else abs(block.risk_gap)


def _figures(variants: list[VariantReport], task: str) -> _Figures:
    plain = [variant.prism_bound.get(task) for variant in variants]
    rotated = [variant.prism_bound_procrustes.get(task) for variant in variants]
    figures = {name: _values(plain, name) for name in _IDENTITY}
    if any(rotated):
        figures |= {f"{name}_procrustes": _values(rotated, name) for name in _PROCRUSTES}
    return figures


def _values(blocks: list[PrismBound | None], name: str) -> list[float | None]:
    return [None if block is None else getattr(block, name) for block in blocks]
