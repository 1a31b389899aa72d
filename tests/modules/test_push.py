"""Publishing the metrics as Spaces: the plan, the real client against a server on loopback, refusals."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hubaudit.cli_metrics import metrics_app
from hubaudit.errors import AccessError, InputError
from hubaudit.modules.install import METRICS, metric_folder
from hubaudit.modules.push import plan_push, push_metrics

SHA = "a" * 40


class SpacesOnly(BaseHTTPRequestHandler):
    """The few requests by which huggingface_hub creates a Space and commits small files to it."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server: Any = self.server
        server.seen.append(self.path)
        if server.refuses:
            self._answer(403, {"error": "You are not a member of acme."})
        elif self.path == "/api/repos/create":
            self._answer(200, {"url": f"{server.address}/spaces/acme/{json.loads(body)['name']}"})
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self._answer(200, {"files": [{**file, "shouldIgnore": False, "oid": None} for file in files]})
        elif "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            repo_id = self.path.removeprefix("/api/spaces/").split("/commit/")[0]
            files = [line["value"] for line in lines if line["key"] == "file"]
            server.spaces[repo_id] = {file["path"]: base64.b64decode(file["content"]) for file in files}
            self._answer(200, {"commitUrl": f"{server.address}/spaces/{repo_id}/commit/{SHA}", "commitOid": SHA})
        else:
            self._answer(404, {"error": self.path})

    def do_GET(self) -> None:
        repo_id, _, rest = self.path.removeprefix("/spaces/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        server: Any = self.server
        content = server.spaces.get(repo_id, {}).get(name)
        if content is None or revision != "main":
            self._answer(404, {"error": self.path})
        else:
            self._send(200, content)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, payload: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("ETag", f'"{len(payload)}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def log_message(self, *arguments: Any) -> None:
        """Stay silent."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from huggingface_hub import constants, hf_api

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), SpacesOnly)
    server.seen, server.spaces, server.refuses = [], {}, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.address = address = f"http://127.0.0.1:{server.server_port}"
    # Read from HF_ENDPOINT and HF_TOKEN when huggingface_hub is imported, which is long ago.
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hf_api, "ENDPOINT", address, raising=False)
    monkeypatch.setenv("HF_TOKEN", "a-token-of-this-test")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_plan_names_every_file() -> None:
    plans = plan_push("acme")
    assert [plan.repo_id for plan in plans] == [f"acme/{name}" for name in METRICS]
    for plan, name in zip(plans, METRICS, strict=True):
        assert {file.name for file in plan.files} == {f"{name}.py", "README.md", "app.py", "requirements.txt"}
        assert all(file.is_file() for file in plan.files)


def test_push_writes_the_files_as_they_are(hub: Any) -> None:
    urls = push_metrics(plan_push("acme"))
    assert urls == [f"{hub.address}/spaces/acme/{name}/commit/{SHA}" for name in METRICS]
    for name in METRICS:
        uploaded = hub.spaces[f"acme/{name}"]
        assert uploaded == {file: (metric_folder(name) / file).read_bytes() for file in uploaded}
        assert set(uploaded) == {f"{name}.py", "README.md", "app.py", "requirements.txt"}


def test_a_pushed_metric_loads_as_namespace_and_name(hub: Any, tmp_path: Path) -> None:
    push_metrics(plan_push("acme"))
    environment = os.environ | {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "home"),
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    }
    ran = subprocess.run(
        [sys.executable, "-c", "import evaluate; print(evaluate.load('acme/prism_bound').name)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.stdout.split() == ["prism_bound"], ran.stderr
    assert list((tmp_path / "modules/evaluate_modules/metrics/acme--prism_bound").glob("*/prism_bound.py"))


def test_dry_run_asks_nobody(hub: Any) -> None:
    ran = CliRunner().invoke(metrics_app, ["push", "--namespace", "acme"])
    assert ran.exit_code == 0
    assert "acme/prism_bound (Space)" in ran.output
    assert "add --yes" in ran.output
    assert hub.seen == []
    ran = CliRunner().invoke(metrics_app, ["push", "--namespace", "acme", "--yes"])
    assert ran.output.count(f"{hub.address}/spaces/acme/") == 4


def test_refusal_is_one_error_with_the_next_step(hub: Any) -> None:
    hub.refuses = True
    with pytest.raises(AccessError, match=r"acme/correctness_agreement.*hf auth login"):
        push_metrics(plan_push("acme"))


def test_unreachable_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(AccessError, match="check the network"):
        push_metrics(plan_push("acme"))


@pytest.mark.parametrize("namespace", ["", "a/b", "-a", "a b", "a" * 97])
def test_namespaces_that_cannot_be(namespace: str) -> None:
    with pytest.raises(InputError, match="without a slash"):
        plan_push(namespace)
