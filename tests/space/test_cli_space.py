from __future__ import annotations

import socket

import pytest
from typer.testing import CliRunner

from hubaudit import cli_space
from hubaudit.cli import app as cli
from hubaudit.errors import InputError, MissingExtraError


def test_a_port_that_is_taken_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("HUBAUDIT_SPACE_STORE", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(cli, ["space", "run", "--port", str(port)])
    assert isinstance(result.exception, InputError)
    assert f"127.0.0.1:{port}: the port is taken" in str(result.exception)


def test_without_gradio_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_space.importlib.util, "find_spec", lambda _: None)
    result = CliRunner().invoke(cli, ["space", "run"])
    assert isinstance(result.exception, MissingExtraError)
    assert "hubaudit[space]" in str(result.exception)
