"""What a safetensors file holds, from its header alone."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from hubaudit.errors import ModelFileError
from hubaudit.hub.remote_file import RemoteFile

__all__ = [
    "FLOAT_DTYPES",
    "MAX_SAFETENSORS_HEADER",
    "StoredTensor",
    "file_of_head",
    "head_of",
    "safetensors_header",
]

FLOAT_DTYPES = frozenset({"F64", "F32", "F16", "BF16"})
MAX_SAFETENSORS_HEADER = 16 << 20
_LENGTH_BYTES = 8
_MAX_DIMENSIONS = 8
_MAX_SIDE = 1 << 40
_HEADS = (
    "lm_head.",
    "model.lm_head.",
    "language_model.lm_head.",
    "model.language_model.lm_head.",
    "embed_out.",
    "output.",
)
_EMBEDDINGS = ("embed_tokens.", "wte.", "embed_in.", "tok_embeddings.", "word_embeddings.")
# What stands beside or in place of a weight that is packed: GPTQ and AWQ, compressed-tensors, bitsandbytes.
_PACKED = (".qweight", ".weight_packed", ".SCB", ".absmax", ".quant_map")


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """Type and shape of a tensor in the file."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def n_elements(self) -> int:
        """Numbers that it holds."""
        return math.prod(self.shape)


def safetensors_header(file: RemoteFile) -> dict[str, StoredTensor]:
    """Read the header of a safetensors file.

    Returns:
        Every tensor by name.

    Raises:
        ModelFileError: If the header is too long, no header, or promises another size than the file has.
        Exception: Whatever huggingface_hub raises; call it within `hub_errors`.
    """
    length = int.from_bytes(file.read(0, _LENGTH_BYTES), "little")
    if not 2 <= length <= min(MAX_SAFETENSORS_HEADER, file.size - _LENGTH_BYTES):
        raise _damaged(file, f"a header of {length:,} bytes in a file of {file.size:,}")
    try:
        entries = json.loads(file.read(_LENGTH_BYTES, length))
    except (ValueError, RecursionError) as exc:
        raise _damaged(file, f"a header that is no JSON ({type(exc).__name__})") from exc
    if not isinstance(entries, dict):
        raise _damaged(file, "a header that is no JSON object")
    entries.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, entry in entries.items():
        tensor, stop = _tensor(file, entry)
        tensors[name] = tensor
        end = max(end, stop)
    if _LENGTH_BYTES + length + end != file.size:
        raise _damaged(file, f"a header for {_LENGTH_BYTES + length + end:,} bytes in a file of {file.size:,}")
    return tensors


def head_of(tensors: dict[str, StoredTensor]) -> tuple[bool, str, StoredTensor | None] | None:
    """The output head, or the input embedding that stands for it where the two are tied.

    Args:
        tensors: Tensors by name, of the file that holds the head.

    Returns:
        Whether it is quantized, its stored type, and its weight where that is stored as plain numbers; None where
        the file holds neither.
    """
    for starts in (_HEADS, _EMBEDDINGS):
        found = {name: tensor for name, tensor in tensors.items() if _belongs(name, starts)}
        weights = [tensor for name, tensor in found.items() if name.endswith(".weight")]
        if packed := [name for name in found if any(mark in name for mark in _PACKED)]:
            dtype = weights[0].dtype if weights else found[packed[0]].dtype
            return True, f"packed in {dtype}", None
        if weights:
            plain = weights[0].dtype in FLOAT_DTYPES
            return not plain, weights[0].dtype, weights[0]
    return None


def file_of_head(weight_map: Any) -> str | None:
    """Which file holds the output head, or the embedding tied to it, by the index of a sharded model."""
    if not isinstance(weight_map, dict):
        return None
    for starts in (_HEADS, _EMBEDDINGS):
        for name, file in weight_map.items():
            if _belongs(name, starts) and isinstance(file, str):
                return file
    return None


def _belongs(name: str, starts: tuple[str, ...]) -> bool:
    return name.startswith(starts) or (starts is _EMBEDDINGS and any(f".{start}" in name for start in starts))


def _tensor(file: RemoteFile, entry: Any) -> tuple[StoredTensor, int]:
    if not isinstance(entry, dict):
        raise _damaged(file, "a tensor without type and shape")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(side) is int and 0 <= side <= _MAX_SIDE for side in shape)
        or not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(offset) is int for offset in offsets)
        or not 0 <= offsets[0] <= offsets[1] <= file.size
    ):
        raise _damaged(file, "a tensor whose type, shape or place is impossible")
    return StoredTensor(dtype[:16], tuple(shape)), offsets[1]


def _damaged(file: RemoteFile, found: str) -> ModelFileError:
    return ModelFileError(
        f"{file.repo_id}/{file.name}: expected a safetensors file, got {found}; it is truncated or damaged"
    )
