"""Estimates + rules -> findings in plain words. Pure: the same report gives the same findings."""

from __future__ import annotations

from hubaudit.findings import FINDINGS, SEVERITIES
from hubaudit.report.schema import ComputeFloor, Finding, Floor, Report, VariantReport
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.paired import holm
from hubaudit.stats.prism_bound import PrismBound

__all__ = ["below_floor", "diagnose"]

LEVEL = 0.05
CHURN_SHOWN = 0.05
NOISIER_BY = 0.01
_QUANTIZED = {"bnb", "gguf", "gptq", "awq", "rtn", "compressed-tensors", "fp8"}
REMEDY_SCALE = "outlier smoothing before quantization (SmoothQuant, AWQ) aims at a change of scale"
REMEDY_SHAPE = "calibrated reconstruction (GPTQ, AWQ, an importance matrix) or more bits aim at a change of shape"
REMEDY_HEAD = "keep the output head (and a tied embedding) in 16 bit, or give it more bits"
NO_REMEDY_HEAD = "the head's own effect on the risk is inside the compute floor, so a 16-bit head would not help"


def diagnose(report: Report) -> None:
    """Fill `findings` and `below_floor` of every variant.

    Args:
        report: The whole audit: corrections for multiple tests go over all its variants.
    """
    variants, floor = report.variants, report.compute_floor
    accuracy_p = holm(
        {
            f"{index}\n{task}": cell.mcnemar_p
            for index, variant in enumerate(variants)
            for task, cell in variant.correctness_agreement.items()
        }
    )
    for index, variant in enumerate(variants):
        if variant.error is not None:
            variant.findings = [
                finding("variant_failed", "warning", f"{variant.spec} could not be audited: {variant.error.message}")
            ]
            continue
        found: list[Finding] = []
        variant.below_floor = {task: below_floor(variant, task, floor) for task in variant.prism_bound}
        found += _whole_model(variant)
        found += _vocabulary(variant, report.base.head.vocabulary)
        for task, cell in variant.correctness_agreement.items():
            found += _agreement(task, cell, accuracy_p[f"{index}\n{task}"])
        for task, bound in variant.prism_bound.items():
            found += _drift(task, bound, variant, floor)
        found += _directions(variant)
        found += _monitor(variant)
        found.sort(key=lambda one: SEVERITIES.index(one.severity))
        variant.findings = found


def finding(
    name: str,
    severity: str,
    text: str,
    *,
    remedy: str | None = None,
    task: str | None = None,
    layer: int | None = None,
) -> Finding:
    """A finding whose id is in the table."""
    if name not in FINDINGS:
        raise KeyError(f"{name} is not in the table of findings")
    return Finding.model_validate(
        {"id": name, "severity": severity, "text": text, "remedy": remedy, "task": task, "layer": layer}
    )


def _whole_model(variant: VariantReport) -> list[Finding]:
    found = []
    drift = [bound.d_mean_square for bound in variant.prism_bound.values()]
    divergence = [block.kl for block in variant.divergence.values()]
    if drift and all(value == 0 for value in drift) and all(value == 0 for value in divergence):
        text = "no feature and no logit differs from the base: on these texts it computes what the base computes"
        found.append(finding("identical_to_base", "warning", text, remedy="check that the right files were published"))
    model = variant.model
    claims = model is not None and model.format.split(":")[0] in _QUANTIZED
    if model is not None and claims and model.quantized_fraction == 0:
        text = f"the format is {model.format}, but no parameter is stored quantized"
        found.append(finding("not_quantized", "warning", text))
    n_bad = {task: block.n_nonfinite for task, block in variant.divergence.items() if block.n_nonfinite}
    for task, count in n_bad.items():
        text = f"{count} gold tokens have NaN or infinite logits; they are left out of the means"
        found.append(finding("non_finite", "warning", text, task=task, remedy="audit in another --dtype"))
    return found


def _vocabulary(variant: VariantReport, base_rows: int) -> list[Finding]:
    """The head's length, the tokenizer and the chat template beside the base's."""
    if variant.model is None:
        return []
    found = []
    rows, tokenizer = variant.model.head.vocabulary, variant.model.tokenizer
    if rows != base_rows:
        masses = [
            mass
            for block in variant.divergence.values()
            for mass in (block.extra_mass_base, block.extra_mass_variant)
            if mass is not None
        ]
        text = f"the head has {rows} rows, the base's {base_rows}; the extra rows were left out"
        if masses:
            text += f", with at most {max(masses):.2g} of the probability"
        found.append(finding("vocabulary_differs", "notice", text))
    if tokenizer is None:
        return found
    changes = [f"{tokenizer.n_differing} token ids have other names"] if tokenizer.n_differing else []
    changes += [f"{role} is another" for role in tokenizer.special_tokens]
    if changes:
        text = f"the tokenizer differs from the base's: {', '.join(changes)}; texts were tokenized by the base's"
        remedy = "check the tokenizer's files; a wrong eos token makes generation run on"
        found.append(finding("tokenizer_differs", "notice", text, remedy=remedy))
    said = {
        "differs": ("notice", "the chat template is not the base's"),
        "missing": ("info", "there is no chat template, the base has one"),
        "added": ("info", "there is a chat template, the base has none"),
    }.get(tokenizer.chat_template)
    if said is not None:
        text = f"{said[1]}; contrast prompts went through the base's"
        remedy = "prompt both models the same way when you compare their generations"
        found.append(finding("chat_template_differs", said[0], text, remedy=remedy))
    return found


def _agreement(task: str, cell: CorrectnessAgreement, p_holm: float | None) -> list[Finding]:
    found = []
    delta = cell.accuracy_delta
    accuracies = f"accuracy {cell.base_accuracy:.3f} -> {cell.variant_accuracy:.3f} on {cell.n} items of {task}"
    moved = (
        f"{cell.regressions} right answers were lost, {cell.recoveries} gained, "
        f"{cell.wrong_to_other_wrong} wrong ones changed"
    )
    dropped = p_holm is not None and p_holm < LEVEL and delta < 0
    if dropped:
        text = f"{accuracies}, p = {p_holm:.2g} after Holm's correction; {moved}"
        found.append(
            finding("accuracy_drop", "warning", text, task=task, remedy="use more bits or a calibrated method")
        )
    elif cell.churn_rate >= CHURN_SHOWN:
        text = f"{accuracies}: no detectable difference, yet {cell.churn_rate:.0%} of the answers changed: {moved}"
        remedy = "look at the changed items before calling the variant equivalent"
        found.append(finding("answers_changed", "notice", text, task=task, remedy=remedy))
    if cell.equivalent:
        text = f"{accuracies}: equivalent within {cell.tost_margin:.0%} (Tango's test, p = {cell.tost_p:.2g})"
        found.append(finding("equivalent_accuracy", "info", text, task=task))
    elif not dropped and cell.mde is not None:
        text = f"with {cell.n} items of {task}, an accuracy difference below {cell.mde:.1%} cannot be seen"
        found.append(finding("small_sample", "info", text, task=task, remedy="raise --limit for a sharper answer"))
    return found


def _drift(task: str, bound: PrismBound, variant: VariantReport, floor: ComputeFloor | None) -> list[Finding]:
    if bound.bound is None:
        reason = bound.reasons.get("bound", "")
        if "width" in reason:
            return [finding("incomparable_features", "notice", f"no bound on {task}: {reason}", task=task)]
        return []
    found = []
    below = variant.below_floor.get(task, [])
    if "bound" in below:
        text = f"on {task} the bound is not larger than what another dtype or batch changes in the base itself"
        return [finding("below_compute_floor", "info", text, task=task)]
    gap_floor = _gap_floor(floor, task)
    axes = f"on {task} the bound {bound.bound:.3g} nats = features {bound.delta:.3g} + head {bound.gamma:.3g}"
    if bound.dominant_axis == "scale":
        text = (
            f"{axes}; most of it is a change of the features' scale ({bound.rho_base:.4g} -> {bound.rho_variant:.4g})"
        )
        found.append(finding("drift_scale", "notice", text, task=task, remedy=REMEDY_SCALE))
    elif bound.dominant_axis == "shape":
        text = f"{axes}; most of it is a change of the features' shape (1 - omega = {_one_minus(bound.omega):.3g})"
        found.append(finding("drift_shape", "notice", text, task=task, remedy=REMEDY_SHAPE))
    elif bound.dominant_axis == "head":
        harmful = bound.gap_head is not None and bound.gap_head > gap_floor
        text = f"{axes}; most of it is the head, whose own effect on the risk is {_signed(bound.gap_head)} nats"
        remedy = REMEDY_HEAD if harmful else NO_REMEDY_HEAD
        found.append(finding("drift_head", "notice" if harmful else "info", text, task=task, remedy=remedy))
    if bound.risk_gap is not None and bound.risk_gap > gap_floor:
        text = (
            f"on {task} the risk rose by {bound.risk_gap:.3g} nats a token: features {_signed(bound.gap_features)}, "
            f"head {_signed(bound.gap_head)}"
        )
        remedy = REMEDY_HEAD if bound.dominant_gap == "head" else REMEDY_SHAPE
        found.append(finding("risk_increase", "notice", text, task=task, remedy=remedy))
    return found


def _directions(variant: VariantReport) -> list[Finding]:
    layers = {layer: block for layer, block in variant.direction_floor.items() if block.calibrated_verdict}
    if not layers:
        return []
    corrected = holm({str(layer): block.rotation_p for layer, block in layers.items()})
    # The verdict is about theta0, Holm about any rotation: both must speak before one is claimed.
    rotated = [
        layer
        for layer, block in layers.items()
        if block.calibrated_verdict == "rotation" and (corrected[str(layer)] or 0.0) < LEVEL
    ]
    found = []
    theta0 = max(block.theta0_degrees for block in layers.values())
    if rotated:
        worst = max(rotated, key=lambda layer: layers[layer].rotation_degrees or 0.0)
        block = layers[worst]
        text = (
            f"the contrast direction rotated by {block.rotation_degrees:.1f} degrees at layer {worst} "
            f"(cosine {block.corrected_cosine:.4f} [{block.ci_low:.4f}, {block.ci_high:.4f}]), beyond "
            f"{theta0:.1f} degrees at {len(rotated)} of {len(layers)} layers"
        )
        remedy = "refit probes and steering vectors on the variant"
        found.append(finding("direction_rotated", "warning", text, layer=worst, remedy=remedy))
    elif all(block.calibrated_verdict == "preserved" for block in layers.values()):
        text = f"the contrast direction rotated by less than {theta0:.1f} degrees at all {len(layers)} layers"
        found.append(finding("direction_preserved", "info", text))
    else:
        text = f"this n does not tell whether the contrast direction rotated by {theta0:.1f} degrees or more"
        found.append(finding("direction_inconclusive", "info", text, remedy="use more prompts in each class"))
    noisier = [
        layer
        for layer, block in layers.items()
        if block.own_null_mean is not None
        and block.base_null_mean is not None
        and block.own_null_mean - block.base_null_mean < -max(NOISIER_BY, block.resolution or 0.0)
    ]
    if noisier:
        text = f"at layer {noisier[0]} the variant only estimates the direction with more noise: its null lies lower"
        found.append(finding("direction_noisier", "info", text, layer=noisier[0]))
    return found


def _monitor(variant: VariantReport) -> list[Finding]:
    block = variant.translation_attenuation
    if block is None or block.verdict in (None, "none"):
        return []
    found = []
    if block.verdict in ("translation", "both"):
        text = (
            f"the monitor's scores moved by {block.translation:+.2f} within-class SDs "
            f"[{block.translation_ci_low:+.2f}, {block.translation_ci_high:+.2f}], "
            f"AUROC {_change(block.auroc_base)} -> {_change(block.auroc_variant)}"
        )
        found.append(finding("monitor_translation", "warning", text, remedy="recalibrate the monitor's threshold"))
    if block.verdict in ("attenuation", "both"):
        text = (
            f"the monitor's signal faded by {block.attenuation:.0%} "
            f"[{block.attenuation_ci_low:.0%}, {block.attenuation_ci_high:.0%}]"
        )
        found.append(finding("monitor_attenuation", "warning", text, remedy="refit the probe on the variant"))
    return found


def below_floor(variant: VariantReport, task: str, floor: ComputeFloor | None) -> list[str]:
    """Which figures of a task are not larger than what the computation alone changes.

    Args:
        variant: The variant.
        task: Name of the task.
        floor: The compute floor, or None.

    Returns:
        Keys among `bound`, `d_mean_square`, `kl`, `risk_gap`, `gap_head` and `gap_features`.
    """
    floors = _floors(floor, task)
    bound, divergence = variant.prism_bound[task], variant.divergence.get(task)
    figures = {
        "bound": (bound.bound, _largest(floors, "bound")),
        "d_mean_square": (bound.d_mean_square, _largest(floors, "d_mean_square")),
        "kl": (divergence.kl if divergence else None, _largest(floors, "kl")),
        "risk_gap": (bound.risk_gap, _largest(floors, "risk_gap")),
        "gap_features": (bound.gap_features, _largest(floors, "risk_gap")),
        "gap_head": (bound.gap_head, _largest(floors, "risk_gap")),
    }
    return [
        key
        for key, (value, limit) in figures.items()
        if value is not None and limit is not None and abs(value) <= limit
    ]


def _floors(floor: ComputeFloor | None, task: str) -> list[Floor]:
    if floor is None:
        return []
    return [block[task] for block in (floor.batch, floor.dtype) if task in block]


def _largest(floors: list[Floor], key: str) -> float | None:
    values = [getattr(floor, key) for floor in floors]
    present = [abs(value) for value in values if value is not None]
    return max(present) if present else None


def _gap_floor(floor: ComputeFloor | None, task: str) -> float:
    return _largest(_floors(floor, task), "risk_gap") or 0.0


def _one_minus(value: float | None) -> float:
    return 1.0 - value if value is not None else float("nan")


def _signed(value: float | None) -> str:
    return "undefined" if value is None else f"{value:+.3g}"


def _change(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
