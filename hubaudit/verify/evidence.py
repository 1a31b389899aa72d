"""Every figure computed again from the cached evidence, and compared with the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubaudit.errors import HubAuditError
from hubaudit.report.schema import Report, VariantReport
from hubaudit.verify.check import Check, Checks
from hubaudit.verify.replay import NO_EVIDENCE, StoredOnly, settings_of, variant_specs

if TYPE_CHECKING:
    from hubaudit.progress import Progress

__all__ = ["check_evidence"]

REL = 1e-7
"""Sums in double precision move by less with the number of threads; the evidence itself is the same bytes."""
NAME = "figures from the evidence"
# Names and times, not figures; spec is another spelling of the same pinned files.
NOT_COMPARED = ("spec", "seconds", "tokenizer", "structure")
BLOCKS = (
    "correctness_agreement",
    "agreement_by_metric",
    "prism_bound",
    "prism_bound_procrustes",
    "divergence",
    "direction_floor",
    "translation_attenuation",
    "monitor",
    "engine_split",
    "below_floor",
    "changed_items",
    "model",
)


def check_evidence(report: Report, *, cache_dir: Path | None, progress: Progress) -> list[Check]:
    """Run the audit's statistics again on the stored features; no model is loaded.

    Args:
        report: The report.
        cache_dir: Where evidence is kept, or None for the user's cache folder.
        progress: Is told of the steps.

    Returns:
        One entry a block that agrees, and one for each figure that does not. What has no evidence is skipped.
    """
    checks = Checks("report")
    try:
        again = StoredOnly(settings_of(report, cache_dir=cache_dir), progress).run()
    except HubAuditError as exc:
        checks.skip(NAME, str(exc))
        return checks.found
    _same(checks.at("base"), "base", report.base, again.base)
    for ours, theirs in zip(report.tasks, again.tasks, strict=False):
        _same(checks.at(f"task {ours.name}"), "task", ours, theirs)
    _same(checks.at("contrast"), "contrast", report.contrast, again.contrast)
    _same(checks.at("compute floor"), "compute floor", report.compute_floor, again.compute_floor)
    found = {variant.spec: variant for variant in again.variants}
    specs = variant_specs(report)
    complete = True
    for variant in report.variants:
        here = checks.at(variant.spec)
        if variant.spec not in specs:
            here.skip(NAME, "the report holds no figures of it")
            continue
        other = found[specs[variant.spec]]
        if other.error is not None:
            complete = False
            here.skip(NAME, NO_EVIDENCE if NO_EVIDENCE in other.error.message else other.error.message)
            continue
        for block in BLOCKS:
            here.fields(f"{block} from the evidence", _block(variant, block), _block(other, block), rel=REL)
    # Findings and ranks are over all variants of an audit.
    if complete and report.ranking:
        for variant in report.variants:
            if variant.spec in specs:
                said, follows = (_block(each, "findings") for each in (variant, found[specs[variant.spec]]))
                checks.at(variant.spec).fields("findings from the evidence", said, follows, rel=REL)
    if complete and report.ranking:
        got, expected = ({task: one.to_dict() for task, one in each.ranking.items()} for each in (report, again))
        checks.at("ranking").fields("ranking from the evidence", got, expected, rel=REL)
        pooled = [one and one.to_dict() for one in (report.ranking_pooled, again.ranking_pooled)]
        checks.at("ranking").fields("pooled ranking from the evidence", {"": pooled[0]}, {"": pooled[1]}, rel=REL)
    else:
        checks.at("ranking").skip(NAME, "it is over all variants of an audit, and not all are here")
    return checks.found


def _same(checks: Checks, name: str, got: Any, expected: Any) -> None:
    checks.fields(f"{name} from the evidence", _plain(got), _plain(expected), rel=REL)


def _plain(value: Any) -> dict[str, Any]:
    """A block as JSON holds it, without what is no figure."""
    if value is None:
        return {}
    content: dict[str, Any] = value.model_dump(mode="json")
    return {key: part for key, part in content.items() if key not in NOT_COMPARED}


def _block(variant: VariantReport, name: str) -> dict[str, Any]:
    content = variant.model_dump(mode="json", include={name})[name]
    if name == "model":
        content = {key: part for key, part in content.items() if key not in NOT_COMPARED}
    return {"": content}
