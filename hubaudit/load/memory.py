"""Memory: one error for every way of running out, and giving freed memory back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hubaudit.errors import OutOfMemoryError

if TYPE_CHECKING:
    import torch

__all__ = ["is_out_of_memory", "memory_guard", "release", "trim"]


@contextlib.contextmanager
def memory_guard(what: str) -> Iterator[None]:
    """Turn every out-of-memory exception inside into one error with a remedy.

    Args:
        what: What needed the memory, as it reads after "No memory for".

    Raises:
        OutOfMemoryError: If Python, torch on the CPU or torch on a GPU ran out of memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as exc:
        if not is_out_of_memory(exc):
            raise
        raise OutOfMemoryError(
            f"No memory for {what}: expected it to fit on the device. Close other programs, use a smaller "
            "model, lower --batch-tokens, or choose another --device."
        ) from exc


def is_out_of_memory(exc: BaseException) -> bool:
    """Whether an exception of Python or torch means that memory ran out."""
    if isinstance(exc, MemoryError):
        return True
    # torch.OutOfMemoryError is a RuntimeError; the CPU allocator raises a bare one with this text.
    out_of_torch = type(exc).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(exc)
    return isinstance(exc, RuntimeError) and out_of_torch


def release(device: torch.device) -> None:
    """Hand memory that Python no longer refers to back to the system, so that the next model fits."""
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
    trim()


def trim() -> None:
    """Hand freed blocks of the heap back to the system.

    glibc keeps them, since its threshold for returning a block at once grows with use; while weights are
    replaced one by one, what it keeps can exceed a model. Elsewhere nothing happens.
    """
    if sys.platform == "linux":
        malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if malloc_trim is not None:
            malloc_trim(0)
