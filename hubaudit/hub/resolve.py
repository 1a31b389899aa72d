"""What a user types -> files on this machine, pinned to a full commit."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from hubaudit.errors import AccessError, InputError, ModelFileError, VariantError
from hubaudit.hub.download import download
from hubaudit.hub.quants import Quant, group_quants
from hubaudit.hub.reference import HUB_FILE
from hubaudit.hub.repo_files import (
    ADAPTER_CONFIG,
    RepoFiles,
    adapter_files,
    folder_files,
    is_adapter,
    list_files,
    text_files,
)
from hubaudit.hub.source import ModelSource
from hubaudit.progress import Progress, Silent

__all__ = ["resolve_base", "resolve_variant"]

MADE_ON_THE_SPOT = ("bnb", "rtn")


def resolve_base(spec: str, *, weights: bool = True, progress: Progress | None = None) -> ModelSource:
    """Find the base.

    Args:
        spec: Hub id `ORG/NAME`, `ORG/NAME@revision`, or a local folder.
        weights: Whether the weights are fetched as well; without them the folder serves for a plan.
        progress: Is told of downloads.

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
        return _folder(spec, path, None)
    match = _match(spec)
    if match["file"]:
        raise InputError(f"{spec}: the base must be a whole repo, but got a file of it; drop the part after ':'")
    return _download(spec, match, None, progress or Silent(), weights=weights)


def resolve_variant(spec: str, base: ModelSource, *, progress: Progress | None = None) -> ModelSource:
    """Find a variant.

    Args:
        spec: Hub id of a model or an adapter, `ORG/NAME[@revision]:file.gguf` or `:QUANT`, a local folder or file,
            or made on the spot from the base: `bnb:int8|nf4|fp4`, `rtn:BITS[@gGROUP][,PROJECTION=BITS]`.
        base: The base, which `bnb:`, `rtn:` and adapters start from.
        progress: Is told of downloads.

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
        return _download(spec, _match(spec), base, progress or Silent())
    if path.is_dir():
        return _folder(spec, path, base)
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


def _folder(spec: str, path: Path, base: ModelSource | None) -> ModelSource:
    if not path.is_dir():
        raise ModelFileError(f"{spec}: expected a folder with config.json and safetensors, but got a file")
    if (path / ADAPTER_CONFIG).is_file() and not any(path.glob("model*.safetensors")):
        return _adapter(spec, path, base)
    if not (path / "config.json").is_file():
        raise ModelFileError(f"{spec}: the folder has no config.json; pass the folder that save_pretrained wrote")
    return ModelSource(spec, "dense", path)


def _adapter(spec: str, path: Path, base: ModelSource | None) -> ModelSource:
    if base is None:
        raise InputError(f"{spec}: the base must be a whole model, but this is an adapter; pass the model it is for")
    return ModelSource(spec, "lora", path, base_path=base.path)


def _match(spec: str) -> re.Match[str]:
    match = HUB_FILE.fullmatch(spec)
    if match is None or ".." in spec:
        raise InputError(
            f"{spec!r}: expected ORG/NAME, ORG/NAME@revision, ORG/NAME:file.gguf, a local path, bnb:... or rtn:..."
        )
    return match


def _download(
    spec: str, match: re.Match[str], base: ModelSource | None, progress: Progress, *, weights: bool = True
) -> ModelSource:
    files = list_files(match["repo"], match["revision"])
    if match["file"]:
        names = _gguf_names(spec, match["file"], files)
        source = ModelSource(spec, "gguf", download(files, names, progress) / names[0])
    elif is_adapter(files):
        source = _adapter(spec, download(files, adapter_files(files), progress), base)
        _check_claimed_base(source, base)
    else:
        wanted = folder_files(files) if weights else text_files(files)
        source = _folder(spec, download(files, wanted, progress), base)
    return dataclasses.replace(source, repo_id=files.repo_id, revision=files.revision)


def _gguf_names(spec: str, wanted: str, files: RepoFiles) -> tuple[str, ...]:
    """The files that a quant's name or a file's name means."""
    quants = group_quants(files.sizes)
    found = _fitting(quants, wanted)
    if len(found) == 1 and not found[0].missing:
        return found[0].files
    if len(found) == 1:
        raise ModelFileError(f"{spec}: the repo lacks the shard {found[0].missing[0]}; pass another quant")
    choices = [f"{quant.label} ({(quant.size_bytes or 0) / 1e9:.2f} GB, {quant.files[0]})" for quant in found or quants]
    listed = ", ".join(choices) or "no GGUF file"
    raise InputError(
        f"{spec}: expected one quant or file named {wanted!r}, but {len(found)} fit; the repo has: {listed}"
    )


def _fitting(quants: list[Quant], wanted: str) -> list[Quant]:
    """Those that a word means: as a file's name, else as a label, else as the end of a file's name."""
    lower = wanted.lower()
    for fits in (
        lambda quant: wanted in quant.files,
        lambda quant: quant.label.lower() == lower,
        lambda quant: quant.files[0].lower().removesuffix(".gguf").endswith(lower),
    ):
        if found := [quant for quant in quants if fits(quant)]:
            return found
    return []


def _check_claimed_base(source: ModelSource, base: ModelSource | None) -> None:
    """Refuse an adapter of the Hub that says it is for another model."""
    try:
        config = json.loads((source.path / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        claimed = config["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelFileError(
            f"{source.spec}: {ADAPTER_CONFIG} cannot be read ({type(exc).__name__}); download the adapter again"
        ) from exc
    # A path of somebody's disk says nothing; the shapes are checked when the adapter is applied.
    if base is None or base.repo_id is None or not isinstance(claimed, str) or not HUB_FILE.fullmatch(claimed):
        return
    if claimed.lower() != base.repo_id.lower():
        raise VariantError(
            f"{source.spec}: the adapter is for {claimed}, not for {base.repo_id}; audit it against its own base, or "
            "download it and pass the folder if you know that it fits"
        )
