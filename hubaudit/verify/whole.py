"""What concerns a report as a whole: models, repeated figures of the base, ranking, findings, reasons."""

from __future__ import annotations

from typing import Any

from hubaudit.diagnose import diagnose
from hubaudit.errors import InputError
from hubaudit.rank import pool_ranks, rank_variants
from hubaudit.report.schema import Report, VariantReport
from hubaudit.series import find_series
from hubaudit.stats.result import Result
from hubaudit.verify.agreement import check_agreement
from hubaudit.verify.check import Check, Checks
from hubaudit.verify.direction import check_direction, check_monitor
from hubaudit.verify.drift import check_drift

__all__ = ["check_identities"]

CORRECTED = ("accuracy_drop", "answers_changed", "small_sample")


def check_identities(report: Report) -> list[Check]:
    """Check everything that follows from the report alone.

    Args:
        report: A report of the current schema.

    Returns:
        One entry a statement.
    """
    checks = Checks("report")
    _model(report.base, checks.at("base"))
    for task in report.tasks:
        here = checks.at(f"task {task.name}")
        here.same("n_items = number of item ids", task.n_items, len(task.item_ids))
        here.same("item ids are named once", len(set(task.item_ids)), len(task.item_ids))
        for metric, value in task.base_accuracy.items():
            here.near(
                f"{metric} is a whole number of items", value * task.n_items, round(value * task.n_items), tol=1e-6
            )
    for variant in report.variants:
        here = checks.at(variant.spec)
        here.same("status and error fit", variant.status == "done", variant.error is None)
        if variant.model is not None:
            _model(variant.model, here)
        check_agreement(report, variant, here)
        check_drift(report, variant, here)
        check_direction(report, variant, here)
        check_monitor(report, variant, here)
        _reasons(variant, here)
    _base_figures(report, checks.at("base"))
    _floor(report, checks.at("compute floor"))
    _ranking(report, checks.at("ranking"))
    _findings(report, checks)
    return checks.found


def _model(model: Any, checks: Checks) -> None:
    stored = model.bits_per_weight * model.n_parameters / 8
    checks.near("size = parameters x bits per weight", model.size_bytes, stored, rel=1e-12, tol=0.51)
    checks.between("quantized_fraction is a share", model.quantized_fraction, 0.0, 1.0)
    checks.at_most("the head's map is the model's own", model.head.check_max_difference, model.head.check_tolerance)
    if model.weight_error is not None:
        checks.between("the weight error is not negative", model.weight_error, 0.0, None)


def _base_figures(report: Report, checks: Checks) -> None:
    """What describes the base alone is the same beside every variant."""
    same_rows = [
        variant
        for variant in report.variants
        if variant.model is not None and variant.model.head.vocabulary >= report.base.head.vocabulary
    ]
    seen: dict[tuple[str, str], float | None] = {}
    for variant in same_rows:
        for task, bound in variant.prism_bound.items():
            complete = variant.divergence.get(task)
            if bound.bound is None or complete is None or complete.n_nonfinite:
                continue
            for key in ("k_feat", "rho_base", "risk_base"):
                place = "all tasks" if key == "k_feat" else task
                value = getattr(bound, key)
                checks.near(f"{key} of {place} beside {variant.spec}", value, seen.setdefault((place, key), value))
    for variant in report.variants:
        for layer, block in variant.direction_floor.items():
            for key in ("rho_naive", "rho", "base_null_mean", "base_null_sd", "n_splits"):
                value = getattr(block, key)
                first = seen.setdefault((str(layer), key), value)
                checks.near(f"{key} of layer {layer} beside {variant.spec}", value, first)
        if variant.monitor is not None:
            for at, score in enumerate(variant.monitor.base_scores):
                first = seen.setdefault(("monitor", str(at)), score)
                if score != first:
                    checks.near(f"decision value {at} beside {variant.spec}", score, first)
        block_ta = variant.translation_attenuation
        if block_ta is not None and variant.monitor is not None:
            key = "accuracy_base_refit_probe"
            value = getattr(block_ta, key)
            checks.near(f"{key} beside {variant.spec}", value, seen.setdefault(("monitor", key), value))


def _floor(report: Report, checks: Checks) -> None:
    if report.compute_floor is None:
        return
    for way in ("batch", "dtype"):
        for task, floor in getattr(report.compute_floor, way).items():
            here = checks.at(f"compute floor, {way}, {task}")
            for key in ("bound", "d_mean_square", "kl", "risk_gap"):
                here.between(f"{key} is not negative", getattr(floor, key), 0.0, None)
            here.at_most("the risk gap is at most the bound", floor.risk_gap, floor.bound)
            flips = floor.flips
            here.at_most("flips are at most the items", flips, floor.n_items)


def _ranking(report: Report, checks: Checks) -> None:
    tasks = [task.name for task in report.tasks]
    again = rank_variants(report.variants, tasks)
    if again and not report.ranking:
        # A published part of a report leaves out what speaks of all variants.
        checks.skip("rank correlations from the figures", "this part of an audit holds no ranking")
        return
    got = {task: block.to_dict() for task, block in report.ranking.items()}
    checks.fields("rank correlations from the figures", got, {task: block.to_dict() for task, block in again.items()})
    pooled = [one and one.to_dict() for one in (report.ranking_pooled, pool_ranks(report.variants, tasks))]
    checks.fields("pooled rank correlations from the figures", {"": pooled[0]}, {"": pooled[1]})
    series = [[one.model_dump() for one in each] for each in (report.series, find_series(report.variants, tasks))]
    checks.fields("series of checkpoints from the figures", {"": series[0]}, {"": series[1]})


def _findings(report: Report, checks: Checks) -> None:
    again = report.model_copy(deep=True)
    try:
        diagnose(again)
    except InputError as exc:
        checks.same("findings can be drawn from the figures", str(exc), "")
        return
    complete = bool(report.ranking) or not rank_variants(report.variants, [task.name for task in report.tasks])
    if not complete:
        checks.skip("findings on accuracy", "Holm's correction is over all variants of an audit, this is a part of it")
    for ours, theirs in zip(report.variants, again.variants, strict=True):
        here = checks.at(ours.spec)
        got, expected = (
            [one.model_dump() for one in variant.findings if complete or one.id not in CORRECTED]
            for variant in (ours, theirs)
        )
        here.same("number of findings", len(got), len(expected))
        for said, follows in zip(got, expected, strict=False):
            here.fields("findings follow from the figures", said, follows)
        here.same("figures below the floor follow", ours.below_floor, theirs.below_floor)


def _reasons(variant: VariantReport, checks: Checks) -> None:
    """An undefined figure has a reason, a defined one has none."""
    blocks: list[tuple[str, Result | None]] = [("monitor", variant.translation_attenuation)]
    for name in ("correctness_agreement", "prism_bound", "divergence", "direction_floor"):
        blocks += [(f"{name}.{where}", block) for where, block in getattr(variant, name).items()]
    for where, block in blocks:
        if block is None:
            continue
        bare = [key for key, value in block.to_dict().items() if value is None and key not in block.reasons]
        checks.same(f"{where}: every undefined figure has a reason", bare, [])
