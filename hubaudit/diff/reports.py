"""Two reports -> what got better, what got worse, and what cannot be compared."""

from __future__ import annotations

import dataclasses

from hubaudit.diff.rows import Row, compare_variants
from hubaudit.report.schema import Report, VariantReport

__all__ = ["Difference", "compare_reports"]

_SETTINGS = ("limit", "batch_tokens", "weights", "dtype", "alignment")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """What changed between two audits."""

    warnings: list[str]
    """Why figures of the two do not compare, a line each."""
    rows: list[Row]
    """Figures of the variants that are in both."""
    added: list[str]
    """Variants that only the new report has."""
    gone: list[str]
    """Variants that only the old report has."""
    renamed: list[tuple[str, str]]
    """The same content under another reference: old, new."""
    new_findings: list[tuple[str, str]]
    """Variant and finding that only the new report has, with its text."""
    gone_findings: list[tuple[str, str]]
    """Variant and finding that only the old report had."""

    @property
    def worse(self) -> list[Row]:
        """Figures that got worse."""
        return [row for row in self.rows if row.outcome == "worse"]


def compare_reports(old: Report, new: Report) -> Difference:
    """Compare two audits.

    Variants are matched by their reference without its revision; one that is left over on both sides with the same
    content is a renamed one.

    Args:
        old: The older report.
        new: The newer one.

    Returns:
        The difference. Where the bases differ, no row claims better or worse.
    """
    warnings, same_items = _comparable(old, new)
    before, after = ({_name(variant): variant for variant in report.variants} for report in (old, new))
    pairs = [(before[name], after[name]) for name in after if name in before]
    left = [variant for name, variant in before.items() if name not in after]
    added: list[VariantReport] = []
    renamed = []
    for variant in (variant for name, variant in after.items() if name not in before):
        same = next((one for one in left if _content(one) and _content(one) == _content(variant)), None)
        if same is None:
            added.append(variant)
            continue
        left.remove(same)
        pairs.append((same, variant))
        renamed.append((same.spec, variant.spec))
    same_base = old.base.content_id == new.base.content_id
    rows = [row for pair in pairs for row in compare_variants(*pair, same_items=same_items)]
    if not same_base:
        rows = [dataclasses.replace(row, outcome="not comparable", rule="another base") for row in rows]
    found = [
        {
            (at, one.id, one.task, one.layer): f"{one.id}: {one.text}"
            for at, pair in enumerate(pairs)
            for one in pair[side].findings
        }
        for side in (0, 1)
    ]
    new_keys, gone_keys = (
        [key for key in found[1] if key not in found[0]],
        [key for key in found[0] if key not in found[1]],
    )
    return Difference(
        warnings=warnings,
        rows=rows,
        added=[variant.spec for variant in added],
        gone=[variant.spec for variant in left],
        renamed=renamed,
        new_findings=[(pairs[key[0]][1].spec, found[1][key]) for key in new_keys],
        gone_findings=[(pairs[key[0]][1].spec, found[0][key]) for key in gone_keys],
    )


def _comparable(old: Report, new: Report) -> tuple[list[str], set[str]]:
    """Warnings, and the tasks whose figures compare."""
    warnings = []
    if old.base.content_id != new.base.content_id:
        warnings.append(f"another base: {old.base.spec} and {new.base.spec}; no figure compares")
    if old.seed != new.seed:
        warnings.append(f"another seed: {old.seed} and {new.seed}; samples and intervals are drawn anew")
    for key in _SETTINGS:
        ours, theirs = old.settings.get(key), new.settings.get(key)
        if ours != theirs:
            warnings.append(f"another {key}: {ours} and {theirs}; small differences come from that alone")
    if old.base.dtype != new.base.dtype:
        warnings.append(f"another number format: {old.base.dtype} and {new.base.dtype}")
    tasks = {task.name: task for task in old.tasks}
    same = set()
    for task in new.tasks:
        other = tasks.pop(task.name, None)
        if other is None:
            warnings.append(f"task {task.name} is only in the new report")
        elif (other.item_ids, other.source, other.headline_metric) != (
            task.item_ids,
            task.source,
            task.headline_metric,
        ):
            warnings.append(f"task {task.name} has other items, another source or another metric; it does not compare")
        elif old.settings.get("weights") == new.settings.get("weights"):
            same.add(task.name)
    warnings += [f"task {name} is only in the old report" for name in tasks]
    return warnings, same


def _name(variant: VariantReport) -> str:
    return _plain(variant.spec)


def _plain(spec: str) -> str:
    """The reference without its revision: `org/name@rev:file` -> `org/name:file`."""
    head, at, tail = spec.partition("@")
    if not at or "/" not in head or ":" in head:
        return spec
    return head + (":" + tail.partition(":")[2] if ":" in tail else "")


def _content(variant: VariantReport) -> str | None:
    return variant.model.content_id if variant.model is not None else None
