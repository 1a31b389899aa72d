"""Publishing the metrics as Spaces: the plan, the real client against a server on loopback, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hubaudit.cli_metrics import metrics_app
from hubaudit.errors import AccessError, InputError
from hubaudit.modules.install import METRICS, metric_folder
from hubaudit.modules.push import plan_push, push_metrics


def test_plan_names_every_file() -> None:
    plans = plan_push("acme")
    assert [plan.repo_id for plan in plans] == [f"acme/{name}" for name in METRICS]
    for plan, name in zip(plans, METRICS, strict=True):
        assert {file.name for file in plan.files} == {f"{name}.py", "README.md", "app.py", "requirements.txt"}
        assert all(file.is_file() for file in plan.files)


def test_push_writes_the_files_as_they_are(hub: Any) -> None:
    urls = push_metrics(plan_push("acme"))
    for name, url in zip(METRICS, urls, strict=True):
        assert url.startswith(f"{hub.url}/spaces/acme/{name}/commit/")
        uploaded = hub.files(f"acme/{name}", kind="spaces")
        assert uploaded == {file: (metric_folder(name) / file).read_bytes() for file in uploaded}
        assert set(uploaded) == {f"{name}.py", "README.md", "app.py", "requirements.txt"}
    # Pushed again, the Spaces stay.
    assert len(push_metrics(plan_push("acme"))) == len(METRICS)


def test_a_pushed_metric_loads_as_namespace_and_name(hub: Any, tmp_path: Path) -> None:
    push_metrics(plan_push("acme"))
    environment = hub.env | {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
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
    assert hub.requests == []
    ran = CliRunner().invoke(metrics_app, ["push", "--namespace", "acme", "--yes"])
    assert ran.output.count(f"{hub.url}/spaces/acme/") == 4


def test_refusal_is_one_error_with_the_next_step(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_read_TESTSECRET")
    with pytest.raises(AccessError, match=r"acme/correctness_agreement.*hf auth login") as caught:
        push_metrics(plan_push("acme"))
    assert "TESTSECRET" not in str(caught.value)


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
