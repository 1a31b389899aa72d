"""Files: complete, replaced as a whole, and clear words where they cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubaudit.errors import InputError
from hubaudit.report.plots import PLOTS
from hubaudit.report.schema import Report, read_report
from hubaudit.report.write import check_writable, write_report


def test_everything_is_written(report: Report, tmp_path: Path) -> None:
    paths = write_report(report, tmp_path / "new" / "folder")
    assert {name: path.name for name, path in paths.items()} == {
        "json": "report.json",
        "md": "report.md",
        "html": "report.html",
        "plots": "plots",
    }
    assert read_report(paths["json"]) == report
    assert paths["md"].read_text(encoding="utf-8").startswith("# What changed")
    assert paths["html"].read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path.stem for path in paths["plots"].iterdir()} == {plot.name for plot in PLOTS}
    assert "](plots/bound.png)" in paths["md"].read_text(encoding="utf-8")
    left = [path for path in (tmp_path / "new").rglob("*") if ".tmp" in path.name]
    assert left == []


def test_the_same_report_gives_the_same_files(report: Report, tmp_path: Path) -> None:
    report.variants = report.variants[:2]
    one, other = write_report(report, tmp_path / "a"), write_report(report, tmp_path / "b")
    for name in ("json", "md", "html"):
        assert one[name].read_bytes() == other[name].read_bytes(), name


def test_a_folder_that_is_a_file(tmp_path: Path, report: Report) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(report, tmp_path / "taken")
    with pytest.raises(InputError, match="name a folder that you may write to with --out"):
        check_writable(tmp_path / "taken" / "below")
    assert (tmp_path / "taken").read_text() == "a file"


def test_check_writable_leaves_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
