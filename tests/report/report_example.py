"""A made-up but consistent report: the figures obey the identities that real ones obey."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

import numpy as np

from hubaudit.diagnose import diagnose
from hubaudit.report.schema import (
    BaseReport,
    ChangedItem,
    ComputeFloor,
    ContrastReport,
    Failure,
    Finding,
    Floor,
    HeadReport,
    ModelReport,
    Monitor,
    Report,
    TaskReport,
    VariantReport,
)
from hubaudit.report.series_block import Series, SeriesPoint
from hubaudit.report.structure_block import Structure, StructureRow
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.paired import mcnemar_p, wilson_interval
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.ranking import PooledRanking, Ranking, pooled_ranking, ranking
from hubaudit.stats.structure import WeightDifference
from hubaudit.stats.translation_attenuation import TranslationAttenuation

HOSTILE = "<script>alert(1)</script>|`x`\n<!-- hubaudit:end -->\x1b[31m[red]$a$"
SHA = "7e27bd9f95328f0f3b08261d1252705110c806f8"

# spec, size in MB, bits a weight, strength of the drift, whether the head is quantized, degrees of rotation
VARIANTS = (
    ("org/tiny-135M-GGUF:Q8_0", 145, 8.5, 0.03, True, 0.8),
    ("rtn:8@g128", 141, 8.25, 0.002, False, 0.5),
    ("bnb:int8", 163, 9.7, 0.12, False, 1.9),
    ("org/tiny-135M-GGUF:Q5_0", 96, 5.5, 0.35, True, 4.1),
    ("rtn:4@g128", 78, 4.25, 1.0, False, 11.0),
    ("bnb:nf4", 82, 4.5, 0.8, False, 8.6),
    ("org/tiny-135M-GGUF:Q4_0", 77, 4.5, 0.9, True, 9.4),
    ("rtn:3@g128", 62, 3.25, 3.4, False, 31.0),
)


def fill(cls: type[Any], reasons: dict[str, str] | None = None, **known: Any) -> Any:
    """An instance whose fields that are not given are null with a reason, or 0 where null is not allowed."""
    hints = typing.get_type_hints(cls)
    reasons = dict(reasons or {})
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name == "reasons":
            continue
        if field.name in known:
            values[field.name] = known[field.name]
        elif field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            continue
        elif type(None) in typing.get_args(hints[field.name]):
            values[field.name] = None
            reasons.setdefault(field.name, "not part of this example")
        else:
            values[field.name] = {int: 0, float: 0.0, str: "", bool: False}[hints[field.name]]
    unknown = set(known) - set(values)
    assert not unknown, f"{cls.__name__} has no {sorted(unknown)}"
    return cls(**values, reasons={key: reasons[key] for key in reasons if values.get(key) is None})


def agreement(n: int, correct: int, lost: int, gained: int, moved: int) -> CorrectnessAgreement:
    low, high = wilson_interval(correct - lost, correct)
    delta = (gained - lost) / n
    spread = 1.96 * math.sqrt(max(1, lost + gained)) / n
    return fill(
        CorrectnessAgreement,
        correctness_agreement=(correct - lost) / correct,
        ci_low=low,
        ci_high=high,
        base_accuracy=correct / n,
        variant_accuracy=(correct - lost + gained) / n,
        accuracy_delta=delta,
        accuracy_delta_ci_low=delta - spread,
        accuracy_delta_ci_high=delta + spread,
        ceiling=min(1.0, (correct - lost + gained) / correct),
        n=n,
        n_base_correct=correct,
        regressions=lost,
        recoveries=gained,
        wrong_to_other_wrong=moved,
        same_answer_rate=1 - (lost + gained + moved) / n,
        churn_rate=(lost + gained + moved) / n,
        flip_rate=(lost + gained) / n,
        mcnemar_p=mcnemar_p(lost, gained),
        tost_p=0.01 if lost + gained < n * 0.02 else 0.4,
        tost_margin=0.02,
        equivalent=lost + gained < n * 0.02,
        mde=2.8 * math.sqrt(max(1, lost + gained) / n / n),
        by_subject=None,
    )


def prism(strength: float, *, head: bool, n_items: int, n_tokens: int, sign: float = 1.0) -> PrismBound:
    k_feat, scale, shape = 9.8925, 0.35 * strength, 14.0 * strength
    delta = k_feat * math.sqrt(scale + shape)
    gamma = 3.2 * math.sqrt(strength) * 3 if head else 0.0
    features, own = sign * 0.08 * strength, (0.012 * strength if head else 0.0)
    axes = {"scale": k_feat * math.sqrt(scale), "shape": k_feat * math.sqrt(shape), "head": gamma}
    rho = 71.0
    return fill(
        PrismBound,
        bound=delta + gamma,
        delta=delta,
        gamma=gamma,
        rho_base=rho,
        rho_variant=rho - math.sqrt(scale),
        scale=scale,
        shape=shape,
        omega=1 - shape / (2 * rho * (rho - math.sqrt(scale))),
        k_feat=k_feat,
        k_feat_case="pairwise",
        k_pred=math.sqrt(2),
        alignment="identity",
        weights="item",
        n_items=n_items,
        n_tokens=n_tokens,
        dominant_axis=max(axes, key=lambda axis: axes[axis]),
        dominant_gap="features",
        logratio_bound=abs(features + own) * 3 + 0.05 * strength,
        kl=0.06 * strength,
        risk_base=1.402,
        risk_variant=1.402 + features + own,
        risk_hybrid=1.402 + features,
        risk_gap=features + own,
        gap_features=features,
        gap_head=own,
        d_mean_square=scale + shape,
    )


def divergence(strength: float, n_tokens: int) -> Divergence:
    return fill(
        Divergence,
        kl=0.06 * strength,
        kl_se=0.004 * strength,
        kl_median=0.03 * strength,
        kl_p90=0.15 * strength,
        kl_p99=0.5 * strength,
        kl_max=1.9 * strength,
        top1_agreement=1 / (1 + 0.09 * strength),
        gold_delta_p_mean=-0.003 * strength,
        gold_delta_p_rms=0.04 * math.sqrt(strength),
        n_tokens=n_tokens,
        n_nonfinite=0,
    )


def direction(degrees: float, layer: int, n: int) -> DirectionFloor:
    turn = degrees * (0.4 + layer / 30)
    corrected, width = math.cos(math.radians(turn)), 0.002 + 0.02 * turn / 30
    low, high = corrected - width, corrected + width
    null, sd = 0.972 - layer / 3000, 0.008 + layer / 8000
    edge = math.cos(math.radians(5))
    calibrated = "rotation" if high < edge else "preserved" if low > edge else "inconclusive"
    cosine = corrected * (0.999 - layer / 6000)
    return fill(
        DirectionFloor,
        rho_naive=17.1,
        rho=16.9 - layer / 40,
        rho_per_sqrt_d=0.704,
        kappa=125.0,
        n_a=n,
        n_b=n,
        n_per_class=float(n),
        d=576,
        floor_half_split=0.969,
        floor_independent=0.984,
        cosine=cosine,
        own_null_mean=null,
        own_null_sd=sd,
        base_null_mean=null + 0.001,
        verdict="rotation" if cosine < null - 2 * sd else "within_noise",
        resolution=2 * sd,
        corrected_cosine=corrected,
        ci_low=low,
        ci_high=high,
        rotation_degrees=turn,
        rotation_detected=high < 1,
        min_detectable_degrees=2.1,
        theta0_degrees=5.0,
        calibrated_verdict=calibrated,
        subspace_gain=1 - degrees / 300,
        rotation_p=0.0001 if calibrated == "rotation" else 0.5,
        n_splits=200,
    )


def monitor(degrees: float, n: int, rng: np.random.Generator) -> tuple[Monitor, TranslationAttenuation]:
    labels = np.repeat([1, 0], n)
    base = np.where(labels == 1, 2.1, -2.0) + rng.normal(size=2 * n)
    slope, shift = 1 - degrees / 90, -degrees / 14
    variant = slope * base + shift + rng.normal(scale=0.1 + degrees / 60, size=2 * n)
    moved, faded = abs(shift) > 0.35, 1 - slope > 0.1
    verdict = "both" if moved and faded else "translation" if moved else "attenuation" if faded else "none"
    scores = Monitor(
        layer=15,
        probe="mean difference on the other half of the prompts",
        labels=labels.tolist(),
        base_scores=base.tolist(),
        variant_scores=variant.tolist(),
    )
    return scores, fill(
        TranslationAttenuation,
        translation=shift,
        translation_ci_low=shift - 0.1,
        translation_ci_high=shift + 0.1,
        attenuation=1 - slope,
        attenuation_ci_low=0.95 - slope,
        attenuation_ci_high=1.05 - slope,
        slope=slope,
        intercept=shift,
        residual_sd=0.1 + degrees / 60,
        r2=0.97,
        auroc_base=0.998,
        auroc_variant=0.997,
        auroc_delta=-0.001,
        delong_p=0.3,
        accuracy_base=0.98,
        accuracy_fixed=0.98 - degrees / 100,
        accuracy_refit_threshold=0.97,
        verdict=verdict,
        n=2 * n,
    )


def model(spec: str, n_bytes: int, bits: float, *, head: bool, cls: type[Any] = ModelReport) -> Any:
    hub = "/" in spec
    return cls(
        spec=spec,
        repo_id=spec.partition(":")[0] if hub else None,
        revision=SHA if hub else None,
        content_id="sha256:" + SHA * 2,
        format="gguf:" + spec.rpartition(":")[2] if "GGUF" in spec else spec,
        engine="transformers 5.24.0, torch 2.13.0",
        dtype="bfloat16",
        n_parameters=134_515_008,
        quantized_fraction=0.0 if bits == 16 else 0.79,
        bits_per_weight=bits,
        size_bytes=n_bytes,
        head=HeadReport(
            vocabulary=49152,
            width=576,
            bias=False,
            scale=1.0,
            softcap=None,
            tied=True,
            quantized=head,
            check_max_difference=0.012,
            check_tolerance=0.06,
        ),
        weight_error=None if bits == 16 else 0.5 ** (bits - 1),
        notes=["the tensors were expanded to bfloat16"],
    )


def changed(task: str, block: CorrectnessAgreement) -> list[ChangedItem]:
    kinds = (
        ["regression"] * block.regressions
        + ["recovery"] * block.recoveries
        + ["wrong_to_other_wrong"] * block.wrong_to_other_wrong
    )
    answers = {"regression": ("B", "C"), "recovery": ("A", "B"), "wrong_to_other_wrong": ("A", "D")}
    return [
        ChangedItem.model_validate(
            {
                "item_id": f"{task}/{100 + 7 * i}",
                "gold": "B",
                "base_answer": answers[kind][0],
                "variant_answer": answers[kind][1],
                "kind": kind,
            }
        )
        for i, kind in enumerate(kinds)
    ]


def variant(spec: str, mb: float, bits: float, strength: float, head: bool, degrees: float, seed: int) -> VariantReport:
    rng = np.random.default_rng(seed)
    flips = lambda n, rate: round(n * rate * math.sqrt(strength))  # noqa: E731 - three uses, one line
    arc = agreement(256, 141, flips(256, 0.06), flips(256, 0.04), flips(256, 0.07))
    answer = agreement(128, 90, flips(128, 0.05), flips(128, 0.045), flips(128, 0.11))
    scores, shift = monitor(degrees, 48, rng)
    return VariantReport(
        spec=spec,
        status="done",
        model=model(spec, int(mb * 1e6), bits, head=head),
        correctness_agreement={"arc": arc, "gsm8k": answer},
        agreement_by_metric={"arc": {"acc": arc, "acc_norm": arc}, "gsm8k": {"exact_match": answer}},
        prism_bound={
            "arc": prism(strength, head=head, n_items=256, n_tokens=3120),
            "gsm8k": prism(1.3 * strength, head=head, n_items=128, n_tokens=9411, sign=-1.0),
        },
        divergence={"arc": divergence(strength, 3120), "gsm8k": divergence(1.2 * strength, 9411)},
        direction_floor={layer: direction(degrees, layer, 96) for layer in range(3, 30, 3)},
        translation_attenuation=shift,
        monitor=scores,
        changed_items={"arc": changed("arc", arc), "gsm8k": changed("gsm8k", answer)},
        seconds={"forward": 21.4},
        structure=structure(strength),
    )


def structure(strength: float) -> Structure:
    """Weight errors of two blocks and the embeddings."""

    def row(layer: int | None, projection: str, error: float) -> StructureRow:
        figures = {"base_norm": 21.5, "relative_error": error, "sqnr_db": -20 * math.log10(error), "kl": 0.003}
        more = {"n_weights": 331776, "max_error": 3 * error, "wasserstein": error / 9}
        return StructureRow(layer=layer, projection=projection, difference=WeightDifference(**figures, **more))

    errors = {"q": 0.06, "k": 0.07, "v": 0.05, "o": 0.05, "gate": 0.04, "up": 0.04, "down": 0.05}
    rows = [row(layer, name, strength * value * (1 + layer)) for layer in (0, 1) for name, value in errors.items()]
    rows.append(row(None, "embeddings", 0.002 * strength))
    return Structure(relative_error=0.05 * strength, n_weights=331776 * len(rows), rows=rows)


def narrow() -> VariantReport:
    """A distilled variant of another width: agreement and KL stay, the rest is null with the reason."""
    reason = "the variant's features are 384 wide, the base's 576, so they cannot be compared"
    made = variant("org/tiny-60M-distilled", 120, 16, 2.2, False, 0.0, 90)
    nothing = dict.fromkeys(("bound", "risk_gap", "dominant_axis", "delta", "gamma", "logratio_bound"), reason)
    null = lambda n, tokens: fill(  # noqa: E731 - two uses
        PrismBound, nothing, k_pred=math.sqrt(2), alignment="identity", weights="item", n_items=n, n_tokens=tokens
    )
    made.prism_bound = {"arc": null(256, 3120), "gsm8k": null(128, 9411)}
    gone = {"calibrated_verdict": reason, "cosine": reason}
    made.direction_floor = {layer: fill(DirectionFloor, gone, n_a=96, n_b=96, d=384) for layer in (3, 15, 27)}
    made.translation_attenuation = fill(TranslationAttenuation, {"verdict": reason}, n=96)
    made.monitor = None
    return made


def failed(spec: str = "org/tiny-135M-EXL3") -> VariantReport:
    message = "org/tiny-135M-EXL3: the format exl3 cannot be loaded; audit a GGUF, GPTQ, AWQ or bitsandbytes variant"
    return VariantReport(spec=spec, status="failed", error=Failure(type="VariantError", message=message, exit_code=4))


def example_report(*, hostile: bool = False) -> Report:
    """Ten variants on two tasks; with `hostile`, every string from outside is an attack."""
    variants = [variant(*row, seed=index) for index, row in enumerate(VARIANTS)] + [narrow(), failed()]
    floor = Floor(n_items=16, bound=4.1, d_mean_square=0.17, kl=0.0004, risk_gap=0.0011, flips=0)
    compute = ComputeFloor(
        other_dtype="float32",
        batch={"arc": floor, "gsm8k": floor.model_copy(update={"bound": 3.2})},
        dtype={"arc": floor.model_copy(update={"bound": 3.9}), "gsm8k": floor},
        direction_degrees={3: 0.2, 15: 0.4},
    )
    made = Report(
        created="2026-03-14T09:26:53Z",
        hubaudit_version="0.1.0",
        seed=0,
        environment={"python": "3.11.7", "torch": "2.13.0", "device": "cpu", "threads": "2"},
        settings={"limit": 256, "batch_tokens": 8192, "generate": False, "probe": None},
        base=model("org/tiny-135M", 269_060_352, 16, head=False, cls=BaseReport),
        tasks=[
            task("arc", "multiple_choice", "allenai/ai2_arc@210d026", "acc_norm", 256, 3120, 141 / 256),
            task("gsm8k", "answer", "openai/gsm8k@e53f048", "exact_match", 128, 9411, 90 / 128),
        ],
        contrast=ContrastReport(
            name="builtin",
            source="hubaudit's own prompts",
            n_a=96,
            n_b=96,
            layers=list(range(3, 30, 3)),
            monitor_layer=15,
        ),
        compute_floor=compute,
        variants=variants,
        ranking={name: rank(variants, name) for name in ("arc", "gsm8k")},
        ranking_pooled=pool(variants, ("arc", "gsm8k")),
        series=[series("arc", 3), series("gsm8k", 1)],
        findings=[
            Finding(
                id="dataset_replaced",
                severity="notice",
                text="mmlu could not be reached; the built-in set took its place",
                remedy="set HF_ENDPOINT or pass a JSONL file",
            )
        ],
        seconds={"base": 31.0, "variants": 204.0},
    )
    diagnose(made)
    return poison(made) if hostile else made


def rank(variants: list[VariantReport], task: str) -> Ranking:
    blocks = [entry.prism_bound[task] for entry in variants if task in entry.prism_bound]
    predictors = {key: [getattr(block, key) for block in blocks] for key in ("bound", "delta", "logratio_bound")}
    gaps = [None if block.risk_gap is None else abs(block.risk_gap) for block in blocks]
    return ranking(predictors | {"constant": [1.0] * len(gaps)}, gaps)


def pool(variants: list[VariantReport], tasks: tuple[str, ...]) -> PooledRanking:
    blocks = [[entry.prism_bound[name] for entry in variants if name in entry.prism_bound] for name in tasks]
    gaps = [[None if one.risk_gap is None else abs(one.risk_gap) for one in row] for row in blocks]
    return pooled_ranking({"bound": [[one.bound for one in row] for row in blocks]}, gaps)


def series(task: str, n: int) -> Series:
    points = [
        SeriesPoint(
            step=25 * at,
            spec=f"run/checkpoint-{25 * at}",
            bound=2.0 * at,
            omega=0.99,
            risk_gap=0.1 * at - 0.15,
            kl=0.01 * at,
            correctness_agreement=0.9,
        )
        for at in range(1, n + 1)
    ]
    reasons = {} if n > 1 else dict.fromkeys(("spearman", "p_value"), "the series has one checkpoint")
    value = 1.0 if n > 1 else None
    return Series(name="run", task=task, points=points, n=n, spearman=value, p_value=value and 1 / 3, reasons=reasons)


def task(name: str, kind: Any, source: str, metric: str, n: int, tokens: int, accuracy: float) -> TaskReport:
    return TaskReport(
        name=name,
        kind=kind,
        source=source,
        headline_metric=metric,
        n_items=n,
        n_tokens=tokens,
        item_ids=[f"{name}/{index}" for index in range(n)],
        base_accuracy={metric: accuracy},
    )


def poison(report: Report) -> Report:
    """Put the attack into every free string of the report, and into the name of a task."""
    report.base.repo_id = "org/" + HOSTILE
    report.contrast.name = report.contrast.source = report.base.engine = report.created = HOSTILE
    report.settings["probe"] = report.environment["device"] = HOSTILE
    report.ranking = renamed(report.ranking)
    for block in report.series:
        block.name = block.task = HOSTILE
    for found in report.findings:
        found.text, found.remedy = HOSTILE, found.remedy and HOSTILE
    for index, entry in enumerate(report.variants):
        poison_variant(entry, f"org/{index}{HOSTILE}")
    floor = report.compute_floor
    floor.batch, floor.dtype = renamed(floor.batch), renamed(floor.dtype)
    report.tasks[0].name = report.tasks[0].source = report.tasks[0].headline_metric = HOSTILE
    return report


def poison_variant(entry: VariantReport, spec: str) -> None:
    """Put the attack into every free string of a variant; what was null stays null."""
    entry.spec = spec
    if entry.model is not None:
        entry.model.repo_id = entry.model.format = entry.model.notes[0] = spec
        if entry.structure is not None:
            for row in entry.structure.rows:
                row.projection = HOSTILE if row.projection == "q" else row.projection
            entry.structure.not_compared = {HOSTILE: HOSTILE}
    if entry.error is not None:
        entry.error.message = HOSTILE
    for found in entry.findings:
        found.text, found.remedy = HOSTILE, found.remedy and HOSTILE
    for item in [item for items in entry.changed_items.values() for item in items]:
        item.item_id = item.gold = item.base_answer = item.variant_answer = HOSTILE
    for task, bound in entry.prism_bound.items():
        axis, reasons = bound.dominant_axis and HOSTILE, dict.fromkeys(bound.reasons, HOSTILE)
        entry.prism_bound[task] = dataclasses.replace(
            bound,
            dominant_axis=axis,
            dominant_gap=axis,
            k_feat_case=bound.k_feat_case and HOSTILE,
            alignment=HOSTILE,
            reasons=reasons,
        )
    if entry.translation_attenuation is not None:
        verdict = entry.translation_attenuation.verdict and HOSTILE
        entry.translation_attenuation = dataclasses.replace(entry.translation_attenuation, verdict=verdict)
    for name in ("correctness_agreement", "prism_bound", "divergence", "changed_items", "below_floor"):
        setattr(entry, name, renamed(getattr(entry, name)))


def renamed(block: dict[str, Any]) -> dict[str, Any]:
    """The block with the attack in place of the task `arc`, in the same order."""
    return {HOSTILE if key == "arc" else key: value for key, value in block.items()}
