"""What was audited, as the report records it: the models, the tasks, the contrast set."""

from __future__ import annotations

import dataclasses

from hubaudit.collect import Evidence, Plan
from hubaudit.compare import Answers
from hubaudit.hub.source import ModelSource
from hubaudit.report.schema import ContrastReport, HeadReport, ModelReport, TaskReport, TokenizerReport
from hubaudit.tasks import ContrastSet
from hubaudit.tasks.vocabulary import TokenizerComparison

__all__ = ["contrast_report", "model_report", "task_reports"]

_FACTS = (
    "content_id",
    "format",
    "engine",
    "dtype",
    "n_parameters",
    "quantized_fraction",
    "bits_per_weight",
    "size_bytes",
    "weight_error",
)


def model_report(source: ModelSource, evidence: Evidence, tokenizer: TokenizerComparison | None = None) -> ModelReport:
    """A model from its stored evidence.

    Args:
        source: What was loaded.
        evidence: What it left.
        tokenizer: A variant's own tokenizer beside the base's.
    """
    facts, head = evidence.facts, evidence.head()
    return ModelReport(
        spec=source.spec,
        repo_id=source.repo_id,
        revision=source.revision,
        head=HeadReport(
            vocabulary=head.n_rows,
            width=head.width,
            bias=head.bias is not None,
            scale=facts.head_scale,
            softcap=facts.head_softcap,
            tied=facts.head_tied,
            quantized=facts.head_quantized,
            check_max_difference=facts.check_max_difference,
            check_tolerance=facts.check_tolerance,
        ),
        tokenizer=None if tokenizer is None else TokenizerReport(**dataclasses.asdict(tokenizer)),
        notes=list(facts.notes),
        **{key: getattr(facts, key) for key in _FACTS},
    )


def task_reports(plan: Plan, answers: list[Answers]) -> list[TaskReport]:
    """The tasks with the base's accuracies; `answers` are the base's, one entry a task."""
    return [
        TaskReport(
            name=task.name,
            kind=task.kind,
            source=task.source,
            headline_metric=task.headline_metric,
            n_items=len(task.items),
            n_tokens=task.n_gold_tokens,
            item_ids=[item.item_id for item in task.items],
            base_accuracy=_accuracies(given),
        )
        for task, given in zip(plan.tasks, answers, strict=True)
    ]


def contrast_report(contrast: ContrastSet, plan: Plan, monitor_layer: int) -> ContrastReport:
    """The contrast set and where it was read."""
    return ContrastReport(
        name=contrast.name,
        source=contrast.source,
        n_a=len(contrast.prompts_a),
        n_b=len(contrast.prompts_b),
        layers=list(plan.layers),
        monitor_layer=monitor_layer,
    )


def _accuracies(answers: Answers) -> dict[str, float]:
    return {
        metric: sum(a == b for a, b in zip(given, answers.references[metric], strict=True)) / len(given)
        for metric, given in answers.by_metric.items()
    }
