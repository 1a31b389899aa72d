"""ZeroGPU: a GPU that a Space is lent for the seconds of one call."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hubaudit.errors import HubAuditError
from hubaudit.forecast import gpu_seconds
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.publish.push import hide_tokens
from hubaudit.space.run import Event, audit_events

if TYPE_CHECKING:
    from hubaudit.forecast import Forecast
    from hubaudit.settings import AuditSettings

__all__ = ["ENABLED", "lent_events"]

ENABLED = bool(os.environ.get("SPACES_ZERO_GPU"))
_LONGEST_LOAN = 300
"""Seconds, at most."""
_SPARE_SECONDS = 20
"""The audit ends so long before the loan, so that finished variants come back."""


def lent_events(settings: AuditSettings, forecast: Forecast, stop: threading.Event) -> Iterator[Event]:
    """Run an audit in the process that holds the GPU, for as long as its plan says.

    Args:
        settings: What to audit.
        forecast: Its plan.
        stop: Set it to end the audit. It cannot cross into the GPU's process, closing the stream can; so nothing of
            a stopped audit comes back.

    Yields:
        As `audit_events`.
    """
    try:
        # What can be fetched is fetched before.
        base = resolve_base(settings.base)
        for spec in settings.variants:
            resolve_variant(spec, base)
    except HubAuditError as exc:
        yield Event(kind="error", text=hide_tokens(str(exc)))
        return
    for event in _on_gpu(settings, int(min(_LONGEST_LOAN, gpu_seconds(forecast)))):
        yield event
        if stop.is_set():
            yield Event(kind="error", text="the audit was stopped; on this page's GPU nothing of it is kept")
            return


def _on_gpu(settings: AuditSettings, seconds: int) -> Iterator[Event]:
    yield from audit_events(settings, threading.Event(), max_seconds=seconds - _SPARE_SECONDS)


if ENABLED:
    # ZeroGPU looks for such a function when the page starts.
    _on_gpu = importlib.import_module("spaces").GPU(duration=lambda _, seconds: seconds)(_on_gpu)
