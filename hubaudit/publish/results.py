"""An audit's figures as the Hub's evaluation results, for `model-index` in a card's metadata."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hubaudit.publish.front_matter import SOURCE_NAME
from hubaudit.report.overview import overview
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.text import clean, clip

__all__ = ["model_index_results"]

# `allenai/ai2_arc@<commit> ARC-Challenge test`: dataset, revision, configuration where it has one, split. For
# contrast sets of two datasets the first one, which gives class A. Read from the cache, there is no revision.
_HUB_SOURCE = re.compile(
    r"(?P<id>[\w.-]+/[\w.-]+)@(?:(?P<revision>[0-9a-f]{7,40})|\w+)"
    r"(?:(?: (?P<config>\S+))? (?P<split>[^\s,]+))?(?:, .*)?"
)
_LONGEST_NAME = 120


@dataclass(frozen=True, kw_only=True)
class _Metric:
    type: str
    name: str
    read: Callable[[VariantReport, str], float | None]


_PER_TASK = (
    _Metric(
        type="correctness_agreement",
        name="Correctness agreement with the base (share of its right answers kept, 0 to 1)",
        read=lambda variant, task: _value(variant.correctness_agreement.get(task), "correctness_agreement"),
    ),
    _Metric(
        type="prism_bound",
        name="PRISM bound on the risk gap to the base (nats per token)",
        read=lambda variant, task: _value(variant.prism_bound.get(task), "bound"),
    ),
    _Metric(
        type="divergence",
        name="KL divergence from the base (nats per token)",
        read=lambda variant, task: _value(variant.divergence.get(task), "kl"),
    ),
)
_MONITOR = (
    ("translation", "Translation of a linear monitor's scores (SDs within a class of the base)"),
    ("attenuation", "Attenuation of a linear monitor's scores (share of the class separation lost)"),
)


def model_index_results(report: Report, *, url: str) -> list[dict[str, Any]]:
    """The report's variants as entries of `model-index[].results`: one a task, and one for the contrast set.

    The figures are agreement, bound and divergence by task, the largest rotation of the contrast direction, and
    the monitor's translation and attenuation. Undefined ones are left out, since the Hub takes no null. Where the
    report has several variants, a metric's name begins with the variant's.

    Args:
        report: The report; variants that were not audited to the end are left out.
        url: Where the report can be read, for the results' source.

    Returns:
        Builtin types only: six significant digits, no null, texts of one line.
    """
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    views = [view for view in overview(report).views if view.report.status == "done"]
    found: list[EvalResult] = []

    def add(dataset: dict[str, str], label: str, kind: str, name: str, value: float | None) -> None:
        if value is None:
            return
        found.append(
            EvalResult(
                task_type="text-generation",
                task_name="Text Generation",
                metric_type=kind,
                metric_name=f"{label}: {name}" if len(views) > 1 else name,
                metric_value=float(f"{value:.6g}"),
                source_name=SOURCE_NAME,
                source_url=url,
                **dataset,  # type: ignore[arg-type]  # keywords of several types
            )
        )

    for task in report.tasks:
        scored = _dataset(f"{task.name}, {task.n_items} items", task.name, task.source)
        for view in views:
            for metric in _PER_TASK:
                add(scored, view.label, metric.type, metric.name, metric.read(view.report, task.name))
    contrast = report.contrast
    if contrast is not None:
        name = f"contrast {contrast.name}, {contrast.n_a} + {contrast.n_b} prompts"
        prompts = _dataset(name, contrast.name, contrast.source)
        for view in views:
            add(prompts, view.label, "direction_floor", *_rotation(view.report))
            for key, meaning in _MONITOR:
                value = _value(view.report.translation_attenuation, key)
                add(prompts, view.label, "translation_attenuation", meaning, value)
    if not found:
        return []
    listed: list[dict[str, Any]] = eval_results_to_model_index("any", found)[0]["results"]
    return listed


def _value(result: object, key: str) -> float | None:
    value = getattr(result, key, None)
    return None if value is None else float(value)


def _rotation(variant: VariantReport) -> tuple[str, float | None]:
    """The layer where the direction turned most, and by how much."""
    angles = {
        layer: result.rotation_degrees
        for layer, result in variant.direction_floor.items()
        if result.rotation_degrees is not None
    }
    if not angles:
        return "", None
    layer = max(angles, key=lambda layer: angles[layer])
    return f"Rotation of the contrast direction, largest of {len(angles)} layers: {layer} (degrees)", angles[layer]


def _dataset(name: str, fallback: str, source: str) -> dict[str, str]:
    """Name, id and pin of what was scored; a file of the user's own has no more than a name."""
    hub = _HUB_SOURCE.fullmatch(source)
    if hub is None:
        return {"dataset_name": _short(name), "dataset_type": _short(fallback)}
    known = {f"dataset_{key}": hub[key] for key in ("config", "split", "revision") if hub[key]}
    return {"dataset_name": _short(name), "dataset_type": hub["id"]} | known


def _short(text: str) -> str:
    return clip(clean(text), _LONGEST_NAME)
