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

__all__ = ["memory_guard", "release"]


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
    except MemoryError as exc:
        raise _out_of_memory(what) from exc
    except RuntimeError as exc:
        # torch.OutOfMemoryError is a RuntimeError; the CPU allocator raises a bare one with this text.
        text = str(exc)
        if type(exc).__name__ == "OutOfMemoryError" or "can't allocate memory" in text:
            raise _out_of_memory(what) from exc
        raise


def _out_of_memory(what: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"No memory for {what}: expected it to fit on the device. Close other programs, use a smaller "
        "model, lower --batch-tokens, or choose another --device."
    )


def release(device: torch.device) -> None:
    """Hand memory that Python no longer refers to back to the system, so that the next model fits."""
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        # glibc keeps freed blocks below its growing mmap threshold; a model has hundreds of them.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
