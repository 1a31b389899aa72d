"""How long work tells that it goes on: a protocol, and a silent listener."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "Silent"]


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
