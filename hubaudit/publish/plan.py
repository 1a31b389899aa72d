"""What publishing would change in a repo: read from the Hub, nothing written."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hubaudit.errors import AccessError, InputError
from hubaudit.hub.access import hub_errors
from hubaudit.publish.card import MAX_CARD_BYTES, edit_card
from hubaudit.publish.command import audit_command
from hubaudit.publish.results import model_index_results
from hubaudit.publish.targets import Target
from hubaudit.report.markdown import card_section
from hubaudit.report.plots import PLOTS, drawn
from hubaudit.report.plots.style import png

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["CARD", "PLOT_FOLDER", "REPORT_FILE", "TITLE", "PlannedFile", "RepoPlan", "plan_repo"]

CARD = "README.md"
REPORT_FILE = "hubaudit/report.json"
PLOT_FOLDER = "hubaudit/plots"
TITLE = "hubaudit: what changed against the base"
"""Title of the commit and of the pull request, by which ours are found again."""

_REQUESTS_READ = 20


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One file of the commit."""

    path: str
    action: Literal["add", "update", "delete", "keep"]
    content: bytes
    """What it shall hold; empty for a file that is deleted."""


@dataclass(frozen=True, kw_only=True)
class RepoPlan:
    """What would be committed to one repo."""

    repo_id: str
    parent_commit: str | None
    """The commit that the plan was made on, in full."""
    variants: list[str]
    """References of the variants whose figures are published."""
    results: list[dict[str, Any]]
    """Our entries of the card's `model-index`."""
    files: list[PlannedFile]
    card_before: bytes
    open_request: str | None = None
    """Address of an open pull request that already proposes this report."""
    older_requests: tuple[str, ...] = ()
    """Addresses of open pull requests of ours with another report."""

    @property
    def changes(self) -> list[PlannedFile]:
        """The files that differ from the repo's; nothing to do where there is none."""
        return [file for file in self.files if file.action != "keep"]

    @property
    def diff(self) -> str:
        """Unified diff of the card."""
        after = next(file.content for file in self.files if file.path == CARD)
        before, now = (text.decode("utf-8").splitlines(keepends=True) for text in (self.card_before, after))
        lines = difflib.unified_diff(before, now, f"a/{CARD}", f"b/{CARD}")
        # A line without its line break would run into the next one.
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no line feed at the end\n" for line in lines)


def plan_repo(target: Target, api: HfApi) -> RepoPlan:
    """Read a repo and work out the commit.

    Where the card and the report are already there, plots are not compared: another version of matplotlib
    draws them with other bytes.

    Args:
        target: The repo and its part of the report.
        api: The Hub.

    Raises:
        AccessError: If the repo cannot be read.
        InputError: If its card cannot be edited without touching what others wrote.
    """
    repo_id, report = target.repo_id, target.report
    with hub_errors(repo_id):
        info = api.model_info(repo_id)
        repo_id, revision = info.id, info.sha
        there = {sibling.rfilename for sibling in info.siblings or []}
        card = _read(api, repo_id, CARD, revision, limit=MAX_CARD_BYTES) if CARD in there else None
        stored = report.to_json().encode("utf-8")
        same_report = REPORT_FILE in there and _read(api, repo_id, REPORT_FILE, revision, limit=len(stored)) == stored
    results = model_index_results(report, url=f"{api.endpoint}/{repo_id}/blob/main/{REPORT_FILE}")
    section = card_section(report, plot_folder=PLOT_FOLDER, command=audit_command(report), report_file=REPORT_FILE)
    try:
        edited = edit_card(card, name=repo_id.rpartition("/")[2], results=results, section=section)
    except InputError as exc:
        raise InputError(f"{repo_id}: {exc}") from exc
    plots = {f"{PLOT_FOLDER}/{plot.name}.png": plot for plot in drawn(report)}
    stale = sorted({f"{PLOT_FOLDER}/{plot.name}.png" for plot in PLOTS} & there - set(plots))
    complete = edited == card and same_report and set(plots) <= there and not stale
    files = [
        PlannedFile(path=CARD, action="keep" if edited == card else _action(CARD, there), content=edited),
        PlannedFile(path=REPORT_FILE, action="keep" if same_report else _action(REPORT_FILE, there), content=stored),
    ]
    if not complete:
        files += [
            PlannedFile(path=path, action=_action(path, there), content=png(plot.draw(report)))
            for path, plot in plots.items()
        ]
    files += [PlannedFile(path=path, action="delete", content=b"") for path in stale]
    mine, older = (None, ()) if complete else _open_requests(api, repo_id, stored)
    return RepoPlan(
        repo_id=repo_id,
        parent_commit=revision,
        variants=[variant.spec for variant in report.variants],
        results=results,
        files=files,
        card_before=card or b"",
        open_request=mine,
        older_requests=older,
    )


def _action(path: str, there: set[str]) -> Literal["add", "update"]:
    return "update" if path in there else "add"


def _read(api: HfApi, repo_id: str, path: str, revision: str | None, *, limit: int) -> bytes | None:
    """A file of at most `limit` bytes, or None where it is larger or not there; a card must not be larger."""
    found = [entry for entry in api.get_paths_info(repo_id, [path], revision=revision) if entry.path == path]
    size = getattr(found[0], "size", None) if found else None
    if size is None:
        return None
    if size > limit:
        if path == CARD:
            raise AccessError(f"{repo_id}: expected a {CARD} of at most {limit} bytes, but it has {size}; shorten it")
        return None
    return Path(api.hf_hub_download(repo_id, path, revision=revision)).read_bytes()


def _open_requests(api: HfApi, repo_id: str, stored: bytes) -> tuple[str | None, tuple[str, ...]]:
    """Our open pull requests: one that proposes this report, and those with another one.

    A repo without discussions has none, and one that cannot be read is no reason to stop.
    """
    older = []
    with contextlib.suppress(AccessError), hub_errors(repo_id):
        listed = api.get_repo_discussions(repo_id, discussion_type="pull_request", discussion_status="open")
        ours = [entry for entry in listed if entry.is_pull_request and entry.status == "open" and entry.title == TITLE]
        for entry in ours[:_REQUESTS_READ]:
            if _read(api, repo_id, REPORT_FILE, entry.git_reference, limit=len(stored)) == stored:
                return entry.url, ()
            older.append(entry.url)
    return None, tuple(older)
