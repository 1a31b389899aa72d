"""`hubaudit attention` as a user runs it: table, JSON, plot, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hubaudit.cli import app


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "colours.jsonl"
    rows = [{"question": f"What is {n}?", "options": ["red", "blue"], "answer": n % 2} for n in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_table_json_and_plot(tiny_base: Path, task: Path, tmp_path: Path) -> None:
    plot = tmp_path / "heat.png"
    arguments = ["attention", str(tiny_base), "rtn:3@g16", "--tasks", str(task), "--dtype", "float32"]
    done = CliRunner().invoke(app, [*arguments, "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    for text in ("KL of attention", "(q + k) / (v + o)", "exactly 0", "4 items", "eager"):
        assert text in done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
    done = CliRunner().invoke(app, [*arguments, "--json", "--quiet"])
    block = json.loads(done.stdout)["rtn:3@g16"]
    assert block["control"]["kl"]["value"] == 0
    assert len(block["rows"]) == 8


def test_a_failed_variant_leaves_the_others(tiny_base: Path, task: Path) -> None:
    arguments = ["attention", str(tiny_base), "./missing", "--tasks", str(task), "--dtype", "float32", "--quiet"]
    done = CliRunner().invoke(app, [*arguments, "rtn:4"])
    assert done.exit_code == 4
    assert "no such file or folder" in done.stderr
    assert CliRunner().invoke(app, arguments).exit_code == 3


def test_the_base_against_itself_changes_nothing(tiny_base: Path, task: Path) -> None:
    arguments = ["attention", str(tiny_base), str(tiny_base), "--tasks", str(task), "--dtype", "float32", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    block = json.loads(done.stdout)[str(tiny_base)]
    assert all(row["kl"]["value"] == 0 for row in block["rows"])
    assert block["ratio"]["kl"] == {
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "n": 4,
        "reason": "the projections of the denominator change nothing",
    }
