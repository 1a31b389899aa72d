"""A model's folder, checked before anything big is read: config.json and safetensors."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubaudit.errors import InputError, ModelFileError

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

__all__ = ["EXPANSION_MARKER", "FolderWeights", "check_weights", "read_config", "read_tensors", "weight_files"]

EXPANSION_MARKER = "expanded_from.json"
"""In a folder that `expand_gguf` wrote: the file, its hash and the dtype."""

# Far above any model: a hostile configuration would be built layer by layer before its weights are looked at.
_MAX_LAYERS = 2000


@dataclasses.dataclass(frozen=True)
class FolderWeights:
    """What the safetensors of a folder hold, from their headers."""

    n_bytes: int
    n_elements: int
    names: frozenset[str]
    """Of all tensors."""

    @property
    def bits_per_element(self) -> float:
        """Average over all tensors."""
        return 8 * self.n_bytes / max(self.n_elements, 1)


def read_config(folder: Path, *, trust_remote_code: bool = False) -> PretrainedConfig:
    """Read config.json as the configuration class that its model type names.

    Code that a repo ships is never run unless asked for. A repo that ships code although transformers
    knows its model type is read with transformers' own.

    Raises:
        ModelFileError: If the folder or config.json is missing, malformed, or of an unknown model type.
        InputError: If the model exists only as code in its repo and that was not asked for.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    from hubaudit.load.quiet import quiet_transformers

    raw = _read_json(folder, "config.json")
    model_type = raw.get("model_type")
    known = model_type in CONFIG_MAPPING
    if raw.get("auto_map") and not known and not trust_remote_code:
        raise InputError(
            f"{folder}: config.json asks to run Python code from the repo (auto_map, model type {model_type}), "
            "which is refused. Read that code, then allow it with --trust-remote-code."
        )
    if not known and not trust_remote_code:
        raise ModelFileError(
            f"{folder}: expected a model type that the installed transformers knows in config.json, got "
            f"{model_type!r}. Upgrade transformers, or check that this is a language model."
        )
    layers = raw.get("num_hidden_layers", raw.get("n_layer"))
    if isinstance(layers, int) and layers > _MAX_LAYERS:
        raise ModelFileError(
            f"{folder}: expected a model of at most {_MAX_LAYERS} layers, config.json says {layers}. Check the file."
        )
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=trust_remote_code and not known
            )
    except Exception as exc:  # every configuration class checks in its own way
        raise ModelFileError(
            f"{folder}: expected a valid config.json for {model_type}, got: {first_line(exc)}. Download the file again."
        ) from exc


def check_weights(folder: Path) -> FolderWeights:
    """Check that the folder's safetensors are all there and whole.

    Raises:
        ModelFileError: If there are none, a shard is missing, or a file is truncated or no safetensors.
    """
    headers = [_read_header(file) for file in weight_files(folder)]
    return FolderWeights(
        n_bytes=sum(header.n_bytes for header in headers),
        n_elements=sum(header.n_elements for header in headers),
        names=frozenset().union(*(header.names for header in headers)),
    )


def weight_files(folder: Path) -> list[Path]:
    """The safetensors that hold the model: one file, those of the index, or all.

    Raises:
        ModelFileError: If there are none, or one of the index is missing.
    """
    single = folder / "model.safetensors"
    files = [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.is_file() and not single.is_file():
        weight_map = _read_json(folder, index.name).get("weight_map")
        if not isinstance(weight_map, dict):
            raise ModelFileError(f"{index}: expected a weight_map, got none. Download the file again.")
        # The last part only: an index cannot lead out of the folder.
        files = [folder / Path(str(name)).name for name in sorted(set(weight_map.values()))]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise ModelFileError(
                f"{folder}: expected the {len(files)} files that {index.name} lists, {missing[0]} is missing. "
                "Download the model again."
            )
    if not files:
        raise ModelFileError(_no_weights(folder))
    return files


def read_tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of all of a folder's files, mapped from the disk."""
    from safetensors import safe_open

    for file in weight_files(folder):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no dict
                yield name, opened.get_tensor(name)


def _no_weights(folder: Path) -> str:
    ggufs = sorted(folder.glob("*.gguf"))
    if ggufs:
        return f"{folder}: expected safetensors, got GGUF files. Give the path of one of them, as {ggufs[0]}."
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        return (
            f"{folder}: expected safetensors, got pickled weights, which can run code and are refused. Load them "
            "where you trust them and save with model.save_pretrained(folder), or use a revision with safetensors."
        )
    return f"{folder}: expected *.safetensors beside config.json, got no weights. Download the model again."


def _read_header(file: Path) -> FolderWeights:
    """What one safetensors file holds."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= size - 8:
                raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
            header = json.loads(stream.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        n_bytes = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
        n_elements = sum(math.prod(entry["shape"]) for entry in tensors.values())
    except OSError as exc:
        raise ModelFileError(f"{file}: expected a readable file ({exc.strerror}). Check its rights.") from exc
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
        raise ModelFileError(
            f"{file}: expected a safetensors file, got {first_line(exc)}. Download the file again."
        ) from exc
    if 8 + length + n_bytes != size:
        raise ModelFileError(
            f"{file}: expected {8 + length + n_bytes:,} bytes by its header, got {size:,}. The file is truncated or "
            "damaged: download it again."
        )
    return FolderWeights(n_bytes, n_elements, frozenset(tensors))


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelFileError(f"{folder}: expected a model's folder, got none. Check the path.")
    file = folder / name
    if not file.is_file():
        raise ModelFileError(
            f"{folder}: expected a {name}, got none. Give a model's folder; for a GGUF file give the file's path."
        )
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelFileError(f"{file}: expected JSON, got: {first_line(exc)}. Download the file again.") from exc
    if not isinstance(value, dict):
        raise ModelFileError(f"{file}: expected a JSON object, got {type(value).__name__}. Download the file again.")
    return value


def first_line(exc: BaseException) -> str:
    """The first line of a foreign message, without a full stop, so that ours stays one line."""
    lines = str(exc).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(exc).__name__
