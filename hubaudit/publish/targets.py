"""Which part of a report belongs into which repo, and what must not leave this machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hubaudit.errors import InputError
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.text import clean

__all__ = ["Target", "Targets", "choose_targets", "part_of"]

MADE_ON_THE_SPOT = re.compile(r"(bnb|rtn):\S+")
_LOCAL_PATH = re.compile(r"(?:[/~]|\.{1,2}/|[A-Za-z]:[\\/]).+", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One repo and the part of the report on the variants that lie in it."""

    repo_id: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Where a report is published."""

    targets: list[Target]
    skipped: list[tuple[str, str]]
    """Variants that are published nowhere, with the reason."""


def choose_targets(report: Report, *, repo: str | None = None, variants: Sequence[str] = ()) -> Targets:
    """The repos that a report is published to.

    Args:
        report: A whole report.
        repo: One of the report's repos, to publish there only; or, for variants that were audited from local
            files, the repo that they are uploaded to.
        variants: References of the variants to publish, as in the report; all by default.

    Returns:
        One target a repo, in the order of the report. Variants made on the spot, failed ones, and those in the
        base's own repo are skipped, unless `repo` names the latter.

    Raises:
        InputError: If nothing can be published, or a name is not in the report, or a repo id is malformed.
    """
    known = [variant.spec for variant in report.variants]
    if unknown := [spec for spec in variants if spec not in known]:
        raise InputError(
            f"--variant {_shown(unknown[0])} is not in this report; it holds: {', '.join(map(_shown, known)) or 'none'}"
        )
    if repo is not None:
        _check_id(repo)
    by_repo: dict[str, list[VariantReport]] = {}
    skipped: list[tuple[str, str]] = []
    for variant in report.variants:
        if variants and variant.spec not in variants:
            continue
        place, reason = _place(report, variant, repo)
        if place is None:
            skipped.append((variant.spec, reason))
        else:
            by_repo.setdefault(place, []).append(variant)
    if repo is not None:
        # A repo of the report takes what was read from it; only a repo that is not in it takes local files.
        from_hub = [entry for entry in by_repo.get(repo, []) if _repo_of(entry) == repo]
        by_repo = {repo: from_hub or by_repo.get(repo, [])}
    by_repo = {repo_id: entries for repo_id, entries in by_repo.items() if entries}
    if not by_repo:
        reasons = "; ".join(f"{_shown(spec)}: {reason}" for spec, reason in skipped)
        raise InputError(f"nothing to publish: {reasons or 'the report has no variants'}")
    for repo_id in by_repo:
        _check_id(repo_id)
    targets = [
        Target(repo_id=repo_id, report=part_of(report, {entry.spec for entry in entries}))
        for repo_id, entries in by_repo.items()
    ]
    return Targets(targets=targets, skipped=skipped)


def part_of(report: Report, specs: Collection[str]) -> Report:
    """The part of a report on some variants, without the folders of this machine.

    Figures stay as they are. What speaks of all variants (ranking, series, times) is left out, and a path keeps only
    its last name, wherever it occurs: it tells others nothing, and may hold the user's name.
    """
    part = report.model_copy(
        update={
            "variants": [variant for variant in report.variants if variant.spec in specs],
            "ranking": {},
            "ranking_pooled": None,
            "series": [],
            "seconds": {},
        }
    )
    folders = _folders(report)
    if not folders:
        return part
    pattern = re.compile("|".join(re.escape(folder) for folder in folders))
    return Report.model_validate_json(Report.model_validate(_without(part.model_dump(), pattern)).to_json())


def _place(report: Report, variant: VariantReport, repo: str | None) -> tuple[str | None, str]:
    """The variant's repo, or None with the reason."""
    if MADE_ON_THE_SPOT.fullmatch(variant.spec):
        return None, "made on the spot from the base, so it is in no repo"
    if variant.status != "done":
        return None, f"{variant.status}, so its figures are not complete"
    own = _repo_of(variant)
    if own is None:
        return (repo, "") if repo else (None, "read from local files; name its repo with --repo")
    if repo is not None and own != repo:
        return None, f"in the repo {_shown(own)}, not in {repo}"
    if repo is None and own == report.base.repo_id:
        return None, "in the base's own repo; name that with --repo to publish there"
    return own, ""


def _repo_of(variant: VariantReport) -> str | None:
    return None if variant.model is None else variant.model.repo_id


def _check_id(repo_id: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # loaded lazily

    try:
        validate_repo_id(repo_id)
        if repo_id.count("/") != 1:
            raise HFValidationError("no owner")
    except HFValidationError as exc:
        raise InputError(f"{_shown(repo_id)}: expected a Hub id as ORG/NAME; check the report or --repo") from exc


def _folders(report: Report) -> list[str]:
    """Folders that occur in the report, each with its slash, the longest first."""
    models = [report.base, *(variant.model for variant in report.variants if variant.model is not None)]
    texts = [model.spec for model in models if model.repo_id is None]
    texts += [variant.spec for variant in report.variants]
    texts += [task.source for task in report.tasks]
    if report.contrast is not None:
        texts += report.contrast.source.split(", ")
    paths = {text.rstrip("/") for text in texts if _LOCAL_PATH.fullmatch(text)}
    folders = {path[: max(path.rfind("/"), path.rfind("\\")) + 1] for path in paths}
    return sorted((folder for folder in folders if len(folder) > 1), key=len, reverse=True)


def _without(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("", value)
    if isinstance(value, dict):
        return {_without(key, pattern): _without(entry, pattern) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without(entry, pattern) for entry in value]
    return value


def _shown(text: str) -> str:
    return repr(clean(text))
