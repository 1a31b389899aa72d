"""How each cell of the table of variants is made from the report's blocks."""

from __future__ import annotations

from hubaudit.report.cell import Cell, compute_floor, undefined
from hubaudit.report.describe import describe
from hubaudit.report.schema import ModelReport, Report, VariantReport
from hubaudit.report.text import DASH, MINUS, number, percent, plural, size
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.translation_attenuation import TranslationAttenuation

__all__ = [
    "accuracy_cell",
    "agreement_cell",
    "axis_cell",
    "bits_cell",
    "bound_cell",
    "direction_cell",
    "flips_cell",
    "gap_cell",
    "kl_cell",
    "monitor_cell",
    "size_cell",
]


def size_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Stored size."""
    if variant.model is None:
        return undefined(variant, None, "size_bytes")
    base = report.base.size_bytes
    ratio = f" Base: {size(base)}." if base else ""
    n_bytes = variant.model.size_bytes
    return Cell(text=size(n_bytes), sort=n_bytes, hint=describe(ModelReport, "size_bytes") + ratio)


def bits_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Bits per weight."""
    if variant.model is None:
        return undefined(variant, None, "bits_per_weight")
    bits = variant.model.bits_per_weight
    hint = (
        f"{describe(ModelReport, 'bits_per_weight')} Base: {number(report.base.bits_per_weight)}. "
        f"Quantized share of the parameters: {percent(variant.model.quantized_fraction)}."
    )
    return Cell(text=number(bits), sort=bits, hint=hint)


def agreement_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Share of the base's right answers that were kept."""
    result = variant.correctness_agreement.get(task or "")
    if result is None or result.correctness_agreement is None:
        return undefined(variant, result, "correctness_agreement")
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


def accuracy_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Accuracy, base to variant."""
    result = variant.correctness_agreement.get(task or "")
    if result is None:
        return undefined(variant, None, "variant_accuracy")
    low, high = result.accuracy_delta_ci_low, result.accuracy_delta_ci_high
    interval = (
        ""
        if low is None or high is None
        else (f" (95% CI {percent(low, signed=True)} to {percent(high, signed=True)})")
    )
    hint = (
        f"Accuracy of the base, then of the variant, by the task's headline metric; n = {result.n} items. "
        f"Difference {percent(result.accuracy_delta, signed=True)}{interval}; without any change: 0. "
        f"Exact McNemar p = {number(result.mcnemar_p)}; smallest difference seen with 80% power: "
        f"{percent(result.mde)}."
    )
    text = f"{percent(result.base_accuracy)} → {percent(result.variant_accuracy)}"
    return Cell(text=text, sort=result.variant_accuracy, hint=hint)


def flips_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Answers lost and gained."""
    result = variant.correctness_agreement.get(task or "")
    if result is None:
        return undefined(variant, None, "regressions")
    below, floor = compute_floor(report, variant, task or "", "flips")
    flips = result.regressions + result.recoveries
    hint = (
        f"Answers that flipped between right and wrong: {result.regressions} lost, {result.recoveries} gained. "
        f"{plural(result.wrong_to_other_wrong, 'wrong answer')} became another wrong answer. n = {result.n} items. "
        f"Without any change: 0.{floor}"
    )
    detail = f"{MINUS}{result.regressions} +{result.recoveries}"
    return Cell(text=str(flips), detail=detail, sort=flips / max(1, result.n), hint=hint, below_floor=below)


def kl_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Mean KL divergence."""
    result = variant.divergence.get(task or "")
    if result is None or result.kl is None:
        return undefined(variant, result, "kl")
    below, floor = compute_floor(report, variant, task or "", "kl")
    error = "" if result.kl_se is None else f" Standard error {number(result.kl_se, digits=2)}."
    hint = (
        f"{describe(Divergence, 'kl')} n = {result.n_tokens} tokens.{error} Without any change: 0. "
        f"Same most likely token: {percent(result.top1_agreement)}.{floor}"
    )
    return Cell(text=number(result.kl, digits=2), sort=result.kl, hint=hint, below_floor=below)


def bound_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """The PRISM bound."""
    result = variant.prism_bound.get(task or "")
    if result is None or result.bound is None:
        return undefined(variant, result, "bound")
    below, floor = compute_floor(report, variant, task or "", "bound")
    hint = (
        f"{describe(PrismBound, 'bound')} delta {number(result.delta)} (features) + gamma "
        f"{number(result.gamma)} (head). n = {result.n_items} items, {result.n_tokens} tokens. "
        f"Without any change: 0.{floor}"
    )
    return Cell(text=number(result.bound), sort=result.bound, hint=hint, below_floor=below)


def gap_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """Size of the risk gap, with its certificate."""
    result = variant.prism_bound.get(task or "")
    if result is None or result.risk_gap is None:
        return undefined(variant, result, "risk_gap")
    below, floor = compute_floor(report, variant, task or "", "risk_gap")
    gap, limit = abs(result.risk_gap), result.logratio_bound
    hint = (
        f"Size of: {describe(PrismBound, 'risk_gap')} Signed: {number(result.risk_gap, signed=True)}, of which "
        f"features {number(result.gap_features, signed=True)}, head {number(result.gap_head, signed=True)}. "
        f"No labels on these tokens could make it larger than {number(limit)}. "
        f"n = {result.n_items} items, {result.n_tokens} tokens. Without any change: 0.{floor}"
    )
    detail = "" if limit is None else f"≤ {number(limit, digits=2)}"
    return Cell(text=number(gap, digits=2), detail=detail, sort=gap, hint=hint, below_floor=below)


def axis_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """The largest part of the bound."""
    result = variant.prism_bound.get(task or "")
    if result is None or result.dominant_axis is None:
        return undefined(variant, result, "dominant_axis")
    below, _ = compute_floor(report, variant, task or "", "bound")
    hint = describe(PrismBound, "dominant_axis")
    if result.dominant_gap is not None:
        hint += f" The larger part of the risk gap comes from the {result.dominant_gap}."
    return Cell(text=result.dominant_axis, sort=result.dominant_axis, hint=hint, below_floor=below)


def direction_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """The calibrated verdicts over the layers in one."""
    layers = variant.direction_floor
    if not layers:
        if report.contrast is None:
            return Cell(text=DASH, hint="Undefined: no contrast set was audited, so there is no direction")
        return undefined(variant, None, "calibrated_verdict")
    calibrated = {layer: result.calibrated_verdict for layer, result in layers.items()}
    if all(verdict is None for verdict in calibrated.values()):
        first = next(iter(layers.values()))
        return undefined(variant, first, "calibrated_verdict")
    rotated = [layer for layer, verdict in calibrated.items() if verdict == "rotation"]
    preserved = [layer for layer, verdict in calibrated.items() if verdict == "preserved"]
    angles = {layer: angle for layer in rotated if (angle := layers[layer].rotation_degrees) is not None}
    if rotated:
        text, detail = "rotation", f"{len(rotated)} of {plural(len(layers), 'block')}"
        if angles:
            detail += f", ≤ {max(angles.values()):.1f}°"
    elif len(preserved) == len(layers):
        text, detail = "preserved", plural(len(layers), "block")
    else:
        text, detail = "inconclusive", f"{len(layers) - len(preserved)} of {plural(len(layers), 'block')}"
    some = next(iter(layers.values()))
    hint = (
        f"{describe(DirectionFloor, 'calibrated_verdict')} n = {some.n_a} + {some.n_b} prompts; "
        f"a turn below {number(some.theta0_degrees)} degrees counts as preserved."
    )
    return Cell(text=text, detail=detail, sort=f"{len(rotated):04d}{text}", hint=hint)


def monitor_cell(report: Report, variant: VariantReport, task: str | None) -> Cell:
    """What became of the linear monitor's scores."""
    result = variant.translation_attenuation
    if result is None or result.verdict is None:
        if result is None and report.contrast is None:
            return Cell(text=DASH, hint="Undefined: no contrast set was audited, so there is no monitor")
        return undefined(variant, result, "verdict")
    hint = (
        f"{describe(TranslationAttenuation, 'verdict')} Translation {number(result.translation, signed=True)} SD, "
        f"attenuation {percent(result.attenuation, signed=True)}; without any change both are 0. "
        f"n = {result.n} prompts."
    )
    text = "no shift" if result.verdict == "none" else result.verdict
    return Cell(text=text, sort=text, hint=hint)
