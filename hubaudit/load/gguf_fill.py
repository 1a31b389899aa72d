"""Read GGUF tensors, expand them, and write them into a model's memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from typing import Any

import gguf
import numpy as np
import torch

from hubaudit.errors import ModelFileError
from hubaudit.load.gguf_file import TensorInfo

__all__ = ["FillTask", "fill"]

FillTask = tuple[TensorInfo, torch.Tensor, Callable[[torch.Tensor], torch.Tensor] | None]
"""A tensor, the memory that it fills, and how its rearrangement is undone (None: it was stored as it is)."""

# Numbers expanded at once: small enough for a CPU's cache and for little extra memory, large enough that
# numpy's overhead vanishes; a multiple of every block size.
_CHUNK = 1 << 18
_TORCH_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
_MAX_THREADS = 4


@torch.no_grad()
def fill(tasks: Iterable[FillTask]) -> None:
    """Read every tensor once and write it to its place, several at a time.

    Beside the model this holds a chunk for each thread, or the whole tensor (float32) while a
    rearrangement is undone.

    Raises:
        ModelFileError: If a file ends early, having passed the check of its header.
    """
    ordered = sorted(tasks, key=lambda task: -task[0].n_bytes)  # the embedding first, or it ends alone
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(_fill_one, ordered):
            pass


def _fill_one(task: FillTask) -> None:
    info, target, restore = task
    if restore is None and target.is_contiguous():
        flat = target.view(-1)
        for start, values in _chunks(info):
            flat[start : start + len(values)].copy_(values)
        return
    whole = torch.empty(info.shape, dtype=torch.float32)
    flat = whole.view(-1)
    for start, values in _chunks(info):
        flat[start : start + len(values)].copy_(values)
    target.copy_((whole if restore is None else restore(whole)).reshape(target.shape))


def _chunks(info: TensorInfo) -> Iterator[tuple[int, torch.Tensor]]:
    """Start and numbers of each chunk, in order; a chunk is valid until the next one is asked for."""
    kind = gguf.GGMLQuantizationType[info.type_name]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    buffer = np.empty(min(_CHUNK, info.n_elements) // block_size * block_bytes, dtype=np.uint8)
    with info.path.open("rb") as stream:
        stream.seek(info.offset)
        for start in range(0, info.n_elements, _CHUNK):
            count = min(_CHUNK, info.n_elements - start)
            raw = buffer[: count // block_size * block_bytes]
            _read_exactly(stream, raw, info)
            yield start, _expand(raw, info.type_name, kind)


def _read_exactly(stream: BufferedReader, buffer: np.ndarray[Any, Any], info: TensorInfo) -> None:
    if stream.readinto(buffer.data) != buffer.nbytes:
        raise ModelFileError(
            f"{info.path.name}: expected {info.n_bytes:,} bytes of tensor {info.name}, got fewer: the file changed "
            "while it was read. Load it again when its download is complete."
        )


def _expand(raw: np.ndarray[Any, Any], type_name: str, kind: Any) -> torch.Tensor:
    plain = _TORCH_TYPES.get(type_name)
    if plain is not None:
        return torch.from_numpy(raw).view(plain)
    # As a single row: gguf expands row by row in groups of 16, which is slow for many short rows.
    # A damaged scale overflows here without a warning; non-finite activations are counted where they matter.
    with np.errstate(all="ignore"):
        return torch.from_numpy(gguf.quants.dequantize(raw.reshape(1, -1), kind).reshape(-1))
