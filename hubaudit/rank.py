"""Which figure orders the variants of a base as their risk gaps do."""

from __future__ import annotations

from hubaudit.report.schema import VariantReport
from hubaudit.stats.ranking import Ranking, ranking

__all__ = ["rank_variants"]

_PREDICTORS = ("bound", "delta", "d_mean_square", "logratio_bound", "kl")


def rank_variants(variants: list[VariantReport], tasks: list[str]) -> dict[str, Ranking]:
    """Spearman of bound, delta, D, certificate and KL against the absolute risk gap, by task.

    Args:
        variants: The audit's variants; those without a bound on a task are left out of its ranking.
        tasks: Names of the tasks.

    Returns:
        One block a task; tasks on which no variant has a bound are left out.
    """
    found = {}
    for task in tasks:
        bounds = [
            variant.prism_bound[task]
            for variant in variants
            if task in variant.prism_bound and variant.prism_bound[task].risk_gap is not None
        ]
        if bounds:
            predictors = {name: [float(getattr(bound, name)) for bound in bounds] for name in _PREDICTORS}
            found[task] = ranking(predictors, [abs(float(bound.risk_gap or 0.0)) for bound in bounds])
    return found
