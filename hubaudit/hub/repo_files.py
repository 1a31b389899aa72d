"""What a Hub repo holds at one commit, and which of it a model needs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from hubaudit.errors import AccessError, ModelFileError
from hubaudit.hub.access import hub_errors, retried

__all__ = ["RepoFiles", "adapter_files", "folder_files", "is_adapter", "list_files", "text_files", "weight_bytes"]

_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_TEXT = (".json", ".jinja", ".txt")
_MAX_TEXT_BYTES = 200_000_000
_TOKENIZERS = ("tokenizer.model", "spiece.model")
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclasses.dataclass(frozen=True)
class RepoFiles:
    """A repo at one commit."""

    repo_id: str
    """The id it has now: a renamed repo answers with its new one."""
    revision: str
    """Full commit SHA."""
    sizes: Mapping[str, int]
    """Bytes by file name; only names that stay inside a folder."""


def list_files(repo_id: str, revision: str | None) -> RepoFiles:
    """Ask the Hub, or the cache where the Hub must not be asked.

    Args:
        repo_id: `ORG/NAME`.
        revision: Branch, tag or commit; None for the default branch.

    Raises:
        AccessError: If the repo or the revision cannot be read, or the repo is empty.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    with hub_errors(repo_id):
        if HF_HUB_OFFLINE:
            return _cached(repo_id, revision)
        info = retried(lambda: HfApi().model_info(repo_id, revision=revision, files_metadata=True))
    siblings = info.siblings or []
    sizes = {sibling.rfilename: sibling.size or 0 for sibling in siblings if _stays_inside(sibling.rfilename)}
    if not set(sizes) - {".gitattributes", "README.md"}:
        raise AccessError(f"{repo_id}: expected a model, but the repo is empty; check the id and the revision")
    return RepoFiles(info.id, str(info.sha), sizes)


def _cached(repo_id: str, revision: str | None) -> RepoFiles:
    """The commit that the cache holds under a name, or the last one used where no name is given."""
    from huggingface_hub import constants, scan_cache_dir

    repos = scan_cache_dir(constants.HF_HUB_CACHE).repos if Path(constants.HF_HUB_CACHE).is_dir() else ()
    commits = [
        commit
        for repo in repos
        if repo.repo_type == "model" and repo.repo_id == repo_id
        for commit in repo.revisions
        if revision in (None, "main", commit.commit_hash, *commit.refs)
    ]
    if not commits:
        raise AccessError(
            f"{repo_id}: the cache does not hold it, and HF_HUB_OFFLINE forbids to ask the Hub; unset it, or download "
            f"the model with `hf download {repo_id}` first"
        )
    commit = max(commits, key=lambda commit: (bool({revision, "main"} & commit.refs), commit.last_modified))
    folder = commit.snapshot_path
    files = [path for path in folder.rglob("*") if path.is_file()]
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    return RepoFiles(repo_id, commit.commit_hash, sizes)


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and ":" not in name


def is_adapter(files: RepoFiles) -> bool:
    """Whether the repo holds an adapter and no model of its own."""
    return ADAPTER_CONFIG in files.sizes and not _weights(files)


def adapter_files(files: RepoFiles) -> list[str]:
    """What an adapter needs.

    Raises:
        ModelFileError: If its weights are pickled or missing.
    """
    if ADAPTER_WEIGHTS not in files.sizes:
        raise ModelFileError(
            f"{files.repo_id}: expected the adapter's weights in {ADAPTER_WEIGHTS}, but the repo has none; "
            "hubaudit reads no pickled weights: ask its owner to save it again with safe_serialization"
        )
    return [ADAPTER_CONFIG, ADAPTER_WEIGHTS, *_texts(files, without=(ADAPTER_CONFIG,))]


def folder_files(files: RepoFiles) -> list[str]:
    """What a model in safetensors needs: never other formats, other precisions or a trainer's state.

    Raises:
        ModelFileError: If the repo has no safetensors at its top, with what it has instead.
    """
    weights = _weights(files)
    if not weights:
        gguf = [name for name in files.sizes if name.lower().endswith(".gguf")]
        hint = "hubaudit reads no pickled weights; ask its owner for safetensors"
        if gguf:
            hint = f"name one, as in {files.repo_id}:{gguf[0]}, or all with {files.repo_id}:*"
        raise ModelFileError(f"{files.repo_id}: expected safetensors, but the repo has none; {hint}")
    return weights + _texts(files)


def text_files(files: RepoFiles) -> list[str]:
    """Configuration and tokenizer of a model in safetensors, without the weights.

    Raises:
        ModelFileError: As `folder_files`.
    """
    weights = set(_weights(files))
    return [name for name in folder_files(files) if name not in weights]


def _weights(files: RepoFiles) -> list[str]:
    names = [name for name in sorted(files.sizes) if "/" not in name and name.endswith(".safetensors")]
    if "model.safetensors" in names:
        return ["model.safetensors"]
    shards = [name for name in names if _SHARD.fullmatch(name)]
    return shards or [name for name in names if not name.startswith(("consolidated", "adapter_"))]


def weight_bytes(files: RepoFiles) -> int:
    """Size of a model's safetensors."""
    return sum(files.sizes[name] for name in _weights(files))


def _texts(files: RepoFiles, *, without: tuple[str, ...] = ()) -> list[str]:
    names = [
        name
        for name in sorted(files.sizes)
        if "/" not in name and (name.endswith(_TEXT) or name in _TOKENIZERS) and name not in without
    ]
    size = sum(files.sizes[name] for name in names)
    if size > _MAX_TEXT_BYTES:
        raise ModelFileError(
            f"{files.repo_id}: expected configuration and tokenizer of at most {_MAX_TEXT_BYTES / 1e6:.0f} MB, but its "
            f"files have {size / 1e6:.0f} MB; ask its owner to move the large ones into a folder"
        )
    return names
