"""The page as a Space on the Hub: its files, and this very package beside them."""

from __future__ import annotations

import dataclasses
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

import hubaudit
from hubaudit.errors import InputError
from hubaudit.hub.reference import REPO_ID
from hubaudit.resources import bundled

__all__ = ["SpacePush", "plan_space"]

_SKIPPED = ("__pycache__", "_bundled", "pictures")
_EXTRAS = ("bnb", "gguf", "lora", "space")


@dataclasses.dataclass(frozen=True)
class SpacePush:
    """One Space and what it would hold."""

    repo_id: str
    files: dict[str, bytes]


def plan_space(repo_id: str) -> SpacePush:
    """Say what a push writes, without asking the Hub.

    The Space runs the version of hubaudit that pushes it: the package lies beside `app.py`, and
    `requirements.txt` lists what it needs.

    Args:
        repo_id: `ORG/NAME`.

    Raises:
        InputError: If it is no repo id.
    """
    if not REPO_ID.fullmatch(repo_id) or ".." in repo_id:
        raise InputError(f"expected a Space's id, ORG/NAME, got {repo_id!r}")
    page = bundled("spaces") / "hubaudit"
    files = {path: content for path, content in _tree(page).items() if path != "requirements.txt"}
    files["requirements.txt"] = ("\n".join(_requirements()) + "\n").encode()
    package = Path(hubaudit.__file__).parent
    files |= {f"hubaudit/{path}": content for path, content in _tree(package).items()}
    for name in ("metrics", "model_cards"):
        files |= {f"hubaudit/_bundled/{name}/{path}": content for path, content in _tree(bundled(name)).items()}
    audits = {path: content for path, content in files.items() if path.startswith("audits/")}
    files |= {f"hubaudit/_bundled/spaces/hubaudit/{path}": content for path, content in audits.items()}
    return SpacePush(repo_id, dict(sorted((path, content) for path, content in files.items() if path not in audits)))


def _requirements() -> list[str]:
    """What this package and the extras of a Space need, as pip takes it."""
    found = []
    for line in requires("hubaudit") or []:
        requirement = Requirement(line)
        marker = requirement.marker
        wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *_EXTRAS))
        if wanted and requirement.name != "hubaudit":
            requirement.marker = None
            found.append(str(requirement))
    return sorted({*found, "spaces"}, key=str.lower)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts) & set(_SKIPPED)
    }
