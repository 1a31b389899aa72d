"""What a user types -> files on this machine, pinned to a full commit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hubaudit.errors import AccessError, InputError, ModelFileError
from hubaudit.hub.access import hub_errors
from hubaudit.hub.source import ModelSource

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

__all__ = ["resolve_base", "resolve_variant"]

MADE_ON_THE_SPOT = ("bnb", "rtn")
# Only what a model needs: never a repo's twelve other quants, never a pickle.
FOLDER_PATTERNS = [
    "*.safetensors",
    "*.safetensors.index.json",
    "*.json",
    "*.jinja",
    "tokenizer.model",
    "*.txt",
]
_HUB_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>[\w.+/ -]+))?", re.ASCII)


def resolve_base(spec: str) -> ModelSource:
    """Find the base.

    Args:
        spec: Hub id `ORG/NAME`, `ORG/NAME@revision`, or a local folder.

    Returns:
        Where its files lie, with the full commit SHA for a Hub repo.

    Raises:
        InputError: If the text is no reference.
        AccessError: If the repo or folder cannot be read.
        ModelFileError: If a local folder has no config.json.
    """
    path = _local(spec)
    if path is not None:
        if path.suffix == ".gguf":
            raise InputError(
                f"{spec}: the base must be a folder or a Hub id, because its config and tokenizer are needed, "
                "but got a GGUF file; pass the model it was made from"
            )
        return _folder(spec, path)
    match = _match(spec)
    if match["file"]:
        raise InputError(f"{spec}: the base must be a whole repo, but got a file of it; drop the part after ':'")
    return _download(spec, match)


def resolve_variant(spec: str, base: ModelSource) -> ModelSource:
    """Find a variant.

    Args:
        spec: Hub id, `ORG/NAME[@revision]:file.gguf` or `:QUANT`, a local folder or `.gguf` file,
            or made on the spot from the base: `bnb:int8|nf4|fp4`, `rtn:BITS[@gGROUP]`.
        base: The base, which `bnb:` and `rtn:` start from.

    Returns:
        Where its files lie.

    Raises:
        InputError: If the text is no reference.
        AccessError: If the repo, folder or file cannot be read.
    """
    kind, _, option = spec.partition(":")
    if kind in MADE_ON_THE_SPOT and not Path(spec).exists():
        if not option:
            raise InputError(f"{spec}: expected an option after '{kind}:', as in bnb:nf4 or rtn:4@g128")
        return ModelSource(spec, "bnb" if kind == "bnb" else "rtn", base.path, option, base.repo_id, base.revision)
    path = _local(spec)
    if path is None:
        return _download(spec, _match(spec))
    if path.is_dir():
        return _folder(spec, path)
    if path.suffix.lower() == ".gguf":
        return ModelSource(spec, "gguf", path)
    raise ModelFileError(f"{spec}: expected a folder of safetensors or a .gguf file, but got {path.name}")


def _local(spec: str) -> Path | None:
    """The path, where the text can only be a path or names something that exists."""
    path = Path(spec).expanduser()
    if path.exists():
        return path
    if spec.startswith(("/", "./", "../", "~")) or (spec.lower().endswith(".gguf") and ":" not in spec):
        raise AccessError(f"{spec}: no such file or folder; check the path")
    return None


def _folder(spec: str, path: Path) -> ModelSource:
    if not path.is_dir():
        raise ModelFileError(f"{spec}: expected a folder with config.json and safetensors, but got a file")
    if not (path / "config.json").is_file():
        raise ModelFileError(f"{spec}: the folder has no config.json; pass the folder that save_pretrained wrote")
    return ModelSource(spec, "dense", path)


def _match(spec: str) -> re.Match[str]:
    match = _HUB_ID.fullmatch(spec)
    if match is None or ".." in spec:
        raise InputError(
            f"{spec!r}: expected ORG/NAME, ORG/NAME@revision, ORG/NAME:file.gguf, a local path, bnb:... or rtn:..."
        )
    return match


def _download(spec: str, match: re.Match[str]) -> ModelSource:
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    repo_id, revision, file = match["repo"], match["revision"], match["file"]
    with hub_errors(repo_id):
        if HF_HUB_OFFLINE:
            sha, names = revision, None
        else:
            info = HfApi().model_info(repo_id, revision=revision)
            sha, names = info.sha, _names(info)
        if file:
            name = _gguf_name(spec, file, names)
            local = hf_hub_download(repo_id, name, revision=sha)
            return ModelSource(spec, "gguf", Path(local), None, repo_id, sha)
        if names is not None and not any(name.endswith(".safetensors") for name in names):
            found = [name for name in names if name.lower().endswith(".gguf")]
            hint = f"name one, as in {repo_id}:{found[0]}" if found else "hubaudit reads no pickled weights"
            raise ModelFileError(f"{repo_id}: expected safetensors, but the repo has none; {hint}")
        folder = snapshot_download(repo_id, revision=sha, allow_patterns=FOLDER_PATTERNS)
    source = _folder(spec, Path(folder))
    # Offline, the snapshot's own folder is named after the commit.
    return ModelSource(spec, "dense", source.path, None, repo_id, sha if names is not None else source.path.name)


def _names(info: ModelInfo) -> list[str]:
    return sorted(sibling.rfilename for sibling in info.siblings or [])


def _gguf_name(spec: str, wanted: str, names: list[str] | None) -> str:
    """The one file that a quant's name or a file's name means."""
    if names is None or wanted in names:
        return wanted
    models = [name for name in names if name.lower().endswith(".gguf") and "mmproj" not in name.lower()]
    label = wanted.lower()
    found = [name for name in models if name.lower().removesuffix(".gguf").endswith(label)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(models) or "none"
    raise InputError(
        f"{spec}: expected one GGUF file named or ending in {wanted!r}, but {len(found)} fit; the repo has: {listed}"
    )
