"""An identity for what a source holds, so that cached evidence is never used for other weights."""

from __future__ import annotations

import functools
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hubaudit.errors import ModelFileError
from hubaudit.load.gguf_shards import shard_paths
from hubaudit.load.model import ModelSource

__all__ = ["content_id"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
# What changes a forward pass: weights, configuration, and the code of models that bring their own.
# Tokenizers and prompts always come from the base and enter the cache's key as token ids.
_PATTERNS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "*.py",
    "adapter_config.json",
    "quantize_config.json",
)


def content_id(source: ModelSource) -> str:
    """A SHA-256 over what determines the source's weights, as 64 hex digits.

    A pinned Hub commit names its content already; local files are hashed (about a second per 300 MB,
    files of a folder in parallel). Name and place of a folder do not enter; format and option do.

    Args:
        source: Files and format.

    Returns:
        The same digits for the same content, on every machine.

    Raises:
        ModelFileError: If there is nothing to hash or a file cannot be read.
    """
    digest = hashlib.sha256(f"{source.kind}\n{source.option or ''}\n".encode())
    if source.repo_id and source.revision and _COMMIT.fullmatch(source.revision):
        # Quants and checkpoints in two folders of a repo may have one name.
        name = source.path.as_posix().rpartition(f"/{source.revision}/")[2] if "/" in source.path.as_posix() else ""
        digest.update(f"hub\n{source.repo_id}\n{source.revision}\n{name}\n".encode())
        return digest.hexdigest()
    files = _files(source.path)
    try:
        with ThreadPoolExecutor(max_workers=4) as pool:
            digests = list(pool.map(_file_digest, files))
    except OSError as exc:
        raise ModelFileError(f"{source.path} cannot be read ({exc.strerror}): check the file's rights.") from exc
    for file, file_digest in zip(files, digests, strict=True):
        # A single GGUF file keeps its identity when it is renamed.
        name = file.name if source.path.is_dir() else ""
        digest.update(f"{name}\n{file_digest}\n".encode())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted({file for pattern in _PATTERNS for file in path.glob(pattern)})
    elif path.is_file():
        files = shard_paths(path)
    else:
        files = []
    if not files:
        raise ModelFileError(
            f"{path}: expected a folder with config.json and safetensors, or a .gguf file, got neither. Check the path."
        )
    return files


def _file_digest(file: Path) -> str:
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=1024)  # an audit asks for the base's files once for each variant made from it
def _digest(file: Path, _size: int, _mtime_ns: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
