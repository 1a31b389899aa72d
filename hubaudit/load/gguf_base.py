"""A Hugging Face folder from a GGUF file alone, for repos that hold nothing else and for the demo."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from hubaudit.errors import ModelFileError, OutOfDiskError
from hubaudit.load.folder import EXPANSION_MARKER, first_line
from hubaudit.load.memory import is_out_of_memory, memory_guard
from hubaudit.load.quiet import quiet_transformers

__all__ = ["expand_gguf"]


def expand_gguf(path: Path, folder: Path, *, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write config.json, safetensors and tokenizer from a GGUF file's own metadata and tensors.

    Configuration and tokenizer go through transformers' converters (about 10 s for 50,000 tokens), the
    tensors through ours. The folder appears under its name only when it is complete, and is reused
    as long as it came from the same content in the same dtype.

    Args:
        path: A GGUF file that holds a tokenizer.
        folder: Where the result goes.
        dtype: Of the safetensors.

    Returns:
        The folder.

    Raises:
        MissingExtraError: If the package gguf is not installed.
        ModelFileError: If the file is damaged, of an unsupported architecture, or lacks a tokenizer.
        OutOfDiskError: If there is no room.
    """
    from hubaudit.load.gguf_file import open_gguf

    file = open_gguf(path)
    origin = {"file": path.name, "dtype": str(dtype), "sha256": _digests(file.paths)}
    marker = folder / EXPANSION_MARKER
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == origin:
        return folder
    with memory_guard(f"the metadata of {path.name}"):
        config, tokenizer = _converted(path)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with memory_guard(f"expanding {path.name}"), quiet_transformers():
            _filled(file, config, dtype).save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        (partial / EXPANSION_MARKER).write_text(json.dumps(origin), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as exc:
        if exc.errno == errno.ENOSPC:
            raise OutOfDiskError(
                f"{folder}: expected room for the expanded {path.name}, the disk is full. Free some space, or choose "
                "another --cache-dir."
            ) from exc
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _digests(paths: list[Path]) -> list[str]:
    digests = []
    for path in paths:
        with path.open("rb") as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return digests


def _converted(path: Path) -> tuple[Any, Any]:
    """Configuration and tokenizer as transformers reads them from the file's metadata."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name, local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name, local_files_only=True)
    except Exception as exc:  # the converters check little and fail anywhere
        if is_out_of_memory(exc):
            raise
        raise ModelFileError(
            f"{path.name}: expected metadata that transformers can turn into a configuration and a tokenizer, got: "
            f"{first_line(exc)}. Give a base with config.json and tokenizer instead."
        ) from exc
    # What marks the configuration as read from a GGUF file would make the saved folder claim to be quantized.
    for name in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    return config, tokenizer


def _filled(file: Any, config: Any, dtype: torch.dtype) -> Any:
    from hubaudit.load.gguf import allocate
    from hubaudit.load.gguf_arch import architecture_for
    from hubaudit.load.gguf_fill import fill
    from hubaudit.load.gguf_names import match_tensors

    architecture = architecture_for(file.architecture, config.model_type, file_name=file.paths[0].name)
    model = allocate(config, dtype, torch.device("cpu"))
    targets = match_tensors(model, file, architecture, config)
    fill(
        (file.tensors[tensor], target.view, architecture.restorer(tensor, config)) for tensor, target in targets.items()
    )
    return model
