"""A pull request from the page, with the visitor's own token, which is used for one call and kept nowhere."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hubaudit.publish.plan import RepoPlan, plan_repo
from hubaudit.publish.push import Pushed, push
from hubaudit.publish.targets import choose_targets

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from hubaudit.report.schema import Report

__all__ = ["Preview", "open_requests", "preview"]


@dataclasses.dataclass(frozen=True)
class Preview:
    """What a pull request would change."""

    text: str
    """Repos, files and the diff of each card; plain text."""
    has_changes: bool


def preview(report: Report, repo: str, token: str | None) -> Preview:
    """Read the repos and say what would change.

    Args:
        report: The audit.
        repo: One of its repos, or empty for all.
        token: The visitor's, for repos that only they can see.

    Raises:
        InputError: If nothing of the audit belongs into a repo.
        AccessError: If a repo cannot be read.
    """
    plans, skipped = _plans(report, repo, token)
    parts = []
    for plan in plans:
        files = "".join(f"  {file.action:7} {file.path} ({len(file.content)} bytes)\n" for file in plan.changes)
        if plan.open_request:
            parts.append(f"{plan.repo_id}: an open pull request already proposes this audit: {plan.open_request}\n")
        elif not plan.changes:
            parts.append(f"{plan.repo_id}: the card already holds this audit\n")
        else:
            parts.append(f"{plan.repo_id}: a pull request with\n{files}\n{plan.diff}")
    parts += [f"{spec}: not published, {reason}\n" for spec, reason in skipped]
    return Preview("\n".join(parts), any(plan.changes and not plan.open_request for plan in plans))


def open_requests(report: Report, repo: str, token: str) -> list[Pushed]:
    """Open the pull requests that `preview` described, planned anew from what the repos hold now.

    Raises:
        InputError: As `preview`.
        AccessError: If a repo cannot be read or written.
    """
    plans, _ = _plans(report, repo, token)
    return [push(plan, _api(token)) for plan in plans if plan.changes and not plan.open_request]


def _plans(report: Report, repo: str, token: str | None) -> tuple[list[RepoPlan], list[tuple[str, str]]]:
    targets = choose_targets(report, repo=repo.strip() or None)
    return [plan_repo(target, _api(token)) for target in targets.targets], targets.skipped


def _api(token: str | None) -> HfApi:
    from huggingface_hub import HfApi

    from hubaudit.version import __version__

    # Without a visitor's token nothing is read with the server's: their rights decide what they see.
    return HfApi(token=token or False, library_name="hubaudit", library_version=__version__)
