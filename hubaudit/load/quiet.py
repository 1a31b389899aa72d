"""Keep other packages' logs and progress bars out of our terminal."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from transformers.utils import logging as transformers_logging

__all__ = ["quiet_transformers", "silence_int8_casts"]


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Only errors, and no progress bars, from transformers; the old settings come back afterwards."""
    verbosity = transformers_logging.get_verbosity()
    progress = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if progress:
            transformers_logging.enable_progress_bar()


def _is_no_cast_notice(record: logging.LogRecord) -> bool:
    return "inputs will be cast" not in str(record.msg)


def silence_int8_casts() -> None:
    """Drop bitsandbytes' notice that inputs become float16: it comes once per layer and batch."""
    # addFilter keeps one copy of the same function, however often this is called.
    logging.getLogger("bitsandbytes.autograd._functions").addFilter(_is_no_cast_notice)
