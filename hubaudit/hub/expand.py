"""References that stand for several variants: `ORG/NAME:*`, a folder of GGUF files, a run's checkpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hubaudit.errors import AccessError, InputError
from hubaudit.hub.quants import group_quants
from hubaudit.hub.reference import HUB_ID
from hubaudit.hub.repo_files import list_files
from hubaudit.hub.source import ModelSource

__all__ = ["expand_variants"]

_EVERY = ":*"
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
_MODEL_FILES = ("config.json", "adapter_config.json")


def expand_variants(specs: Sequence[str], base: ModelSource) -> list[str]:
    """Put single variants in the place of references that stand for several; nothing is downloaded.

    - `ORG/NAME[@revision]:*`: every quant of a GGUF repo, pinned to its commit, the largest first.
    - `FOLDER:*` of GGUF files: every quant, the largest first.
    - `FOLDER:*` of `checkpoint-N` folders: the series in order of steps, then the folder's own final model if it
      has one. A folder that has checkpoints and no model of its own needs no `:*`.

    Args:
        specs: References as the user typed them; others pass unchanged.
        base: The base; where it is one of the checkpoints, it is not its own variant.

    Returns:
        References, each once, in order.

    Raises:
        InputError: If a reference with `:*` stands for nothing.
        AccessError: If the repo cannot be read.
    """
    found: list[str] = []
    for spec in specs:
        found += _expanded(spec, base)
    return list(dict.fromkeys(found))


def _expanded(spec: str, base: ModelSource) -> list[str]:
    every = spec.endswith(_EVERY)
    text = spec.removesuffix(_EVERY)
    folder = Path(text).expanduser()
    if text and folder.is_dir():
        return _folder(spec, text, folder, base) if every or _is_series(folder) else [spec]
    if not every:
        return [spec]
    match = HUB_ID.fullmatch(text)
    if match is None or ".." in text or text.startswith((".", "~")):
        if text.startswith(("/", ".", "~")):
            raise AccessError(f"{spec}: no such folder; check the path")
        raise InputError(f"{spec!r}: expected ORG/NAME:*, ORG/NAME@revision:* or FOLDER:*")
    files = list_files(match["repo"], match["revision"])
    quants = group_quants(files.sizes)
    if not quants:
        raise InputError(f"{spec}: expected a repo of GGUF files, but it has none; drop the ':*'")
    return [f"{files.repo_id}@{files.revision}:{quant.files[0]}" for quant in quants]


def _folder(spec: str, text: str, folder: Path, base: ModelSource) -> list[str]:
    checkpoints = _checkpoints(folder)
    if checkpoints:
        series = [*checkpoints, folder] if _holds_model(folder) else checkpoints
        return [str(path) for path in series if path.resolve() != base.path.resolve()]
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    quants = group_quants(sizes)
    if not quants:
        raise InputError(
            f"{spec}: expected .gguf files or checkpoint-N folders in {text}, but it has none; drop the ':*'"
        )
    return [str(folder / quant.files[0]) for quant in quants]


def _is_series(folder: Path) -> bool:
    return not _holds_model(folder) and bool(_checkpoints(folder))


def _holds_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _MODEL_FILES)


def _checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders that hold a model, in order of steps."""
    steps = [
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := _CHECKPOINT.fullmatch(path.name)) and path.is_dir() and _holds_model(path)
    ]
    return [path for _, path in sorted(steps)]
