"""Progress bars with the time left, on standard error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hubaudit.progress import Progress as Listener
from hubaudit.progress import Silent

__all__ = ["LineProgress", "TerminalProgress", "listener"]


class _Step(threading.local):
    """A thread's own step: the next variant downloads while another one runs."""

    task: TaskID | None = None


class TerminalProgress:
    """Shows the current step of each thread as a bar that goes away when it is done."""

    def __init__(self, bars: Progress) -> None:
        """Draw into an opened set of bars."""
        self._bars = bars
        self._here = _Step()

    def begin(self, label: str, total: int) -> None:
        """Show a new bar; without a total it only moves."""
        self._here.task = self._bars.add_task(label, total=total or None)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._here.task is not None:
            self._bars.advance(self._here.task, amount)

    def end(self) -> None:
        """Take the bar away."""
        if self._here.task is not None:
            self._bars.remove_task(self._here.task)
            self._here.task = None

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)


class LineProgress:
    """Says each step in a line, for logs and pipes, where bars only make noise."""

    def __init__(self, console: Console) -> None:
        """Print to this console."""
        self._console = console

    def begin(self, label: str, total: int) -> None:
        """Print the step."""
        self.say(label)

    def advance(self, amount: int) -> None:
        """Nothing to show."""

    def end(self) -> None:
        """Nothing to show."""

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextlib.contextmanager
def listener(*, quiet: bool) -> Iterator[Listener]:
    """A listener for one run, closed after it."""
    console = Console(stderr=True)
    if quiet:
        yield Silent()
        return
    if not console.is_terminal:
        yield LineProgress(console)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield TerminalProgress(bars)
