"""llama.cpp through the low-level calls of llama-cpp-python: imported late, its log kept for error messages."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

from hubaudit.load.extras import require

__all__ = ["library", "library_version", "said"]

_LAST_MESSAGES = 50
_WARNING, _ERROR = 3, 4  # llama.cpp's levels; 5 continues the line before
_messages: list[str] = []


def library(what: str = "--engine-gguf llamacpp") -> Any:
    """The module `llama_cpp`, its backends loaded and its log silenced for the whole process.

    Args:
        what: What needs it, as the message begins.

    Raises:
        MissingExtraError: If llama-cpp-python is not installed.
    """
    require("llama_cpp", extra="llamacpp", what=what)
    import llama_cpp

    llama_cpp.llama_log_set(_listener(llama_cpp), None)
    llama_cpp.llama_backend_init()  # once or often is the same
    _messages.clear()
    return llama_cpp


def library_version() -> str:
    """The version of llama-cpp-python, which pins llama.cpp's own; empty where it is not installed."""
    try:
        return metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return ""


def said() -> str:
    """Warnings and errors since the last call of `library`, on one line: the only explanation of a failure."""
    lines = [line for line in _messages if any(word in line for word in ("fail", "error", "unable", "unknown"))]
    return "; ".join(dict.fromkeys(lines or _messages[-1:])) or "it does not say why"


@functools.cache  # the library keeps the bare pointer: the object must live as long as the process
def _listener(llama_cpp: Any) -> Any:
    def keep(level: int, text: bytes, _data: Any) -> None:
        if level in (_WARNING, _ERROR):
            _messages.append(" ".join(text.decode("utf-8", errors="replace").split()))
            del _messages[:-_LAST_MESSAGES]

    return llama_cpp.llama_log_callback(keep)
