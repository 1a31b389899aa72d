"""The metrics on the Hub: one Space each, which evaluate loads as `NAMESPACE/NAME`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from hubaudit.errors import AccessError, InputError
from hubaudit.modules.install import METRICS, metric_folder

__all__ = ["SpacePlan", "plan_push", "push_metrics"]

_NAMESPACE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True)
class SpacePlan:
    """One Space that would be created or updated."""

    repo_id: str
    files: tuple[Path, ...]
    """The files that go to the root of the Space."""


def plan_push(namespace: str) -> list[SpacePlan]:
    """Say what a push writes, without asking the Hub.

    Args:
        namespace: User or organization.

    Returns:
        One Space a metric.

    Raises:
        InputError: If the namespace cannot be one.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(
            f"expected a user or organization of the Hub, got {namespace!r}; give its name alone, without a slash"
        )
    plans = []
    for name in METRICS:
        folder = metric_folder(name)
        names = (f"{name}.py", "README.md", "app.py", "requirements.txt")
        plans.append(SpacePlan(f"{namespace}/{name}", tuple(folder / file for file in names)))
    return plans


def push_metrics(plans: Sequence[SpacePlan]) -> list[str]:
    """Create the Spaces where they are missing and upload the files, one commit each.

    Args:
        plans: From `plan_push`.

    Returns:
        Address of each Space's commit.

    Raises:
        AccessError: If the Hub refuses, or cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    from hubaudit.version import __version__

    api = HfApi(library_name="hubaudit", library_version=__version__)
    urls: list[str] = []
    for plan in plans:
        try:
            api.create_repo(plan.repo_id, repo_type="space", space_sdk="gradio", exist_ok=True)
            commit = api.create_commit(
                plan.repo_id,
                [CommitOperationAdd(file.name, file.read_bytes()) for file in plan.files],
                commit_message=f"hubaudit {__version__}",
                repo_type="space",
            )
        except Exception as exc:  # huggingface_hub's and its HTTP client's own trees
            first_line = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
            done = f"; {len(urls)} of {len(plans)} Spaces are done" if urls else ""
            raise AccessError(
                f"expected to write the Space {plan.repo_id}, but the Hub answered: {first_line}{done}; log in with "
                "`hf auth login` as a member of the namespace, check the network, and run the same command again"
            ) from exc
        urls.append(str(commit.commit_url))
    return urls
