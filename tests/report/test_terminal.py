"""The terminal's table, wide and narrow, with and without colour."""

# ruff: noqa: RUF001 - the pages use the typographic minus, dash and multiplication sign

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hubaudit.report.schema import Report
from hubaudit.report.terminal import print_report


def printed(report: Report, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    print_report(report, console)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_line_is_too_long_and_no_figure_is_cut(report: Report, width: int) -> None:
    lines = printed(report, width).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines[lines.index("") :] if line.startswith(("✓", "≈ bnb", "≈ Q5", "!"))]
    assert len(rows) == 2 * 8
    assert not any("…" in row for row in rows)


def test_eighty_columns_hold_what_tells_most(report: Report) -> None:
    text = printed(report, 80)
    heading = next(line for line in text.splitlines() if line.startswith("Variant"))
    for name in ("Kept (95% CI)", "Flips", "KL", "Direction", "Size"):
        assert name in heading
    row = next(line for line in text.splitlines() if line.startswith("! Q4_0"))
    assert row.split() == ["!", "Q4_0", "77.0", "MB", "89.4%", "83.2–93.4", "25", "−15", "+10", "0.054", "rotation"]


def test_a_wide_terminal_shows_every_column(report: Report) -> None:
    heading = next(line for line in printed(report, 160).splitlines() if line.startswith("Variant"))
    assert heading.split("  ")[0] == "Variant"
    for name in ("Size", "Bits", "Accuracy", "Kept", "Flips", "KL", "Bound", "|Gap|", "Axis", "Direction", "Monitor"):
        assert name in heading


def test_headline_findings_failures_and_floor(report: Report) -> None:
    text = printed(report, 400)
    assert text.startswith("2 of 9 variants stay close to the base. The smallest of them is rtn:8@g128 (141 MB).\n")
    assert "✓ 2 close to the base, ≈ 3 some change, ! 4 check before use, × 1 not audited" in text
    assert "arc, 256 items" in text
    assert "† below the compute floor" in text
    found = text[text.index("Read first") : text.index("could not be audited\n")]
    assert found.index("! rtn:3@g128: ") < found.index("≈ bnb:int8: ")
    assert "→ refit probes and steering vectors on the variant (and 4 more)" in found
    assert found.count("rtn:3@g128") == 1, "one finding a variant"
    assert "× tiny-135M-EXL3: org/tiny-135M-EXL3: the format exl3 cannot be loaded" in text


def test_no_color_is_honoured(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in printed(report, 80, colour=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in printed(report, 80, colour=True)


def test_hostile_strings_are_neither_markup_nor_control_sequences(hostile: Report) -> None:
    text = printed(hostile, 100)
    assert "\x1b" not in text
    assert "[red]" in text, "shown as it is, not read as a colour"
    assert max(map(len, text.splitlines())) <= 100


def test_empty_reports(report: Report) -> None:
    report.variants = report.variants[-1:]
    assert "1 variant could not be audited" in printed(report, 80)
    report.variants = []
    assert printed(report, 80).startswith("This audit has no variants.")
