"""Commits asked of the tests' Hub, and a report read from a repo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from report_example import example_report

from hubaudit.errors import AccessError, InputError
from hubaudit.report.schema import Report
from hubaudit.verify import check_commits, find_report


def small(sha: str, data_sha: str) -> Report:
    """One Hub base, one rounding, one local variant, one dataset."""
    report = example_report()
    report.base.revision = sha
    report.variants = [variant for variant in report.variants if variant.spec == "rtn:4@g128"]
    report.tasks = report.tasks[:1]
    report.tasks[0].source = f"allenai/ai2_arc@{data_sha} ARC-Challenge test"
    return report


def test_commits_that_exist_and_one_that_does_not(hub: Any) -> None:
    model = hub.add("org/tiny-135M", {"config.json": "{}"})
    data = hub.add("allenai/ai2_arc", {"test.jsonl": "{}"}, kind="datasets")
    sha, data_sha = model.resolve("main"), data.resolve("main")
    assert [check.status for check in check_commits(small(sha, data_sha))] == ["ok", "ok"]
    states = [(check.where, check.status) for check in check_commits(small("0" * 40, data_sha))]
    assert states == [("base", "does not hold"), ("task arc", "ok")]


def test_local_models_have_no_commit(hub: Any) -> None:
    report = small("0" * 40, "0" * 40)
    report.base.repo_id = None
    first, second = check_commits(report)
    assert (first.status, second.status) == ("skipped", "does not hold")
    assert "local files" in first.reason


def test_a_report_is_read_from_a_repo(hub: Any, tmp_path: Path) -> None:
    text = example_report().to_json()
    hub.add("org/quants", {"config.json": "{}", "hubaudit/report.json": text})
    hub.add("org/none", {"config.json": "{}"})
    assert find_report("org/quants").to_json() == text
    with pytest.raises(InputError, match=r"expected hubaudit/report.json in the repo, got none"):
        find_report("org/none")
    with pytest.raises(AccessError, match="no such model"):
        find_report("org/unknown")
    with pytest.raises(InputError, match="cannot read"):
        find_report(str(tmp_path / "report.json"))
