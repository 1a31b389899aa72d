"""One variant's figures as table cells: what is shown, what it means, and why it is undefined.

Markdown, HTML and terminal read the same cells, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hubaudit.report.describe import describe
from hubaudit.report.schema import Floor, ModelReport, Report, VariantReport
from hubaudit.report.text import DASH, number, percent, plural, size
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.translation_attenuation import TranslationAttenuation

__all__ = ["COLUMNS", "Cell", "Column", "cells"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of one variant."""

    text: str
    """The figure as shown; a dash where it is undefined."""
    hint: str
    """Meaning, n, the value without any change; or why it is undefined."""
    detail: str = ""
    """Shown small beside the figure: an interval or a split."""
    sort: float | str | None = None
    """What the column sorts by; None sorts last."""
    below_floor: bool = False
    """Whether the computation alone explains a figure of this size."""
    interval: tuple[float, float, float] | None = None
    """Low, value, high on a scale of 0 to 1, where a bar helps."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table of variants."""

    key: str
    title: str
    meaning: str
    make: Callable[[Report, VariantReport, str | None], Cell]
    numeric: bool = True


def cells(report: Report, variant: VariantReport, task: str | None) -> dict[str, Cell]:
    """All cells of one variant and task, by column key.

    Args:
        report: The report that holds the variant.
        variant: The variant.
        task: Name of the task, or None where the variant has no task at all.
    """
    return {column.key: column.make(report, variant, task) for column in COLUMNS}


def _undefined(variant: VariantReport, result: Any, key: str) -> Cell:
    """A dash, with the best reason that the report holds."""
    if result is not None:
        reason = result.reasons.get(key, "the report gives no reason")
    elif variant.error is not None:
        reason = f"the variant could not be audited: {variant.error.message}"
    elif variant.status == "interrupted":
        reason = "the audit was interrupted before this was measured"
    else:
        reason = "not part of this audit; the findings say why where there was an obstacle"
    return Cell(text=DASH, hint=f"Undefined: {reason}")


def _floor(report: Report, variant: VariantReport, task: str, key: str) -> tuple[bool, str]:
    """Whether a figure lies below the compute floor, and the sentence about the floor."""
    below = key in variant.below_floor.get(task, [])
    floors: list[float] = []
    if report.compute_floor is not None:
        for part in (report.compute_floor.batch, report.compute_floor.dtype):
            floor: Floor | None = part.get(task)
            value = None if floor is None else getattr(floor, key)
            if value is not None:
                floors.append(abs(value))
    sentence = f" Compute floor: {number(max(floors))}." if floors else ""
    if below:
        sentence += " This figure lies below the compute floor: the computation alone explains it."
    return below, sentence


def _size(report: Report, variant: VariantReport, task: str | None) -> Cell:
    if variant.model is None:
        return _undefined(variant, None, "size_bytes")
    base = report.base.size_bytes
    ratio = f" Base: {size(base)}." if base else ""
    n_bytes = variant.model.size_bytes
    return Cell(text=size(n_bytes), sort=n_bytes, hint=describe(ModelReport, "size_bytes") + ratio)


def _bits(report: Report, variant: VariantReport, task: str | None) -> Cell:
    if variant.model is None:
        return _undefined(variant, None, "bits_per_weight")
    bits = variant.model.bits_per_weight
    hint = (
        f"{describe(ModelReport, 'bits_per_weight')} Base: {number(report.base.bits_per_weight)}. "
        f"Quantized share of the parameters: {percent(variant.model.quantized_fraction)}."
    )
    return Cell(text=number(bits), sort=bits, hint=hint)


def _agreement(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.correctness_agreement.get(task or "")
    if result is None or result.correctness_agreement is None:
        return _undefined(variant, result, "correctness_agreement")
    value = result.correctness_agreement
    detail, interval = "", None
    if result.ci_low is not None and result.ci_high is not None:
        detail = f"{100 * result.ci_low:.1f}–{percent(result.ci_high)}"  # noqa: RUF001 - a range
        interval = (result.ci_low, value, result.ci_high)
    hint = (
        f"{describe(CorrectnessAgreement, 'correctness_agreement')} n = {result.n_base_correct} items that the "
        f"base gets right, of {result.n}. Without any change: 100%. "
        f"The two accuracies allow at most {percent(result.ceiling)}."
    )
    return Cell(text=percent(value), detail=detail, sort=value, hint=hint, interval=interval)


def _accuracy(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.correctness_agreement.get(task or "")
    if result is None:
        return _undefined(variant, None, "variant_accuracy")
    low, high = result.accuracy_delta_ci_low, result.accuracy_delta_ci_high
    interval = "" if low is None or high is None else (
        f" (95% CI {percent(low, signed=True)} to {percent(high, signed=True)})"
    )
    hint = (
        f"Accuracy of the base, then of the variant, by the task's headline metric; n = {result.n} items. "
        f"Difference {percent(result.accuracy_delta, signed=True)}{interval}; without any change: 0. "
        f"Exact McNemar p = {number(result.mcnemar_p)}; smallest difference seen with 80% power: "
        f"{percent(result.mde)}."
    )
    text = f"{percent(result.base_accuracy)} → {percent(result.variant_accuracy)}"
    return Cell(text=text, sort=result.variant_accuracy, hint=hint)


def _flips(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.correctness_agreement.get(task or "")
    if result is None:
        return _undefined(variant, None, "regressions")
    below, floor = _floor(report, variant, task or "", "flips")
    flips = result.regressions + result.recoveries
    hint = (
        f"Answers that flipped between right and wrong: {result.regressions} lost, {result.recoveries} gained. "
        f"{plural(result.wrong_to_other_wrong, 'wrong answer')} became another wrong answer. n = {result.n} items. "
        f"Without any change: 0.{floor}"
    )
    detail = f"−{result.regressions} +{result.recoveries}"  # noqa: RUF001 - a minus sign
    return Cell(text=str(flips), detail=detail, sort=flips / max(1, result.n), hint=hint, below_floor=below)


def _kl(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.divergence.get(task or "")
    if result is None or result.kl is None:
        return _undefined(variant, result, "kl")
    below, floor = _floor(report, variant, task or "", "kl")
    error = "" if result.kl_se is None else f" Standard error {number(result.kl_se, digits=2)}."
    hint = (
        f"{describe(Divergence, 'kl')} n = {result.n_tokens} tokens.{error} Without any change: 0. "
        f"Same most likely token: {percent(result.top1_agreement)}.{floor}"
    )
    return Cell(text=number(result.kl), sort=result.kl, hint=hint, below_floor=below)


def _bound(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.prism_bound.get(task or "")
    if result is None or result.bound is None:
        return _undefined(variant, result, "bound")
    below, floor = _floor(report, variant, task or "", "bound")
    hint = (
        f"{describe(PrismBound, 'bound')} delta {number(result.delta)} (features) + gamma "
        f"{number(result.gamma)} (head). n = {result.n_items} items, {result.n_tokens} tokens. "
        f"Without any change: 0.{floor}"
    )
    return Cell(text=number(result.bound), sort=result.bound, hint=hint, below_floor=below)


def _gap(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.prism_bound.get(task or "")
    if result is None or result.risk_gap is None:
        return _undefined(variant, result, "risk_gap")
    below, floor = _floor(report, variant, task or "", "risk_gap")
    gap, limit = abs(result.risk_gap), result.logratio_bound
    hint = (
        f"Size of: {describe(PrismBound, 'risk_gap')} Signed: {number(result.risk_gap, signed=True)}, of which "
        f"features {number(result.gap_features, signed=True)}, head {number(result.gap_head, signed=True)}. "
        f"No labels on these tokens could make it larger than {number(limit)}. "
        f"n = {result.n_items} items, {result.n_tokens} tokens. Without any change: 0.{floor}"
    )
    detail = "" if limit is None else f"≤ {number(limit)}"
    return Cell(text=number(gap), detail=detail, sort=gap, hint=hint, below_floor=below)


def _axis(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.prism_bound.get(task or "")
    if result is None or result.dominant_axis is None:
        return _undefined(variant, result, "dominant_axis")
    below, _ = _floor(report, variant, task or "", "bound")
    hint = describe(PrismBound, "dominant_axis")
    if result.dominant_gap is not None:
        hint += f" The larger part of the risk gap comes from the {result.dominant_gap}."
    return Cell(text=result.dominant_axis, sort=result.dominant_axis, hint=hint, below_floor=below)


def _direction(report: Report, variant: VariantReport, task: str | None) -> Cell:
    layers = variant.direction_floor
    if not layers:
        if report.contrast is None:
            return Cell(text=DASH, hint="Undefined: no contrast set was audited, so there is no direction")
        return _undefined(variant, None, "calibrated_verdict")
    calibrated = {layer: result.calibrated_verdict for layer, result in layers.items()}
    if all(verdict is None for verdict in calibrated.values()):
        first = next(iter(layers.values()))
        return _undefined(variant, first, "calibrated_verdict")
    rotated = [layer for layer, verdict in calibrated.items() if verdict == "rotation"]
    preserved = [layer for layer, verdict in calibrated.items() if verdict == "preserved"]
    angles = {layer: angle for layer in rotated if (angle := layers[layer].rotation_degrees) is not None}
    if rotated:
        text, detail = "rotation", f"{len(rotated)} of {plural(len(layers), 'layer')}"
        if angles:
            detail += f", up to {max(angles.values()):.1f}°"
    elif len(preserved) == len(layers):
        text, detail = "preserved", plural(len(layers), "layer")
    else:
        text, detail = "inconclusive", f"{len(layers) - len(preserved)} of {plural(len(layers), 'layer')}"
    some = next(iter(layers.values()))
    hint = (
        f"{describe(DirectionFloor, 'calibrated_verdict')} n = {some.n_a} + {some.n_b} prompts; "
        f"a turn below {number(some.theta0_degrees)} degrees counts as preserved."
    )
    return Cell(text=text, detail=detail, sort=f"{len(rotated):04d}{text}", hint=hint)


def _monitor(report: Report, variant: VariantReport, task: str | None) -> Cell:
    result = variant.translation_attenuation
    if result is None or result.verdict is None:
        if result is None and report.contrast is None:
            return Cell(text=DASH, hint="Undefined: no contrast set was audited, so there is no monitor")
        return _undefined(variant, result, "verdict")
    hint = (
        f"{describe(TranslationAttenuation, 'verdict')} Translation {number(result.translation, signed=True)} SD, "
        f"attenuation {percent(result.attenuation, signed=True)}; without any change both are 0. "
        f"n = {result.n} prompts."
    )
    text = "no shift" if result.verdict == "none" else result.verdict
    return Cell(text=text, sort=text, hint=hint)


COLUMNS: tuple[Column, ...] = (
    Column(key="size", title="Size", make=_size, meaning="Stored size of the weights."),
    Column(
        key="bits", title="Bits/weight", make=_bits,
        meaning="Stored bits over parameters, scales and zero points included.",
    ),
    Column(
        key="accuracy", title="Accuracy", make=_accuracy,
        meaning="Share of right answers, base → variant.",
    ),
    Column(
        key="agreement", title="Agreement", make=_agreement,
        meaning="Share of the base's right answers that the variant also gets right, with its 95% interval. "
        "100% = nothing lost.",
    ),
    Column(
        key="flips", title="Flips", make=_flips,
        meaning="Answers that went from right to wrong (−) or from wrong to right (+).",  # noqa: RUF001 - minus
    ),
    Column(
        key="kl", title="KL", make=_kl,
        meaning="Mean divergence of the variant's token probabilities from the base's, nats per token. 0 = equal.",
    ),
    Column(
        key="bound", title="Bound", make=_bound,
        meaning="PRISM's upper bound of the risk gap, delta (features) + gamma (head), nats per token. It ranks "
        "variants and tells where the drift sits; the gap itself is far smaller.",
    ),
    Column(
        key="gap", title="|Risk gap|", make=_gap,
        meaning="Change of the mean loss on the right answers, nats per token; after ≤ the most that any labels "
        "on these tokens could show.",
    ),
    Column(
        key="axis", title="Main axis", make=_axis, numeric=False,
        meaning="Largest part of the bound: scale (length of the features), shape (their arrangement), "
        "head (gamma, the output head).",
    ),
    Column(
        key="direction", title="Direction", make=_direction, numeric=False,
        meaning="Whether the direction between the two classes of prompts turned, beyond what the noise of this "
        "many prompts explains.",
    ),
    Column(
        key="monitor", title="Monitor", make=_monitor, numeric=False,
        meaning="What happened to a linear monitor's scores: no shift, translation (move the threshold), "
        "attenuation (refit the probe), or both.",
    ),
)
"""The columns of the table of variants, after the variant's name and the task."""
