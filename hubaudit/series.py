"""Checkpoints of one training run among the variants: drift and forgetting by step."""

from __future__ import annotations

import re

from hubaudit.report.schema import VariantReport
from hubaudit.report.series_block import Series, SeriesPoint
from hubaudit.stats.ranking import ranking

__all__ = ["find_series", "step_of"]

_STEP = re.compile(r"(?P<run>.*?)(?:/|@)(?:[A-Za-z][A-Za-z0-9]*[-_.])?(?:checkpoint|step)[-_]?(?P<step>\d{1,12})/*")
_NAME = "bound"


def step_of(spec: str) -> tuple[str, int] | None:
    """Which run a reference belongs to, and at which step.

    Args:
        spec: A reference such as `run/checkpoint-200`, `ORG/NAME@step1000` or `ORG/NAME@main-checkpoint-50`.

    Returns:
        Run and step; None where the reference names none.

    Example:
        >>> step_of("out/checkpoint-200"), step_of("org/model@step-1000"), step_of("org/model")
        (('out', 200), ('org/model', 1000), None)
    """
    match = _STEP.fullmatch(spec)
    return (match["run"], int(match["step"])) if match else None


def find_series(variants: list[VariantReport], tasks: list[str]) -> list[Series]:
    """The series that the variants form, by run and task.

    Args:
        variants: The audit's variants; only finished ones count.
        tasks: Names of the tasks.

    Returns:
        One entry a run and task. A run of one checkpoint has an entry too; its correlation is undefined.
    """
    runs: dict[str, list[tuple[int, VariantReport]]] = {}
    for variant in variants:
        placed = step_of(variant.spec)
        if placed is not None and variant.status == "done":
            runs.setdefault(placed[0], []).append((placed[1], variant))
    found = []
    for name, members in runs.items():
        ordered = sorted(members, key=lambda member: member[0])
        for task in tasks:
            if any(task in variant.prism_bound for _, variant in ordered):
                found.append(_series(name, task, [_point(step, variant, task) for step, variant in ordered]))
    return found


def _point(step: int, variant: VariantReport, task: str) -> SeriesPoint:
    bound, agreement = variant.prism_bound.get(task), variant.correctness_agreement.get(task)
    return SeriesPoint(
        step=step,
        spec=variant.spec,
        bound=None if bound is None else bound.bound,
        omega=None if bound is None else bound.omega,
        risk_gap=None if bound is None else bound.risk_gap,
        kl=None if bound is None else bound.kl,
        correctness_agreement=None if agreement is None else agreement.correctness_agreement,
    )


def _series(name: str, task: str, points: list[SeriesPoint]) -> Series:
    gaps = [None if point.risk_gap is None else abs(point.risk_gap) for point in points]
    ranked = ranking({_NAME: [point.bound for point in points]}, gaps)
    reason = ranked.reasons.get(_NAME)
    if reason and len(points) == 1:
        reason = "the series has one checkpoint; audit the folder that holds them all to see drift by step"
    return Series(
        name=name,
        task=task,
        points=points,
        n=ranked.n_used[_NAME],
        spearman=ranked.spearman[_NAME],
        p_value=ranked.p_value[_NAME],
        reasons=dict.fromkeys(("spearman", "p_value"), reason) if reason else {},
    )
