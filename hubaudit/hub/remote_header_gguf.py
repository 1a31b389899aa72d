"""What a GGUF file on the Hub holds, from its header alone, read in ranges.

Nearly all of a header is the tokenizer (5 MB for 150,000 tokens), and it is the same in every quant of a base. So
the length of that part is remembered from one file to the next: it is stepped over unread, and if what follows
does not parse, the file is read again in full.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from typing import Any

from hubaudit.errors import ModelFileError
from hubaudit.hub.remote_file import RemoteFile

__all__ = [
    "MAX_GGUF_HEADER",
    "GgufHeader",
    "KnownLengths",
    "gguf_header",
    "is_float",
    "type_name",
    "unreadable_types",
]

MAX_GGUF_HEADER = 32 << 20
KnownLengths = dict[tuple[str, int, int], tuple[int, int]]
"""First array of a run of arrays (key, element type, length) -> bytes from its first element to the run's end, and how
many arrays that are."""

_FLOAT_TYPES = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SCALARS = {number: struct.Struct("<" + code) for number, code in _CODES.items()}
_STRING, _ARRAY = 8, 9
_MAX_ENTRIES, _MAX_TENSORS = 4096, 1 << 18
_MAX_KEY, _MAX_NAME, _MAX_TEXT = 1 << 16, 256, 1 << 20
_MAX_DIMENSIONS = 4
_MAX_PARAMETERS = 1 << 50
_WORTH_A_JUMP = 1 << 16


@dataclasses.dataclass(frozen=True)
class GgufHeader:
    """Metadata and tensors of one file."""

    metadata: dict[str, Any]
    """Numbers, booleans and texts; arrays are left out."""
    tensors: dict[str, tuple[tuple[int, ...], int]]
    """Shape, rows first, and type number of each tensor."""

    @property
    def n_parameters(self) -> int:
        """Numbers that the file holds."""
        return sum(math.prod(shape) for shape, _ in self.tensors.values())

    @property
    def head(self) -> tuple[tuple[int, ...], int] | None:
        """The output head; without one the input embedding, which is tied to it."""
        return self.tensors.get("output.weight") or self.tensors.get("token_embd.weight")

    @property
    def n_layers(self) -> int | None:
        """Decoder blocks, as the metadata has them."""
        value = self.metadata.get(f"{self.metadata.get('general.architecture')}.block_count")
        return value if isinstance(value, int) else None


def gguf_header(file: RemoteFile, known: KnownLengths) -> GgufHeader:
    """Read the header of a GGUF file.

    Args:
        file: The file; of a sharded model any shard.
        known: Lengths learned from earlier files; this one's are added.

    Raises:
        ModelFileError: If it is no GGUF, or its header is damaged or too long.
        Exception: Whatever huggingface_hub raises; call it within `hub_errors`.
    """
    if known:
        try:
            return _Parser(file, dict(known), learn=False).parse()
        except (_WrongGuess, ModelFileError):
            pass  # another tokenizer, or a damaged file; the full reading tells which
    parser = _Parser(file, {}, learn=True)
    header = parser.parse()
    known |= parser.known
    return header


def type_name(number: int) -> str:
    """`Q4_K` for 12; `type 12` where the package gguf is not installed or does not know it."""
    return _FLOAT_TYPES.get(number) or _layout(number)[0]


def is_float(number: int) -> bool:
    """Whether a tensor type holds plain numbers."""
    return number in _FLOAT_TYPES


def unreadable_types(header: GgufHeader) -> list[str]:
    """Names of the tensor types that the package gguf cannot expand; empty where it is not installed."""
    numbers = {number for _, number in header.tensors.values()} - set(_FLOAT_TYPES)
    return sorted(_layout(number)[0] for number in numbers if not _layout(number)[1])


@functools.cache
def _layout(number: int) -> tuple[str, bool]:
    """A type's name, and whether it can be expanded."""
    try:
        import gguf
        import numpy as np
    except ImportError:
        return f"type {number}", True
    try:
        kind = gguf.GGMLQuantizationType(number)
        # The package has no list of what it expands; one zero block asks it.
        gguf.quants.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)
    except NotImplementedError:
        return str(kind.name), False
    except (ValueError, KeyError):
        return f"type {number}", False
    return str(kind.name), True


class _WrongGuess(Exception):  # noqa: N818 - not an error, but a question answered with no
    """What follows a part that was stepped over is not what a header holds there."""


class _Parser:
    """One pass through a header."""

    def __init__(self, file: RemoteFile, known: KnownLengths, *, learn: bool) -> None:
        self.file = file
        self.known = known
        self.learn = learn
        self.position = 0
        self.jumped = False
        # Where the run of arrays that is being read began: its key, and the place of its first element.
        self.run: tuple[tuple[str, int, int], int] | None = None
        self.count = 0

    def parse(self) -> GgufHeader:
        if self.take(4) != b"GGUF":
            raise self.damaged("bytes that begin otherwise")
        version = self.number(4)
        if version not in (2, 3):
            raise self.damaged(f"version {version:#x}")
        n_tensors, n_entries = self.number(10), self.number(10)
        if n_entries > _MAX_ENTRIES or n_tensors > _MAX_TENSORS:
            raise self.damaged(f"{n_entries:,} metadata entries and {n_tensors:,} tensors")
        metadata: dict[str, Any] = {}
        done = 0
        while done < n_entries:
            key = self.text(_MAX_KEY)
            done += self.entry(key, metadata)
        self.end_run()
        tensors = dict(self.tensor() for _ in range(n_tensors))
        if len(tensors) != n_tensors:
            raise self.damaged("a tensor that is listed twice")
        header = GgufHeader(metadata, tensors)
        if header.n_parameters > _MAX_PARAMETERS:
            raise self.damaged(f"{header.n_parameters:,} parameters")
        return header

    def entry(self, key: str, metadata: dict[str, Any]) -> int:
        """Read one value; returns how many entries that was, more than one where a run was stepped over."""
        kind = self.number(4)
        if kind != _ARRAY:
            self.end_run()
        if kind in _SCALARS:
            metadata[key] = self.number(kind)
        elif kind == _STRING:
            metadata[key] = self.text(_MAX_TEXT)
        elif kind == _ARRAY:
            return self.array(key)
        else:
            raise self.damaged(f"a value of type {kind}")
        return 1

    def array(self, key: str) -> int:
        element, length = self.number(4), self.number(10)
        if element not in _SCALARS and element != _STRING:
            raise self.damaged(f"an array of type {element}")
        if length > self.file.size:
            raise self.damaged(f"an array of {length:,} elements")
        name = (key, element, length)
        if not self.learn and name in self.known:
            n_bytes, n_arrays = self.known[name]
            self.position += n_bytes
            self.jumped = True
            return n_arrays
        if self.run is None:
            self.run, self.count = (name, self.position), 0
        self.count += 1
        if element == _STRING:
            for _ in range(length):
                n_bytes = self.number(10)
                self.position += n_bytes
        else:
            self.position += length * _SCALARS[element].size
        return 1

    def end_run(self) -> None:
        """Remember how long the run of arrays was that ends here."""
        if self.learn and self.run is not None and self.position - self.run[1] >= _WORTH_A_JUMP:
            name, start = self.run
            self.known[name] = self.position - start, self.count
        self.run = None

    def tensor(self) -> tuple[str, tuple[tuple[int, ...], int]]:
        name = self.text(_MAX_NAME)
        n_dimensions = self.number(4)
        if not 1 <= n_dimensions <= _MAX_DIMENSIONS:
            raise self.damaged(f"a tensor of {n_dimensions} dimensions")
        shape = tuple(reversed([self.number(10) for _ in range(n_dimensions)]))
        kind, offset = self.number(4), self.number(10)
        if offset > self.file.size:
            raise self.damaged(f"a tensor at byte {offset:,} in a file of {self.file.size:,}")
        return name, (shape, kind)

    def take(self, count: int) -> bytes:
        found = self.file.read(self.position, count)
        self.position += count
        return found

    def number(self, kind: int) -> Any:
        layout = _SCALARS[kind]
        return layout.unpack(self.take(layout.size))[0]

    def text(self, most: int) -> str:
        length = self.number(10)
        if length > most:
            raise self.damaged(f"a text of {length:,} bytes")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError as exc:
            raise self.damaged("a text that is not UTF-8") from exc

    def damaged(self, found: str) -> Exception:
        if self.jumped:
            return _WrongGuess(found)
        return ModelFileError(
            f"{self.file.repo_id}/{self.file.name}: expected a GGUF header, got {found}; the file is damaged, of an "
            "unknown version, or no GGUF"
        )
