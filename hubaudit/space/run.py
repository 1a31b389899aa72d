"""One audit as a stream of events, which stops when it is told to or when its time is up."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Iterator
from typing import Literal

from hubaudit.errors import HubAuditError
from hubaudit.publish.push import hide_tokens
from hubaudit.report.schema import Report
from hubaudit.settings import AuditSettings

__all__ = ["Event", "audit_events"]

_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """What happened."""

    kind: Literal["step", "line", "report", "error"]
    text: str = ""
    done: float | None = None
    """Part of the step that is done, 0 to 1; None where its length is not known."""
    seconds_left: float | None = None
    """Of the step."""
    report: Report | None = None


class _Listener:
    """Hands the steps on, and ends the audit from inside, between two batches, when it must stop."""

    def __init__(self, events: queue.Queue[Event | None], stop: threading.Event, deadline: float) -> None:
        self._events = events
        self._stop = stop
        self._deadline = deadline
        self._steps = threading.local()

    def begin(self, label: str, total: int) -> None:
        """A step of this thread begins."""
        self._check()
        self._steps.current = (label, total, 0, time.monotonic())
        self._events.put(Event(kind="step", text=label, done=0.0 if total else None))

    def advance(self, amount: int) -> None:
        """Part of it is done."""
        self._check()
        label, total, done, started = getattr(self._steps, "current", ("", 0, 0, 0.0))
        if not total:
            return
        done += amount
        self._steps.current = (label, total, done, started)
        left = (time.monotonic() - started) / done * (total - done) if done else None
        self._events.put(Event(kind="step", text=label, done=min(1.0, done / total), seconds_left=left))

    def end(self) -> None:
        """It is over."""
        self._steps.current = ("", 0, 0, 0.0)

    def say(self, text: str) -> None:
        """A line for the visitor."""
        self._events.put(Event(kind="line", text=text))

    def _check(self) -> None:
        if self._stop.is_set() or time.monotonic() > self._deadline:
            # As Ctrl-C in a terminal: what is finished stays in the report.
            raise KeyboardInterrupt


def audit_events(settings: AuditSettings, stop: threading.Event, *, max_seconds: float) -> Iterator[Event]:
    """Run an audit in a thread and tell what happens; closing the generator stops the audit.

    Args:
        settings: What to audit.
        stop: Set it to end the audit after the current batch; finished variants are reported.
        max_seconds: Time after which it ends by itself in the same way.

    Yields:
        Steps and lines, and at the end either a report or an error.
    """
    events: queue.Queue[Event | None] = queue.Queue()
    started = time.monotonic()
    listener = _Listener(events, stop, started + max_seconds)

    def run() -> None:
        from hubaudit.pipeline import Pipeline

        try:
            events.put(Event(kind="report", report=Pipeline(settings, listener).run()))
        except HubAuditError as exc:
            events.put(Event(kind="error", text=hide_tokens(str(exc))))
        except KeyboardInterrupt:
            late = time.monotonic() - started > max_seconds
            why = f"the limit of {max_seconds / 60:.0f} minutes was reached" if late else "the audit was stopped"
            events.put(Event(kind="error", text=f"{why} before the base was finished; nothing was lost or stored"))
        except Exception as exc:  # a visitor sees one line; the traceback goes to the server's log
            events.put(Event(kind="error", text=f"something failed that should not ({type(exc).__name__}); try again"))
            raise
        finally:
            events.put(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (event := _next(events)) is not None:
            yield event
    finally:
        stop.set()


def _next(events: queue.Queue[Event | None]) -> Event | None:
    """The newest of the steps that wait, so that a slow page does not fall behind; nothing else is passed over."""
    event = events.get()
    while event is not None and event.kind == "step":
        try:
            following = events.get_nowait()
        except queue.Empty:
            break
        event = following
    return event
