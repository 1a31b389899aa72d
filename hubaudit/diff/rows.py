"""Two audits' figures of one variant, side by side: better, worse, or within noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from hubaudit.report.schema import VariantReport
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.paired import mcnemar_p

__all__ = ["Row", "compare_variants"]

Outcome = Literal["better", "worse", "within noise", "changed", "not comparable"]
LEVEL = 0.01
Z = 2.5758293035489004
"""Normal quantile of a two-sided test at the 1 % level."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of one variant in both audits."""

    variant: str
    """As the new report names it."""
    where: str
    """Block and task or layer."""
    key: str
    """The figure."""
    old: float | str | None
    """In the old report."""
    new: float | str | None
    """In the new report."""
    outcome: Outcome
    """What became of it."""
    rule: str
    """Why."""


def compare_variants(old: VariantReport, new: VariantReport, *, same_items: set[str]) -> list[Row]:
    """Compare what two audits found about one variant.

    Correct answers of a variant are compared by the exact McNemar test where both audits have the same items and the
    same base answers; KL by its standard errors. Each test is at the 1 % level. The items are the same in both
    audits, so the KL's difference varies less than two independent errors say: its test alarms more rarely still.

    Args:
        old: In the old report.
        new: In the new report.
        same_items: Tasks whose items and base are the same in both.

    Returns:
        One row a figure.
    """
    rows = [_status(old, new)]
    for task in sorted(set(old.correctness_agreement) & set(new.correctness_agreement)):
        rows.append(_accuracy(old, new, task, paired=task in same_items))
    for task in sorted(set(old.divergence) & set(new.divergence)):
        if task in same_items:
            rows.append(_kl(old, new, task))
    for layer in sorted(set(old.direction_floor) & set(new.direction_floor)):
        values = (old.direction_floor[layer].calibrated_verdict, new.direction_floor[layer].calibrated_verdict)
        rows.append(_verdict(new.spec, f"direction_floor.{layer}", "calibrated_verdict", *values, good="preserved"))
    if old.translation_attenuation is not None and new.translation_attenuation is not None:
        values = (old.translation_attenuation.verdict, new.translation_attenuation.verdict)
        rows.append(_verdict(new.spec, "translation_attenuation", "verdict", *values, good="none"))
    return rows


def _status(old: VariantReport, new: VariantReport) -> Row:
    outcome: Outcome = "within noise"
    if old.status != new.status:
        outcome = "better" if new.status == "done" else "worse"
    return Row(
        variant=new.spec, where="", key="status", old=old.status, new=new.status, outcome=outcome, rule="done or not"
    )


def _accuracy(old: VariantReport, new: VariantReport, task: str, *, paired: bool) -> Row:
    before, after = old.correctness_agreement[task], new.correctness_agreement[task]
    row = Row(
        variant=new.spec,
        where=f"correctness_agreement.{task}",
        key="variant_accuracy",
        old=before.variant_accuracy,
        new=after.variant_accuracy,
        outcome="not comparable",
        rule="the items or the base differ",
    )
    if not paired:
        return row
    right = [_turned(each, task) for each in (old, new)]
    if right[0] is None or right[1] is None or not _same_base(before, after):
        return dataclasses.replace(row, rule="the base's answers differ, or no changed items are stored")
    # An item's answer is the base's unless it is named; so the difference of two sets is the paired table.
    lost = len((right[0][1] - right[1][1]) | (right[1][0] - right[0][0]))
    won = len((right[1][1] - right[0][1]) | (right[0][0] - right[1][0]))
    p = mcnemar_p(lost, won)
    outcome: Outcome = "within noise" if p >= LEVEL else "better" if won > lost else "worse"
    rule = f"exact McNemar, {lost} lost, {won} won, p = {p:.2g}, 1 % level"
    return dataclasses.replace(row, outcome=outcome, rule=rule)


def _turned(variant: VariantReport, task: str) -> tuple[set[str], set[str]] | None:
    """Items that the variant lost and won against the base."""
    changes = variant.changed_items.get(task)
    if changes is None:
        return None
    kinds = ("regression", "recovery")
    lost, won = ({change.item_id for change in changes if change.kind == kind} for kind in kinds)
    return lost, won


def _same_base(old: CorrectnessAgreement, new: CorrectnessAgreement) -> bool:
    return (old.n, old.n_base_correct) == (new.n, new.n_base_correct)


def _kl(old: VariantReport, new: VariantReport, task: str) -> Row:
    before, after = old.divergence[task], new.divergence[task]
    row = Row(
        variant=new.spec,
        where=f"divergence.{task}",
        key="kl",
        old=before.kl,
        new=after.kl,
        outcome="not comparable",
        rule="KL or its standard error is undefined",
    )
    if before.kl is None or after.kl is None or before.kl_se is None or after.kl_se is None:
        return row
    limit = Z * math.hypot(before.kl_se, after.kl_se)
    change = after.kl - before.kl
    outcome: Outcome = "within noise" if abs(change) <= limit else "worse" if change > 0 else "better"
    return dataclasses.replace(row, outcome=outcome, rule=f"change {change:+.3g}, noise {limit:.3g} (1 % level)")


def _verdict(spec: str, where: str, key: str, old: str | None, new: str | None, *, good: str) -> Row:
    outcome: Outcome = "within noise"
    if old != new:
        outcome = "better" if new == good else "worse" if old == good else "changed"
    if None in (old, new) and old != new:
        outcome = "not comparable"
    rule = "the verdict's own intervals"
    return Row(variant=spec, where=where, key=key, old=old, new=new, outcome=outcome, rule=rule)
