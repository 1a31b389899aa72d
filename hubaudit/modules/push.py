"""The metrics on the Hub: one Space each, which evaluate loads as `NAMESPACE/NAME`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from hubaudit.errors import InputError
from hubaudit.modules.install import METRICS, metric_folder
from hubaudit.publish.spaces import write_space

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
    urls: list[str] = []
    for plan in plans:
        so_far = f"; {len(urls)} of {len(plans)} Spaces are done" if urls else ""
        files = {file.name: file.read_bytes() for file in plan.files}
        urls.append(write_space(plan.repo_id, files, so_far=so_far))
    return urls
