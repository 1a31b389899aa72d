"""One audit as a stream of events, which stops when it is told to or when its time is up."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Literal

from hubaudit.errors import HubAuditError
from hubaudit.publish.push import hide_tokens
from hubaudit.report.schema import Report
from hubaudit.settings import AuditSettings

__all__ = ["Event", "audit_events"]

_POLL_SECONDS = 2.0
_GRACE_SECONDS = 120.0
_ONE_AT_A_TIME = threading.Lock()


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
    audit_id: str | None = None
    """Where the report was kept; None where no variant was finished."""


class _Clock:
    """The time of one audit, from when it begins."""

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self._started: float | None = None

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self._started is not None and time.monotonic() - self._started > self.max_seconds


class _Listener:
    """Hands the steps on, and ends the audit from inside, between two batches, when it must stop."""

    def __init__(self, events: queue.Queue[Event | None], stop: threading.Event, clock: _Clock) -> None:
        self._events = events
        self._stop = stop
        self._clock = clock
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
        if self._stop.is_set() or self._clock.is_over:
            # As Ctrl-C in a terminal: what is finished stays in the report.
            raise KeyboardInterrupt


def audit_events(
    settings: AuditSettings,
    stop: threading.Event,
    *,
    max_seconds: float,
    keep: Callable[[Report], str | None] = lambda _: None,
    afterwards: Callable[[], None] = lambda: None,
) -> Iterator[Event]:
    """Run an audit in a thread and tell what happens; closing the generator stops the audit.

    Audits run one at a time in a process: the next one waits until the thread of the one before has ended.

    Args:
        settings: What to audit.
        stop: Set it to end the audit after the current batch; finished variants are reported.
        max_seconds: Time after which it ends by itself in the same way; waiting does not count.
        keep: Stores a report and returns its id; called in the thread, so that nothing is lost when nobody listens.
        afterwards: Called in the thread when the audit is over, before the next one begins.

    Yields:
        Steps and lines, at least every few seconds, and at the end either a report or an error.
    """
    events: queue.Queue[Event | None] = queue.Queue()
    clock = _Clock(max_seconds)

    def run() -> None:
        while not _ONE_AT_A_TIME.acquire(timeout=_POLL_SECONDS):
            if stop.is_set():
                events.put(Event(kind="error", text="the audit was stopped before it began"))
                events.put(None)
                return
        try:
            clock.start()
            _audit(settings, events, stop, clock, keep)
        finally:
            events.put(None)
            try:
                afterwards()
            finally:
                _ONE_AT_A_TIME.release()

    threading.Thread(target=run, daemon=True).start()
    step = Event(kind="step", text="waiting for the audit before this one")
    overdue = 0.0
    try:
        while True:
            try:
                event = _next(events)
            except queue.Empty:
                # Something takes long without a word; the page still learns that its visitor is there.
                overdue = overdue + _POLL_SECONDS if stop.is_set() or clock.is_over else 0.0
                if overdue > _GRACE_SECONDS:
                    yield Event(kind="error", text="a step of the audit does not end; nothing more comes of it")
                    return
                yield step
                continue
            if event is None:
                return
            step = event if event.kind == "step" else step
            yield event
    finally:
        stop.set()


def _audit(
    settings: AuditSettings,
    events: queue.Queue[Event | None],
    stop: threading.Event,
    clock: _Clock,
    keep: Callable[[Report], str | None],
) -> None:
    from hubaudit.pipeline import Pipeline

    listener = _Listener(events, stop, clock)
    try:
        report = Pipeline(settings, listener).run()
        events.put(Event(kind="report", report=report, audit_id=keep(report)))
    except HubAuditError as exc:
        events.put(Event(kind="error", text=hide_tokens(str(exc))))
    except KeyboardInterrupt:
        minutes = f"the limit of {clock.max_seconds / 60:.0f} minutes was reached"
        why = minutes if clock.is_over else "the audit was stopped"
        events.put(Event(kind="error", text=f"{why} before the base was finished; there is nothing to show"))
    except Exception as exc:  # a visitor sees one line; the traceback goes to the server's log
        events.put(Event(kind="error", text=f"something failed that should not ({type(exc).__name__}); try again"))
        traceback.print_exc()


def _next(events: queue.Queue[Event | None]) -> Event | None:
    """The newest of the steps that wait, so that a slow page does not fall behind; nothing else is passed over."""
    event = events.get(timeout=_POLL_SECONDS)
    while event is not None and event.kind == "step":
        try:
            following = events.get_nowait()
        except queue.Empty:
            break
        event = following
    return event
