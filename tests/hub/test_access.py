"""The token is nowhere: not in an exception or its causes, not in what is logged or printed, not in the cache."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest

from hubaudit.errors import HubAuditError
from hubaudit.hub import resolve_base

SECRET = "TESTSECRET"
MODEL = {"config.json": "{}", "model.safetensors": b"weights" * 1000}


@pytest.mark.parametrize(
    ("pattern", "status"),
    [("GET /api", 401), ("GET /api", 403), ("GET /api", 404), ("GET /api", 429), ("GET /api", 503), ("HEAD ", 403)],
)
def test_no_failure_shows_the_token(
    hub: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    pattern: str,
    status: int,
) -> None:
    hub.add("org/name", MODEL)
    hub.fail(pattern, status, times=100)
    monkeypatch.setattr("hubaudit.hub.access._WAITS", (0.0,))
    with caplog.at_level(logging.DEBUG), pytest.raises(HubAuditError) as caught:
        resolve_base("org/name")
    printed = capfd.readouterr()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in caplog.text + printed.out + printed.err


def test_the_cache_holds_no_token(hub: Any) -> None:
    hub.add("org/name", MODEL)
    resolve_base("org/name")
    files = [path for path in hub.home.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
