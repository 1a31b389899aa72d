"""A GGUF file's header: metadata and where each tensor lies, checked against the file's real size.

`gguf.GGUFReader` makes an array object for every token string (2.3 s for 49,152 tokens) and believes
whatever counts and offsets the file states. Here token arrays are stepped over, and a header that
promises more than the file holds is an error, not a hang.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import dataclasses
import functools
import math
import mmap
import struct
from pathlib import Path
from typing import Any

from hubaudit.errors import ModelFileError
from hubaudit.load.extras import require
from hubaudit.load.gguf_shards import shard_paths

__all__ = ["FLOAT_TYPES", "GgufFile", "MetadataArray", "TensorInfo", "open_gguf", "read_tokens"]

FLOAT_TYPES = ("F32", "F16", "BF16", "F64")
"""Tensor types that hold plain numbers, as opposed to quantized blocks."""

_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
# Value types by number: unsigned and signed integers of 1, 2, 4 bytes, float32, bool, then 8 bytes, float64.
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SCALARS = {number: struct.Struct("<" + code) for number, code in _CODES.items()}
_U32, _U64 = _SCALARS[4], _SCALARS[10]
# The smallest possible entry: an empty key and a one-byte value; a tensor with one dimension.
_MIN_METADATA_BYTES, _MIN_TENSOR_BYTES = 8 + 4 + 1, 8 + 4 + 8 + 4 + 8


@dataclasses.dataclass(frozen=True)
class MetadataArray:
    """An array in the metadata, read only on demand."""

    path: Path
    element_type: int
    length: int
    offset: int
    """Of the first element, from the start of the file."""


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies and how it is stored."""

    name: str
    shape: tuple[int, ...]
    """In torch's order: rows first."""
    type_name: str
    path: Path
    offset: int
    """From the start of the file, in bytes."""
    n_bytes: int

    @property
    def n_elements(self) -> int:
        """Numbers that the tensor holds."""
        return math.prod(self.shape)

    @property
    def quantized(self) -> bool:
        """Whether it is stored in blocks rather than as plain numbers."""
        return self.type_name not in FLOAT_TYPES


@dataclasses.dataclass(frozen=True)
class GgufFile:
    """The headers of a model's file or files, joined."""

    paths: list[Path]
    metadata: dict[str, Any]
    """Numbers, strings, booleans and `MetadataArray`."""
    tensors: dict[str, TensorInfo]

    @property
    def architecture(self) -> str:
        """`general.architecture`."""
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str):
            raise ModelFileError(
                f"{self.paths[0].name}: expected the architecture in general.architecture, got {value!r}. "
                "Use a file that holds a language model."
            )
        return value

    def strings(self, key: str) -> list[bytes]:
        """A metadata array of strings, as `tokenizer.ggml.tokens`; empty if the file has none."""
        array = self.metadata.get(key)
        if not isinstance(array, MetadataArray) or array.element_type != _STRING:
            return []
        with array.path.open("rb") as stream, _map(stream) as data:
            cursor = _Cursor(data, array.path.name, array.offset)
            return [cursor.string() for _ in range(array.length)]


def open_gguf(path: Path) -> GgufFile:
    """Read the header of a GGUF file, or of all shards where `path` is one of several.

    Raises:
        MissingExtraError: If the package gguf is not installed.
        ModelFileError: If a file is missing, empty, no GGUF, truncated, or its header promises more
            than the file holds; the message names the tensor or entry.
    """
    require("gguf", extra="gguf", what=path.name)
    paths = shard_paths(path)
    metadata: dict[str, Any] = {}
    tensors: dict[str, TensorInfo] = {}
    for shard in paths:
        shard_metadata, shard_tensors = _read_header(shard)
        metadata = {**shard_metadata, **metadata}  # the first shard holds the model's metadata
        for name, info in shard_tensors.items():
            if name in tensors:
                raise ModelFileError(
                    f"{shard.name}: expected every tensor once, got {name} twice. Download the file again."
                )
            tensors[name] = info
    return GgufFile(paths, metadata, tensors)


def read_tokens(path: Path) -> list[str] | None:
    """The vocabulary of a GGUF file as its tokenizer spells it, or None if it holds none.

    Raises:
        MissingExtraError: If the package gguf is not installed.
        ModelFileError: As `open_gguf`.
    """
    tokens = open_gguf(path).strings("tokenizer.ggml.tokens")
    return [token.decode("utf-8", errors="replace") for token in tokens] or None


def _read_header(path: Path) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                size = path.stat().st_size
                found = f"{size} bytes that begin otherwise" if size else "an empty file"
                raise ModelFileError(
                    f"{path}: expected a GGUF file, got {found}. Download the file again, or give another path."
                )
            with _map(stream) as data:
                return _parse(_Cursor(data, path.name, 4), path)
    except OSError as exc:
        raise ModelFileError(f"{path}: expected a readable GGUF file ({exc.strerror}). Check the path.") from exc


def _map(stream: Any) -> mmap.mmap:
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class _Cursor:
    """Reads forward through a header; never past the file's end."""

    def __init__(self, data: mmap.mmap, name: str, position: int) -> None:
        self.data = data
        self.name = name
        self.position = position

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def scalar(self, layout: struct.Struct) -> Any:
        self.check(layout.size, "a number")
        (value,) = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return value

    def string(self) -> bytes:
        length = self.scalar(_U64)
        self.check(length, "a string")
        value = self.data[self.position : self.position + length]
        self.position += length
        return value

    def text(self) -> str:
        value = self.string()
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ModelFileError(
                f"{self.name}: expected UTF-8 text in the header, got other bytes before byte {self.position}. "
                "Download the file again."
            ) from exc

    def skip_strings(self, count: int) -> None:
        data, position, end, unpack = self.data, self.position, len(self.data), _U64.unpack_from
        for _ in range(count):
            if position + 8 > end:
                break
            position += 8 + unpack(data, position)[0]
        else:
            if position <= end:
                self.position = position
                return
        self.check(end, "an array of strings")

    def check(self, size: int, what: str) -> None:
        """Raise unless `size` more bytes are there."""
        if size > self.left:
            raise ModelFileError(
                f"{self.name}: expected {size:,} more bytes for {what} in the header at byte {self.position:,}, "
                f"got {self.left:,}. The file is truncated or damaged: download it again."
            )


def _parse(cursor: _Cursor, path: Path) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    version = cursor.scalar(_U32)
    if version not in _VERSIONS:
        raise ModelFileError(
            f"{path.name}: expected GGUF version 2 or 3 in little-endian order, got version {version:#x}. "
            "Use a file written by a current llama.cpp."
        )
    n_tensors, n_metadata = cursor.scalar(_U64), cursor.scalar(_U64)
    cursor.check(n_metadata * _MIN_METADATA_BYTES, f"{n_metadata:,} metadata entries")
    metadata: dict[str, Any] = {}
    for _ in range(n_metadata):
        key = cursor.text()
        metadata[key] = _value(cursor, path, key, cursor.scalar(_U32))
    cursor.check(n_tensors * _MIN_TENSOR_BYTES, f"{n_tensors:,} tensor entries")
    entries = [_tensor_entry(cursor) for _ in range(n_tensors)]
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise ModelFileError(
            f"{path.name}: expected a power of two in general.alignment, got {alignment!r}. Download the file again."
        )
    start = -(-cursor.position // alignment) * alignment
    tensors: dict[str, TensorInfo] = {}
    for entry in entries:
        info = _locate(*entry, path=path, start=start, alignment=alignment, file_size=len(cursor.data))
        if info.name in tensors:
            raise ModelFileError(
                f"{path.name}: expected every tensor once, got {info.name} twice. Download the file again."
            )
        tensors[info.name] = info
    return metadata, tensors


def _value(cursor: _Cursor, path: Path, key: str, value_type: int) -> Any:
    if value_type in _SCALARS:
        return cursor.scalar(_SCALARS[value_type])
    if value_type == _STRING:
        return cursor.text()
    if value_type == _ARRAY:
        element_type, length = cursor.scalar(_U32), cursor.scalar(_U64)
        array = MetadataArray(path, element_type, length, cursor.position)
        if element_type in _SCALARS:
            size = length * _SCALARS[element_type].size
            cursor.check(size, f"the array {key}")
            cursor.position += size
            return array
        if element_type == _STRING:
            cursor.check(length * _U64.size, f"the array {key}")
            cursor.skip_strings(length)
            return array
        value_type = element_type
    raise ModelFileError(
        f"{path.name}: expected a known value type for {key}, got type {value_type}. Download the file again."
    )


def _tensor_entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text()
    n_dimensions = cursor.scalar(_U32)
    if not 1 <= n_dimensions <= _MAX_DIMENSIONS:
        raise ModelFileError(
            f"{cursor.name}: expected 1 to {_MAX_DIMENSIONS} dimensions for tensor {name}, got {n_dimensions}. "
            "Download the file again."
        )
    dimensions = [cursor.scalar(_U64) for _ in range(n_dimensions)]
    return name, tuple(reversed(dimensions)), cursor.scalar(_U32), cursor.scalar(_U64)


def _locate(
    name: str,
    shape: tuple[int, ...],
    type_number: int,
    relative_offset: int,
    *,
    path: Path,
    start: int,
    alignment: int,
    file_size: int,
) -> TensorInfo:
    block_size, block_bytes, type_name = _tensor_type(name, type_number, path)
    if shape[-1] % block_size or 0 in shape:
        raise ModelFileError(
            f"{path.name}: expected rows of tensor {name} in blocks of {block_size} ({type_name}), got the shape "
            f"{list(shape)}. Download the file again."
        )
    n_bytes = math.prod(shape) // block_size * block_bytes
    if relative_offset % alignment or start + relative_offset + n_bytes > file_size:
        raise ModelFileError(
            f"{path.name}: expected {n_bytes:,} bytes of tensor {name} at byte {start + relative_offset:,}, got a "
            f"file of {file_size:,} bytes. The file is truncated or damaged: download it again."
        )
    return TensorInfo(name, shape, type_name, path, start + relative_offset, n_bytes)


def _tensor_type(name: str, type_number: int, path: Path) -> tuple[int, int, str]:
    """Numbers a block, bytes a block, and the type's name; an error if it cannot be expanded."""
    block_size, block_bytes, label = _block_layout(type_number)
    if block_size == 0:
        raise ModelFileError(
            f"{path.name}: expected a type that the gguf package expands for tensor {name}, got {label}. "
            "Use another quantization of this model, or a newer gguf package."
        )
    return block_size, block_bytes, label


@functools.cache
def _block_layout(type_number: int) -> tuple[int, int, str]:
    """Numbers a block, bytes a block, name; zeros where the type is unknown or cannot be expanded."""
    import gguf
    import numpy as np

    try:
        kind = gguf.GGMLQuantizationType(type_number)
        block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        return 0, 0, f"type number {type_number}"
    if kind.name not in FLOAT_TYPES:
        try:
            # The package has no list of what it expands; one zero block asks it.
            gguf.quants.dequantize(np.zeros((1, block_bytes), dtype=np.uint8), kind)
        except NotImplementedError:
            return 0, 0, str(kind.name)
    return int(block_size), int(block_bytes), str(kind.name)
