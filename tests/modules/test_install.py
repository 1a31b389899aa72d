"""Installation into evaluate's module cache: by bare name in a fresh process, idempotent, upgrades, foreign files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hubaudit.cli_metrics import metrics_app
from hubaudit.errors import InputError
from hubaudit.modules import install
from hubaudit.modules.install import METRICS, install_metrics, installed_metrics, metric_folder

LOAD = """
import sys
import evaluate
assert not any(name.startswith("hubaudit") for name in sys.modules)
for name in sys.argv[1:]:
    print(type(evaluate.load(name)).__name__)
"""


def versions(cache: Path, name: str) -> list[Path]:
    return [path.parent for path in cache.glob(f"evaluate_modules/metrics/evaluate-metric--{name}/*/{name}.py")]


@pytest.mark.parametrize("offline", [True, False])
def test_loads_by_bare_name_in_a_process_without_hubaudit(tmp_path: Path, offline: bool) -> None:
    cache = tmp_path / "cache with a space"
    install_metrics(cache=cache)
    environment = os.environ | {
        "HF_MODULES_CACHE": str(cache),
        "HF_HOME": str(tmp_path / "home"),
        # Online, the Hub is one that refuses the connection; evaluate asks it and then looks into the cache.
        "HF_EVALUATE_OFFLINE": str(int(offline)),
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }
    names = METRICS if offline else ("prism_bound",)
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, *names],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    classes = ["CorrectnessAgreement", "DirectionFloor", "PrismBound", "TranslationAttenuation"]
    assert ran.stdout.split() == (classes if offline else ["PrismBound"])


def test_twice_is_once(tmp_path: Path) -> None:
    assert {status.state for status in installed_metrics(cache=tmp_path)} == {"missing"}
    assert not list(tmp_path.iterdir())
    assert [(status.name, status.state) for status in install_metrics(cache=tmp_path)] == [
        (name, "current") for name in METRICS
    ]
    files = sorted(tmp_path.rglob("*"))
    install_metrics(cache=tmp_path)
    assert sorted(tmp_path.rglob("*")) == files
    for name in METRICS:
        (folder,) = versions(tmp_path, name)
        assert len(folder.name) == 64
        assert (folder / f"{name}.py").read_bytes() == (metric_folder(name) / f"{name}.py").read_bytes()


def test_upgrade_removes_what_hubaudit_placed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = install._source
    monkeypatch.setattr(install, "_source", lambda name: newest(name) + b"\n# an older version\n")
    install_metrics(cache=tmp_path)
    old = versions(tmp_path, "prism_bound")
    monkeypatch.undo()
    assert {status.state for status in installed_metrics(cache=tmp_path)} == {"outdated"}
    assert {status.state for status in install_metrics(cache=tmp_path)} == {"current"}
    new = versions(tmp_path, "prism_bound")
    assert len(new) == 1
    assert new != old


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    install_metrics(cache=tmp_path)
    (folder,) = versions(tmp_path, "prism_bound")
    (folder / "prism_bound.py").write_text("half a fi")
    assert installed_metrics(cache=tmp_path)[2].state != "current"
    assert install_metrics(cache=tmp_path)[2].state == "current"


def test_files_of_others_stay_and_ours_is_loaded(tmp_path: Path) -> None:
    install_metrics(cache=tmp_path)
    (ours,) = versions(tmp_path, "prism_bound")
    foreign = ours.with_name("f" * 64)
    foreign.mkdir()
    (foreign / "prism_bound.py").write_text("raise SystemExit")
    future = time.time() + 10_000
    os.utime(foreign / "prism_bound.py", (future, future))
    status = installed_metrics(cache=tmp_path)[2]
    assert (status.state, status.path) == ("shadowed", foreign / "prism_bound.py")
    assert install_metrics(cache=tmp_path)[2].state == "current"
    assert (foreign / "prism_bound.py").read_text() == "raise SystemExit"


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(InputError, match="HF_MODULES_CACHE"):
        install_metrics(cache=blocked)


def test_unknown_metric() -> None:
    with pytest.raises(InputError, match="got 'accuracy'"):
        metric_folder("accuracy")


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path)
    runner = CliRunner()
    assert runner.invoke(metrics_app, ["list"]).output.count("missing") == 4
    assert runner.invoke(metrics_app, ["install"]).output.count("current") == 4
    listed = runner.invoke(metrics_app, ["list"])
    assert listed.exit_code == 0
    assert listed.output.count("current") == 4
    assert str(tmp_path) in listed.output
