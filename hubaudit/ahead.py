"""Work that runs beside the main thread and is waited for later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Ahead"]

T = TypeVar("T")


class Ahead(Generic[T]):
    """A call that has begun already.

    Unlike an executor's, its thread never keeps the program from ending: a download that nobody waits for any more
    stops with it.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        """Begin a call in a thread of its own."""
        self._call = call
        self._value: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for the call and return what it returned, or raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set, since there was no error

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as exc:  # it belongs to whoever asks for the result
            self._error = exc
