"""The only writer to the Hub: one commit a repo, as a pull request or directly."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubaudit.errors import AccessError, HubAuditError
from hubaudit.hub.access import hub_errors
from hubaudit.publish.plan import TITLE, RepoPlan

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["Pushed", "hide_tokens", "push"]

_DESCRIPTION = """\
Figures of an audit against the base: `model-index` entries and a section in the card, between markers, and
`hubaudit/report.json` with its plots. Nothing else was touched. The card says how to read them and how to make them
again; `hubaudit verify` checks the report.
"""
_TOKEN = re.compile(r"hf_\w{8,}")


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """What was written."""

    url: str
    """Address of the pull request, or of the commit."""
    is_pull_request: bool
    warnings: tuple[str, ...] = ()
    """What the Hub said about the card's metadata."""


def push(plan: RepoPlan, api: HfApi, *, direct: bool = False) -> Pushed:
    """Commit a plan, if the repo is still as the plan found it.

    Args:
        plan: What to commit; it must have changes.
        api: The Hub, with a token that may write.
        direct: Commit to the main branch instead of opening a pull request.

    Raises:
        AccessError: If the token may not write, the repo has changed since the plan was made, or the Hub
            cannot be reached. Nothing was written then.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations = [
        CommitOperationDelete(file.path) if file.action == "delete" else CommitOperationAdd(file.path, file.content)
        for file in plan.changes
    ]
    with _write_errors(plan.repo_id), warnings.catch_warnings(record=True) as caught, _no_bars():
        warnings.simplefilter("always")
        # The Hub takes a pull request on an old commit; its author would have to merge by hand.
        if api.model_info(plan.repo_id).sha != plan.parent_commit:
            raise _changed(plan.repo_id)
        done = api.create_commit(
            plan.repo_id,
            operations,
            commit_message=TITLE,
            commit_description=_DESCRIPTION,
            parent_commit=plan.parent_commit,
            create_pr=not direct,
        )
    said = tuple(hide_tokens(str(entry.message)) for entry in caught if issubclass(entry.category, UserWarning))
    return Pushed(url=done.pr_url or done.commit_url, is_pull_request=done.pr_url is not None, warnings=said)


def hide_tokens(text: str) -> str:
    """The text without the user's token, and without anything that looks like one."""
    from huggingface_hub import get_token

    token = get_token()
    return _TOKEN.sub("hf_***", text.replace(token, "hf_***") if token else text)


@contextlib.contextmanager
def _write_errors(repo_id: str) -> Iterator[None]:
    """What goes wrong when writing, with the next step; the rest as for reading."""
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        yield
    except HubAuditError:
        raise
    except RepositoryNotFoundError:  # a gated repo among them
        with hub_errors(repo_id):
            raise
    except HfHubHTTPError as exc:
        raise _refused(repo_id, exc.response.status_code, str(exc)) from exc
    except ValueError as exc:
        raise AccessError(f"{repo_id}: the Hub refused the card ({_line(str(exc))}); nothing was written") from exc
    except Exception:
        with hub_errors(repo_id):
            raise


def _refused(repo_id: str, status: int, said: str) -> AccessError:
    if status in (409, 412):
        return _changed(repo_id)
    if status == 403:
        return AccessError(
            f"{repo_id}: the Hub refused the write (403): the token may only read, or the repo takes no pull "
            "requests; log in with a token of the role `write` (`hf auth login`); nothing was written"
        )
    if status == 401:
        return AccessError(
            f"{repo_id}: the Hub wants a token that it knows (401); log in with `hf auth login`; nothing was written"
        )
    return AccessError(f"{repo_id}: the Hub refused the commit ({_line(said)}); nothing was written, try again later")


def _line(text: str) -> str:
    """One line without a token, for a message."""
    return hide_tokens(" ".join(text.split()))[:300]


def _changed(repo_id: str) -> AccessError:
    return AccessError(
        f"{repo_id}: someone changed the repo after the plan was made; nothing was written, so nothing is lost: "
        "run the same command again"
    )


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Without the upload's progress bars: the files are small."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()
