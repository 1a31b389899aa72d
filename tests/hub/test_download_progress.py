from __future__ import annotations

import threading
from typing import Any

import pytest

from hubaudit.hub import resolve_base


class Listener:
    """Remembers which threads spoke, and may stop the work."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.threads: set[int] = set()
        self.bytes = 0
        self.total = 0
        self.stop_after = stop_after

    def begin(self, label: str, total: int) -> None:
        self.total = total

    def advance(self, amount: int) -> None:
        self.threads.add(threading.get_ident())
        self.bytes += amount
        if self.stop_after is not None:
            raise KeyboardInterrupt

    def end(self) -> None:
        self.total = -self.total

    def say(self, text: str) -> None: ...


@pytest.fixture
def repo(hub: Any) -> str:
    files = {"config.json": "{}", "model.safetensors": b"0" * 300_000, "tokenizer.json": "{}"}
    hub.add("acme/one", files)
    return "acme/one"


def test_a_download_is_told_by_the_thread_that_asked_for_it(repo: str) -> None:
    listener = Listener()
    resolve_base(repo, progress=listener)
    assert listener.threads == {threading.get_ident()}
    assert listener.bytes >= 300_000
    assert listener.total < 0


def test_a_listener_can_stop_a_download(repo: str) -> None:
    listener = Listener(stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        resolve_base(repo, progress=listener)
    assert listener.total < 0


def test_texts_of_absurd_size_are_refused(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hubaudit.errors import ModelFileError
    from hubaudit.hub import repo_files

    hub.add("acme/two", {"config.json": "{}", "model.safetensors": b"0", "data.json": "0" * 2000})
    monkeypatch.setattr(repo_files, "_MAX_TEXT_BYTES", 1000)
    with pytest.raises(ModelFileError, match="configuration and tokenizer of at most"):
        resolve_base("acme/two")
    assert not [request for request in hub.requests if "data.json" in request]
