"""llama.cpp through the low-level calls of llama-cpp-python: imported late, its log kept for error messages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from hubaudit.load.extras import require

__all__ = ["library", "logged_errors"]

_MESSAGES: list[str] = []
_LAST_MESSAGES = 200


def library(what: str = "--engine-gguf llamacpp") -> Any:
    """The module `llama_cpp`, its backends loaded and its log silenced for the whole process.

    Args:
        what: What needs it, as the message begins.

    Raises:
        MissingExtraError: If llama-cpp-python is not installed.
    """
    require("llama_cpp", extra="llamacpp", what=what)
    import llama_cpp

    llama_cpp.llama_log_set(_callback(llama_cpp), None)
    llama_cpp.llama_backend_init()  # once or often is the same
    return llama_cpp


@contextlib.contextmanager
def logged_errors() -> Iterator[list[str]]:
    """What llama.cpp says while the block runs, a line each; it explains no failure in any other way."""
    _MESSAGES.clear()
    yield _MESSAGES


@functools.cache  # the library keeps the bare pointer: the object must live as long as the process
def _callback(llama_cpp: Any) -> Any:
    def keep(_level: int, text: bytes, _data: Any) -> None:
        _MESSAGES.append(text.decode("utf-8", errors="replace").strip())
        del _MESSAGES[:-_LAST_MESSAGES]

    return llama_cpp.llama_log_callback(keep)
