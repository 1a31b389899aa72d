"""The command line as a user meets it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hubaudit.cli import app
from hubaudit.findings import FINDINGS


def hubaudit(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from hubaudit.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task") / "choice.jsonl"
    rows = [{"question": f"Is {n} even?", "options": ["yes", "no"], "answer": n % 2} for n in range(10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def audited(tiny_base: Path, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished audit with one good and one missing variant."""
    out = tmp_path_factory.mktemp("audit")
    arguments = ("audit", tiny_base, "rtn:8@g16", "./missing", "--tasks", task, "--contrast", "none")
    done = hubaudit(*arguments, "--out", out / "r", "--cache-dir", out / "cache", "--dtype", "float32")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert "no such file or folder" in done.stdout + done.stderr
    assert "rtn:8@g16" in done.stdout
    return out


def test_a_failed_variant_gives_4_and_the_report_holds_the_rest(audited: Path) -> None:
    report = json.loads((audited / "r" / "report.json").read_text())
    assert [variant["status"] for variant in report["variants"]] == ["done", "failed"]
    for name in ("report.md", "report.html", "plots"):
        assert (audited / "r" / name).exists()


def test_json_on_standard_output_is_the_report_and_nothing_else(audited: Path, tiny_base: Path, task: Path) -> None:
    arguments = ("audit", tiny_base, "rtn:8@g16", "--tasks", task, "--contrast", "none", "--json", "--dtype", "float32")
    done = hubaudit(*arguments, "--out", audited / "j", "--cache-dir", audited / "cache")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (audited / "j" / "report.json").read_text()
    assert json.loads(done.stdout)["variants"][0]["status"] == "done"


def test_quiet_says_nothing(audited: Path, tiny_base: Path, task: Path) -> None:
    arguments = (
        "audit",
        tiny_base,
        "rtn:8@g16",
        "--tasks",
        task,
        "--contrast",
        "none",
        "--quiet",
        "--dtype",
        "float32",
    )
    done = hubaudit(*arguments, "--out", audited / "q", "--cache-dir", audited / "cache")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_fail_on_gives_1(audited: Path, tiny_base: Path, task: Path) -> None:
    arguments = (
        "audit",
        tiny_base,
        "rtn:8@g16",
        "--tasks",
        task,
        "--contrast",
        "none",
        "--quiet",
        "--dtype",
        "float32",
    )
    where = ("--out", audited / "f", "--cache-dir", audited / "cache")
    fired = hubaudit(*arguments, *where, "--fail-on", "prism_bound.bound>0")
    assert fired.returncode == 1
    assert "fail-on: rtn:8@g16: prism_bound.choice.bound is" in fired.stderr
    assert hubaudit(*arguments, *where, "--fail-on", "correctness_agreement<0.01").returncode == 0


def test_report_prints_every_format(audited: Path) -> None:
    path = audited / "r" / "report.json"
    assert "rtn:8@g16" in hubaudit("report", path).stdout
    assert hubaudit("report", path, "--format", "json").stdout == path.read_text()
    assert hubaudit("report", path, "--format", "html").stdout.lstrip().lower().startswith("<!doctype html>")
    assert "rtn:8@g16" in hubaudit("report", path, "--format", "md").stdout


def test_plan_runs_nothing(tiny_base: Path, task: Path, tmp_path: Path) -> None:
    done = hubaudit("audit", tiny_base, "rtn:4", "--tasks", task, "--contrast", "none", "--plan", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "10 items" in done.stdout
    assert "rtn:4" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("audit", "./missing"), 3, "no such file or folder"),
        (("audit", "not a reference"), 2, "expected ORG/NAME"),
        (("audit", "BASE", "--tasks", "nonsense"), 2, "unknown task 'nonsense'"),
        (("audit", "BASE", "--weights", "word"), 2, "--weights must be item or token"),
        (("audit", "BASE", "--dtype", "int3"), 2, "--dtype: expected"),
        (("audit", "BASE", "--device", "tpu"), 2, "--device: expected"),
        (("audit", "BASE", "--layers", "x"), 2, "--layers must be whole numbers"),
        (("audit", "BASE", "--fail-on", "nonsense"), 2, "expected a comparison"),
        (("audit", "BASE", "--fail-on", "bond>1"), 2, "did you mean bound"),
        (("audit", "BASE", "--contrast", "nonsense"), 2, "unknown contrast set"),
        (("report", "missing.json"), 2, "cannot read this as a report"),
        (("nonsense",), 2, "No such command"),
    ],
)
def test_mistakes_get_one_line_and_a_code(
    arguments: tuple[str, ...], code: int, message: str, tiny_base: Path, tmp_path: Path
) -> None:
    filled = [str(tiny_base) if argument == "BASE" else argument for argument in arguments]
    done = hubaudit(*filled, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if code == 3:
        assert done.stderr.count("\n") == 1


def test_the_help_lists_every_finding() -> None:
    done = hubaudit("audit", "--help")
    assert done.returncode == 0
    for name in FINDINGS:
        assert name in done.stdout
    assert app.info.name == "hubaudit"


def test_a_process_killed_by_the_system_goes_on_where_it_stopped(tiny_base: Path, task: Path, tmp_path: Path) -> None:
    arguments = ["audit", tiny_base, "rtn:8@g16", "--tasks", task, "--contrast", "none", "--dtype", "float32"]
    arguments += ["--batch-tokens", 1, "--out", tmp_path / "out", "--cache-dir", tmp_path / "cache"]
    command = [sys.executable, "-c", "from hubaudit.cli import main; main()", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "cache").rglob("00000.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("0*.safetensors")}
    assert stored
    assert not (tmp_path / "out" / "report.json").exists()
    done = hubaudit(*arguments)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in stored.items())
    assert json.loads((tmp_path / "out" / "report.json").read_text())["variants"][0]["status"] == "done"


def test_the_code_of_an_interrupted_audit(audited: Path) -> None:
    from hubaudit.cli import _exit_code
    from hubaudit.report.schema import read_report

    report = read_report(audited / "r" / "report.json")
    assert _exit_code(report, [], interrupted=True) == 130
    assert _exit_code(report, [], interrupted=False) == 4
    report.variants = report.variants[1:]
    assert _exit_code(report, [], interrupted=False) == 3
