"""A few items of a variant run again, in the batches of the audit, and compared with what it says."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hubaudit.collect import Evidence, EvidenceStore, Plan
from hubaudit.compare import option_log_likelihoods, read_answers
from hubaudit.errors import HubAuditError
from hubaudit.load import ModelSource, content_id
from hubaudit.report.schema import Report, VariantReport
from hubaudit.verify.check import Check, Checks
from hubaudit.verify.replay import NO_EVIDENCE, Replay, settings_of, variant_specs

if TYPE_CHECKING:
    from hubaudit.progress import Progress

__all__ = ["check_rerun"]

# Nats a target token: other kernels and thread counts explain this much, on another machine than the audit's.
TOLERANCE = {"float32": 2e-3, "bfloat16": 0.25, "float16": 0.05}
NAME = "items run again"


def check_rerun(
    report: Report, *, n_items: int, variants: list[str], cache_dir: Path | None, progress: Progress
) -> list[Check]:
    """Run seeded items of base and variants again and compare answers and log-likelihoods.

    Args:
        report: The report.
        n_items: Items a task.
        variants: Which variants, as the report names them.
        cache_dir: Where evidence is kept, or None for the user's cache folder.
        progress: Is told of the steps.

    Returns:
        For each variant and task a statement on the answers, and where the audit's evidence is cached one on the
        log-likelihoods. What cannot be run is skipped with its reason.
    """
    checks = Checks("report")
    specs = variant_specs(report)
    try:
        replay = Replay(settings_of(report, cache_dir=cache_dir), progress)
        chosen = _choose(replay.plan, n_items, report.seed)
        part = _part(replay.plan, chosen)
        with tempfile.TemporaryDirectory(prefix="hubaudit-rerun-") as folder:
            store = EvidenceStore(Path(folder))
            base = _run(replay, replay.base, part, store)
            stored = replay._open(replay.plan, replay.base, replay.base_id, replay.base_id)
            _likelihoods(checks.at("base"), replay.plan, chosen, base, stored, report.base.dtype)
            for variant in report.variants:
                if variant.spec not in variants:
                    continue
                here = checks.at(variant.spec)
                if variant.spec not in specs:
                    here.skip(NAME, "the report holds no figures of it")
                    continue
                _variant(here, replay, variant, specs[variant.spec], (part, chosen, store, base))
    except HubAuditError as exc:
        checks.skip(NAME, str(exc))
    return checks.found


def _variant(
    checks: Checks,
    replay: Replay,
    variant: VariantReport,
    spec: str,
    sample: tuple[Plan, list[list[int]], EvidenceStore, Evidence],
) -> None:
    part, chosen, store, base = sample
    try:
        source = replay.source(spec)
        content = content_id(source)
        if variant.model is not None:
            checks.same("the files are those of the report", content, variant.model.content_id)
        again = _run(replay, source, part, store)
    except HubAuditError as exc:
        checks.skip(NAME, str(exc))
        return
    stored = replay.stored(source, content)
    dtype = variant.model.dtype if variant.model is not None else "float32"
    _likelihoods(checks, replay.plan, chosen, again, stored, dtype)
    _answers(checks, variant, part, chosen, base, again)


def _choose(plan: Plan, n_items: int, seed: int) -> list[list[int]]:
    """Items of each task, a seeded sample."""
    rng = np.random.default_rng(seed)
    sizes = [len(task.items) for task in plan.tasks]
    return [sorted(rng.choice(size, size=min(size, n_items), replace=False).tolist()) for size in sizes]


def _part(plan: Plan, chosen: list[list[int]]) -> Plan:
    """The batches of the plan that hold a chosen item, whole, so that nothing else in them changes."""
    wanted = {(task, item) for task, items in enumerate(chosen) for item in items}
    batches = [
        batch
        for shard in plan.shards
        for batch in shard
        if any((one.task, one.item) in wanted for row in plan.sequences[batch[0] : batch[1]] for one in row.scored)
    ]
    return dataclasses.replace(plan, shards=tuple((batch,) for batch in batches))


def _run(replay: Replay, source: ModelSource, part: Plan, store: EvidenceStore) -> Evidence:
    entry = store.open(part, {"spec": source.spec})
    if entry.complete:
        return entry
    replay.progress.say(f"running a sample of {source.spec}")
    replay.rerun(source, entry, store)
    return entry


def _likelihoods(
    checks: Checks, plan: Plan, chosen: list[list[int]], again: Evidence, stored: Evidence, dtype: str
) -> None:
    name = "log-likelihoods = the evidence's"
    if not stored.complete:
        checks.skip(name, NO_EVIDENCE)
        return
    ours, theirs = option_log_likelihoods(again), option_log_likelihoods(stored)
    for at, task in enumerate(plan.tasks):
        worst, limit = 0.0, TOLERANCE[dtype.removeprefix("torch.")]
        for item in chosen[at]:
            tokens = np.asarray([len(option.target_ids) for option in task.items[item].options], dtype=np.float64)
            worst = max(worst, float((np.abs(ours[at][item] - theirs[at][item]) / tokens).max()))
        checks.at(f"{checks.where}, {task.name}").near(f"{name}, nats a token", worst, 0.0, tol=limit)


def _answers(
    checks: Checks, variant: VariantReport, part: Plan, chosen: list[list[int]], base: Evidence, again: Evidence
) -> None:
    """Whether the items that changed are those that the report names."""
    ours, theirs = read_answers(base), read_answers(again)
    for at, task in enumerate(part.tasks):
        metric = task.headline_metric
        if metric not in ours[at].by_metric or task.name not in variant.changed_items:
            continue
        named = {change.item_id: change.kind for change in variant.changed_items[task.name]}
        got, expected = {}, {}
        for item in chosen[at]:
            one = (ours[at].by_metric[metric][item], theirs[at].by_metric[metric][item])
            kind = _kind(*one, ours[at].references[metric][item])
            item_id = task.items[item].item_id
            if kind != named.get(item_id, "unchanged") and _close_call(at, item, task.kind, base, again):
                checks.at(f"{checks.where}, {task.name}").skip(
                    f"answer to {item_id}", "two options tie within rounding"
                )
                continue
            got[item_id], expected[item_id] = named.get(item_id, "unchanged"), kind
        checks.at(f"{checks.where}, {task.name}").fields("changed answers = those run again", got, expected)


def _kind(base: Any, variant: Any, gold: Any) -> str:
    if base == variant:
        return "unchanged"
    if base == gold:
        return "regression"
    return "recovery" if variant == gold else "wrong_to_other_wrong"


def _close_call(task: int, item: int, kind: str, *entries: Evidence) -> bool:
    """Whether the two best options of an item lie within what rounding explains, in either model."""
    if kind != "multiple_choice":
        return False
    for entry in entries:
        options = entry.plan.tasks[task].items[item]
        scores = option_log_likelihoods(entry)[task][item]
        lengths = np.asarray(options.lengths, dtype=np.float64)
        limit = TOLERANCE[entry.facts.dtype.removeprefix("torch.")]
        if min(_lead(scores), _lead(scores / lengths) * float(lengths.min())) <= limit:
            return True
    return False


def _lead(scores: Any) -> float:
    ordered = np.sort(scores)
    return float(ordered[-1] - ordered[-2])
