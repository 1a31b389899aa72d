"""Which variants an audit compares: those the user named, what their patterns stand for, and those discovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubaudit.errors import InputError
from hubaudit.hub.discover import DEFAULT_MAX_VARIANTS, discover
from hubaudit.hub.expand import expand_variants
from hubaudit.report.schema import Finding

if TYPE_CHECKING:
    from hubaudit.hub.source import ModelSource
    from hubaudit.progress import Progress
    from hubaudit.settings import AuditSettings

__all__ = ["choose_variants"]

_SHOWN = 5


def choose_variants(
    settings: AuditSettings, base: ModelSource, progress: Progress
) -> tuple[tuple[str, ...], list[Finding]]:
    """Expand `id:*` and folders of checkpoints, and add what `--discover` finds.

    Args:
        settings: The audit's settings.
        base: The resolved base.
        progress: Is told what was found.

    Returns:
        References, each once, and findings on what was left out.

    Raises:
        InputError: If a pattern stands for nothing, or the base is no Hub repo and `discover` is set.
        AccessError: If the Hub cannot be asked.
    """
    specs = expand_variants(settings.variants, base)
    if not settings.discover:
        return tuple(specs), []
    if base.repo_id is None:
        raise InputError(f"{base.spec}: --discover needs a base on the Hub, but got a local folder; name the variants")
    found = discover(
        f"{base.repo_id}@{base.revision}" if base.revision else base.repo_id,
        max_variants=settings.max_variants or DEFAULT_MAX_VARIANTS,
        formats=settings.formats or None,
        max_size=settings.max_size,
        progress=progress,
    )
    progress.say(f"{len(found.rows)} children of {base.repo_id}, {len(found.chosen)} to audit:")
    for spec in found.chosen:
        progress.say(f"  {spec}")
    for note in found.notes:
        progress.say(note)
    findings = []
    if not found.chosen:
        text = f"--discover found no variant of {base.repo_id} that can be audited"
        findings.append(Finding(id="none_discovered", severity="warning", text=text))
    if found.left_out:
        reasons = "; ".join(f"{one.spec}: {one.reason}" for one in found.left_out[:_SHOWN])
        more = f"; and {len(found.left_out) - _SHOWN} more" if len(found.left_out) > _SHOWN else ""
        text = f"{len(found.left_out)} of {len(found.rows)} children were left out: {reasons}{more}"
        remedy = "`hubaudit variants` lists them all; name those that you want"
        findings.append(Finding(id="children_left_out", severity="info", text=text, remedy=remedy))
    return tuple(dict.fromkeys([*specs, *found.chosen])), findings
