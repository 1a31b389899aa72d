"""Correctness agreement: every figure follows from five counts, the margin and the seed."""

from __future__ import annotations

import functools

from hubaudit.errors import InputError
from hubaudit.report.schema import Report, TaskReport, VariantReport
from hubaudit.stats.correctness_agreement import CorrectnessAgreement, SubjectAgreement
from hubaudit.stats.paired import (
    check_counts,
    holm,
    mcnemar_p,
    minimum_detectable_difference,
    paired_bootstrap_interval,
    wilson_interval,
)
from hubaudit.stats.tango import tango_equivalence_p
from hubaudit.verify.check import Checks

__all__ = ["check_agreement"]

LEVEL = 0.05

# The cell of a task is its headline metric's cell once more: the slow figures are computed once for both.
_mde = functools.lru_cache(maxsize=256)(minimum_detectable_difference)
_tango = functools.lru_cache(maxsize=256)(tango_equivalence_p)
_bootstrap = functools.lru_cache(maxsize=256)(paired_bootstrap_interval)


def check_agreement(report: Report, variant: VariantReport, checks: Checks) -> None:
    """Check every cell of a variant, and that cells, tasks and changed items tell the same story.

    Args:
        report: The whole report.
        variant: One of its variants.
        checks: Where the statements go.
    """
    tasks = {task.name: task for task in report.tasks}
    for name, metrics in variant.agreement_by_metric.items():
        for metric, cell in metrics.items():
            here = checks.at(f"{checks.where}, {name} {metric}")
            _cell(cell, report.seed, here)
            if name in tasks:
                here.same("n = items of the task", cell.n, tasks[name].n_items)
                here.near("base accuracy = the task's", cell.base_accuracy, tasks[name].base_accuracy.get(metric))
    for name, cell in variant.correctness_agreement.items():
        here = checks.at(f"{checks.where}, {name}")
        task = tasks.get(name)
        if task is None:
            here.same("the cell's task is in the report", name, "one of " + ", ".join(tasks))
            continue
        headline = variant.agreement_by_metric.get(name, {}).get(task.headline_metric)
        if headline is None:
            here.same("the headline metric has a cell", None, task.headline_metric)
        else:
            here.fields("the cell is the headline metric's", cell.to_dict(), headline.to_dict())
        if name in variant.changed_items:
            _changed(variant, task, cell, here)


def _changed(variant: VariantReport, task: TaskReport, cell: CorrectnessAgreement, checks: Checks) -> None:
    changes = variant.changed_items[task.name]
    kinds = [change.kind for change in changes]
    checks.same("regressions = changed items of that kind", cell.regressions, kinds.count("regression"))
    checks.same("recoveries = changed items of that kind", cell.recoveries, kinds.count("recovery"))
    moved = kinds.count("wrong_to_other_wrong")
    checks.same("wrong to other wrong = changed items of that kind", cell.wrong_to_other_wrong, moved)
    foreign = [change.item_id for change in changes if change.item_id not in set(task.item_ids)]
    checks.same("changed items are items of the task", foreign, [])
    checks.same("a changed item is named once", len({change.item_id for change in changes}), len(changes))


def _cell(cell: CorrectnessAgreement, seed: int, checks: Checks) -> None:
    n, right, lost, gained = cell.n, cell.n_base_correct, cell.regressions, cell.recoveries
    moved = cell.wrong_to_other_wrong
    try:
        check_counts(lost, gained, n)
    except InputError as exc:
        checks.same("the counts are those of a paired table", str(exc), "")
        return
    possible = n > 0 and 0 <= lost <= right <= n and moved >= 0 and gained + moved <= n - right
    checks.same("the counts are those of a paired table", possible, True)
    if not possible:
        return
    variant_right, changed = right - lost + gained, lost + gained + moved
    low, high = wilson_interval(right - lost, right) if right else (None, None)
    delta_low, delta_high = _bootstrap(lost, gained, n, seed=seed)
    checks.near(
        "agreement = kept / base correct", cell.correctness_agreement, (right - lost) / right if right else None
    )
    checks.near("ci_low = Wilson's", cell.ci_low, low)
    checks.near("ci_high = Wilson's", cell.ci_high, high)
    checks.near("base accuracy = correct / n", cell.base_accuracy, right / n)
    checks.near("variant accuracy from the counts", cell.variant_accuracy, variant_right / n)
    checks.near("accuracy delta = (recoveries - regressions) / n", cell.accuracy_delta, (gained - lost) / n)
    checks.near("accuracy_delta_ci_low = the seeded bootstrap's", cell.accuracy_delta_ci_low, delta_low)
    checks.near("accuracy_delta_ci_high = the seeded bootstrap's", cell.accuracy_delta_ci_high, delta_high)
    checks.near(
        "ceiling = min(1, ratio of accuracies)", cell.ceiling, min(1.0, variant_right / right) if right else None
    )
    checks.near("churn rate from the counts", cell.churn_rate, changed / n)
    checks.near("same-answer rate = 1 - churn", cell.same_answer_rate, 1 - changed / n)
    checks.near("flip rate from the counts", cell.flip_rate, (lost + gained) / n)
    checks.near("McNemar's p from the counts", cell.mcnemar_p, mcnemar_p(lost, gained))
    if 0 < cell.tost_margin < 1:
        checks.near("Tango's p from the counts", cell.tost_p, _tango(lost, gained, n, cell.tost_margin))
    checks.between("the margin is a share", cell.tost_margin, 0.0, 1.0)
    checks.same("equivalent = (tost_p <= .05)", cell.equivalent, cell.tost_p <= LEVEL)
    upper = wilson_interval(lost + gained, n)[1]
    checks.near("mde from n and the flip rate", cell.mde, _mde(n, upper), tol=1e-8)
    if cell.by_subject is not None:
        _subjects(cell, cell.by_subject, checks)


def _subjects(cell: CorrectnessAgreement, subjects: dict[str, SubjectAgreement], checks: Checks) -> None:
    checks.same("the subjects' items add up to n", sum(one.n for one in subjects.values()), cell.n)
    total = sum(one.n_base_correct for one in subjects.values())
    checks.same("the subjects' correct items add up", total, cell.n_base_correct)
    flips = sum(one.flip_rate * one.n for one in subjects.values())
    checks.near("the subjects' flips add up", flips, cell.regressions + cell.recoveries, tol=1e-6)
    corrected = holm({name: min(1.0, max(0.0, one.mcnemar_p)) for name, one in subjects.items()})
    for name, one in subjects.items():
        here = checks.at(f"{checks.where}, subject {name}")
        n, right = one.n, one.n_base_correct
        delta, flipped = round(one.accuracy_delta * n), round(one.flip_rate * n)
        lost, gained = (flipped - delta) // 2, (flipped + delta) // 2
        possible = n > 0 and 0 <= lost <= right <= n and gained >= 0 and lost + gained == flipped
        here.same("the counts are those of a paired table", possible, True)
        if not possible:
            continue
        low, high = wilson_interval(right - lost, right) if right else (None, None)
        here.near(
            "agreement = kept / base correct", one.correctness_agreement, (right - lost) / right if right else None
        )
        here.near("ci_low = Wilson's", one.ci_low, low)
        here.near("ci_high = Wilson's", one.ci_high, high)
        here.near("base accuracy = correct / n", one.base_accuracy, right / n)
        here.near("variant accuracy from the counts", one.variant_accuracy, (right - lost + gained) / n)
        here.near("accuracy delta from the counts", one.accuracy_delta, (gained - lost) / n)
        here.near("flip rate from the counts", one.flip_rate, flipped / n)
        here.near("McNemar's p from the counts", one.mcnemar_p, mcnemar_p(lost, gained))
        here.near("Holm over the subjects", one.mcnemar_p_holm, corrected[name])
