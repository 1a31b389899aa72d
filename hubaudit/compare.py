"""Two models' evidence for the same plan -> the estimates of one variant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hubaudit.collect import Evidence, Plan
from hubaudit.collect.plan import Scored
from hubaudit.errors import VariantError
from hubaudit.report.schema import ChangedItem
from hubaudit.stats.correctness_agreement import CorrectnessAgreement, correctness_agreement
from hubaudit.stats.correctness_agreement import changed_items as named_changes
from hubaudit.stats.divergence import Divergence, divergence
from hubaudit.stats.logits import RowStatistics, row_statistics
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_bound import PrismBound, prism_bound, undefined_prism_bound
from hubaudit.tasks import TokenizedItem

__all__ = [
    "Answers",
    "Drift",
    "Weights",
    "changed_items",
    "compare_answers",
    "compare_features",
    "option_log_likelihoods",
    "read_answers",
]

Weights = Literal["item", "token"]
Float64 = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Answers:
    """A model's answers to the items of one task, by metric."""

    by_metric: dict[str, list[int | str]]
    """Index of the chosen option, or the predicted tokens of a forced answer."""
    references: dict[str, list[int | str]]
    """The right ones in the same coding."""


def read_answers(evidence: Evidence) -> list[Answers]:
    """What a model answered, one entry a task.

    Args:
        evidence: Complete evidence.

    Returns:
        For every task of the plan its answers; a corpus has none.
    """
    plan = evidence.plan
    predicted: list[list[str]] = [[""] * len(task.items) for task in plan.tasks]
    for shard in range(len(plan.shards)):
        ids, row = evidence.predicted_ids(shard), 0
        for scored in _options(plan, shard):
            if scored.gold:
                predicted[scored.task][scored.item] = _coded(ids[row : row + len(scored.target_ids)])
                row += len(scored.target_ids)
    scores = option_log_likelihoods(evidence)
    return [_answers(task.kind, task.items, scores[at], predicted[at]) for at, task in enumerate(plan.tasks)]


def option_log_likelihoods(evidence: Evidence) -> list[list[Float64]]:
    """Log-likelihoods in nats by task and item, (options,) each."""
    plan = evidence.plan
    scores = [[np.zeros(len(item.options)) for item in task.items] for task in plan.tasks]
    for shard in range(len(plan.shards)):
        for value, scored in zip(evidence.log_likelihoods(shard), _options(plan, shard), strict=True):
            scores[scored.task][scored.item][scored.option] = value
    return scores


def _options(plan: Plan, shard: int) -> list[Scored]:
    return [scored for sequence in plan.shard_sequences(shard) for scored in sequence.scored]


def _answers(kind: str, items: tuple[TokenizedItem, ...], scores: list[Float64], predicted: list[str]) -> Answers:
    if kind == "multiple_choice":
        lengths = [np.asarray(item.lengths, dtype=np.float64) for item in items]
        gold: list[int | str] = [item.gold for item in items]
        chosen: dict[str, list[int | str]] = {
            "acc": [int(np.argmax(score)) for score in scores],
            "acc_norm": [int(np.argmax(score / length)) for score, length in zip(scores, lengths, strict=True)],
        }
        return Answers(chosen, dict.fromkeys(chosen, gold))
    if kind == "answer":
        forced: list[int | str] = [_coded(item.options[0].target_ids) for item in items]
        return Answers({"exact_match": list(predicted)}, {"exact_match": forced})
    return Answers({}, {})


def _coded(ids: Any) -> str:
    return " ".join(str(int(token)) for token in ids)


def compare_answers(
    base: list[Answers], variant: list[Answers], plan: Plan, *, seed: int
) -> dict[str, dict[str, CorrectnessAgreement]]:
    """Agreement by task and metric; tasks without answers are left out."""
    found: dict[str, dict[str, CorrectnessAgreement]] = {}
    for task, ours, theirs in zip(plan.tasks, base, variant, strict=True):
        subjects = [item.subject for item in task.items]
        for metric, answers in ours.by_metric.items():
            found.setdefault(task.name, {})[metric] = correctness_agreement(
                theirs.by_metric[metric],
                answers,
                ours.references[metric],
                item_ids=[item.item_id for item in task.items],
                subjects=[str(subject) for subject in subjects] if None not in subjects else None,
                seed=seed,
            )
    return found


def changed_items(
    base: list[Answers], variant: list[Answers], plan: Plan, *, decode: Callable[[list[int]], str]
) -> dict[str, list[ChangedItem]]:
    """The items whose answer changed under the headline metric, with both answers in words.

    Args:
        base: The base's answers by task.
        variant: The variant's.
        plan: What was run.
        decode: Token ids -> text.
    """
    kinds: dict[str, Literal["regression", "recovery", "wrong_to_other_wrong"]] = {
        "regressions": "regression",
        "recoveries": "recovery",
        "wrong_to_other_wrong": "wrong_to_other_wrong",
    }
    found: dict[str, list[ChangedItem]] = {}
    for task, ours, theirs in zip(plan.tasks, base, variant, strict=True):
        metric = task.headline_metric
        if metric not in ours.by_metric:
            continue
        answers = ours.by_metric[metric], theirs.by_metric[metric], ours.references[metric]
        indices = named_changes(answers[1], answers[0], answers[2], list(range(len(task.items))))
        changes = []
        for name, kind in kinds.items():
            for index in (int(str(one)) for one in indices[name]):
                shown = [_shown(column[index], task.items[index], decode) for column in answers]
                changes.append(
                    ChangedItem(
                        item_id=task.items[index].item_id,
                        base_answer=shown[0],
                        variant_answer=shown[1],
                        gold=shown[2],
                        kind=kind,
                    )
                )
        found[task.name] = changes
    return found


def _shown(answer: int | str, item: TokenizedItem, decode: Callable[[list[int]], str]) -> str:
    if isinstance(answer, int):
        return item.labels[answer]
    return decode([int(token) for token in answer.split()]).strip()


@dataclasses.dataclass(frozen=True)
class Drift:
    """How far a variant's features and distributions are from the base's on one task."""

    bound: PrismBound
    """With both models' features as they are."""
    divergence: Divergence
    """Of the next-token distributions."""
    procrustes: PrismBound | None
    """With the variant's features rotated onto the base's as well as a rotation can; None where not asked for."""


def compare_features(
    base: Evidence, variant: Evidence, *, weights: Weights, k_feat: float | None = None, procrustes: bool = False
) -> dict[str, Drift]:
    """Bound and divergence of every task, in one pass over the stored features.

    Args:
        base: The base's evidence.
        variant: The variant's evidence for the same plan.
        weights: Whether items or tokens weigh the same.
        k_feat: The base head's diameter, where it is known already.
        procrustes: Whether the bound under the best rotation is wanted beside the plain one.

    Returns:
        The blocks by task.

    Raises:
        VariantError: If the two heads have no token in common.
    """
    plan = base.plan
    base_head, variant_head = base.head(), variant.head()
    if base.head_digest == variant.head_digest and base_head.same_map(variant_head):
        variant_head = base_head
    n_common = min(base_head.n_rows, variant_head.n_rows)
    if plan.max_token_id >= n_common:
        raise VariantError(
            f"the variant's head has {variant_head.n_rows} tokens, but token id {plan.max_token_id} is scored; "
            "the vocabularies do not match"
        )
    same_width = base_head.width == variant_head.width
    moments = [PrismMoments(base_head.width) for _ in plan.tasks]
    rows: list[list[RowStatistics]] = [[] for _ in plan.tasks]
    item_ids: list[list[npt.NDArray[np.int64]]] = [[] for _ in plan.tasks]
    row_weights: list[list[Float64]] = [[] for _ in plan.tasks]
    for shard in range(len(plan.shards)):
        where = plan.shard_rows(shard)
        if not len(where.label):
            continue
        z_base, z_variant = base.features(shard), variant.features(shard)
        statistics = row_statistics(z_base, z_variant, base_head, variant_head, where.label, n_common=n_common)
        for index in np.unique(where.task):
            mine = np.flatnonzero(where.task == index)
            weight = _row_weights(plan, int(index), where.item[mine], weights)
            if same_width:
                moments[index].update(z_base[mine], z_variant[mine], weight)
            rows[index].append(statistics.take(mine))
            item_ids[index].append(where.item[mine])
            row_weights[index].append(weight)
    found = {}
    for index, task in enumerate(plan.tasks):
        if not rows[index]:
            continue
        all_rows, items = RowStatistics.concat(rows[index]), np.concatenate(item_ids[index])
        weight = np.concatenate(row_weights[index])
        by_alignment = {}
        for alignment in ("identity", "procrustes") if procrustes else ("identity",):
            if same_width:
                by_alignment[alignment] = prism_bound(
                    moments[index],
                    base_head.narrow(n_common),
                    variant_head if variant_head is base_head else variant_head.narrow(n_common),
                    rows=all_rows,
                    row_weights=weight,
                    item_ids=items,
                    weights=weights,
                    alignment=alignment,
                    k_feat=k_feat if n_common == base_head.n_rows else None,
                )
            else:
                by_alignment[alignment] = undefined_prism_bound(
                    f"base and variant have features of different width, {base_head.width} and {variant_head.width}",
                    alignment=alignment,
                )
        found[task.name] = Drift(
            bound=by_alignment["identity"],
            divergence=divergence(all_rows, items, weight),
            procrustes=by_alignment.get("procrustes"),
        )
    return found


def _row_weights(plan: Plan, task: int, items: npt.NDArray[np.int64], weights: Weights) -> Float64:
    """`item`: 1 / (items x tokens of the item), `token`: 1 / tokens of the task."""
    all_items = plan.tasks[task].items
    if weights == "token":
        return np.full(len(items), 1.0 / plan.tasks[task].n_gold_tokens)
    lengths = np.asarray([len(item.options[item.gold].target_ids) for item in all_items], dtype=np.float64)
    return np.asarray(1.0 / (len(all_items) * lengths[items]))
