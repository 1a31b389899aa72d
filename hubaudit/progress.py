"""How long work tells that it goes on: a protocol, and a silent listener."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

__all__ = ["Progress", "Silent", "short_spec", "time_left"]

_COMMIT = re.compile(r"(@[0-9a-f]{8})[0-9a-f]{32}")


class Progress(Protocol):
    """Receives the steps of an audit."""

    def begin(self, label: str, total: int) -> None:
        """A step begins; `total` counts what `advance` will report, 0 where that is unknown."""

    def advance(self, amount: int) -> None:
        """Part of the step is done."""

    def end(self) -> None:
        """The step is done or has failed."""

    def say(self, text: str) -> None:
        """One line that the user should see now."""


class Silent:
    """Says nothing."""

    def begin(self, label: str, total: int) -> None:
        """Ignore."""

    def advance(self, amount: int) -> None:
        """Ignore."""

    def end(self) -> None:
        """Ignore."""

    def say(self, text: str) -> None:
        """Ignore."""


def short_spec(spec: str) -> str:
    """For a line of progress: the last part of a path, a commit by its first digits."""
    path = Path(spec)
    return path.name if path.is_absolute() else _COMMIT.sub(r"\1", spec)


def time_left(seconds: float) -> str:
    """Seconds in words, rounded."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
