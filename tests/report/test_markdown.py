"""The Markdown page and the section of a card."""

# ruff: noqa: RUF001 - the pages use the typographic minus, dash and multiplication sign

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hubaudit.errors import InputError
from hubaudit.report.figures import COLUMNS
from hubaudit.report.markdown import BEGIN_MARKER, END_MARKER, card_section, to_markdown
from hubaudit.report.schema import Report


def parsed(text: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def table(text: str) -> list[list[str]]:
    """The cells of the only table, headings first, as plain text."""
    tokens = parsed(text)
    assert sum(token.type == "table_open" for token in tokens) == 1
    rows: list[list[str]] = []
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            children = tokens[place + 1].children or []
            rows[-1].append("".join(child.content for child in children))
    return rows


def test_table_has_every_column_for_every_variant_and_task(report: Report) -> None:
    rows = table(to_markdown(report))
    assert rows[0] == ["Variant", "Task", *(column.title for column in COLUMNS)]
    assert len(rows) == 1 + 9 * 2
    assert {len(row) for row in rows} == {len(COLUMNS) + 2}
    q4 = dict(zip(rows[0], next(row for row in rows if row[:2] == ["Q4_0", "arc"]), strict=True))
    assert q4["Accuracy"] == "55.1% → 53.1%"
    assert q4["Flips"] == "25 (−15 +10)"
    assert q4["|Risk gap|"] == "0.083 (≤ 0.29)"
    rounded = dict(zip(rows[0], next(row for row in rows if row[:2] == ["rtn:8@g128", "arc"]), strict=True))
    assert rounded["KL"] == "0.00012 †"


def test_one_task_needs_no_task_column(report: Report) -> None:
    report.tasks = report.tasks[:1]
    assert table(to_markdown(report))[0] == ["Variant", *(column.title for column in COLUMNS)]


def test_the_page_tells_findings_remedies_and_how_it_was_measured(report: Report) -> None:
    text = to_markdown(report)
    for part in (
        "**Check before use:** `Q4_0` (77.0 MB, 4.50 bits/weight)",
        "**Not audited:** `tiny-135M-EXL3` could not be audited",
        "**What to do:** recalibrate the monitor's threshold.",
        "mmlu could not be reached",
        "**How to read it**",
        "n = arc 256, gsm8k 128 items",
        "dtype bfloat16, seed 0",
        "`7e27bd9f95328f0f3b08261d1252705110c806f8`",
    ):
        assert part in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text


def test_drift_is_told_once_a_variant(report: Report) -> None:
    text = to_markdown(report, specs=["rtn:4@g128"])
    assert text.count("most of it is a change of the features' shape") == 1


def test_section_of_one_variant_tells_of_no_other(report: Report) -> None:
    text = card_section(report, specs=["bnb:nf4"])
    assert text.startswith(BEGIN_MARKER + "\n## ")
    assert text.endswith(END_MARKER + "\n")
    assert "bnb:nf4" in text
    for other in ("bnb:int8", "Q4_0", "rtn:", "EXL3", "of 9 variants"):
        assert other not in text
    assert len(table(text)) == 3


def test_section_of_an_unknown_variant(report: Report) -> None:
    with pytest.raises(InputError, match=r"none of \['org/other'\] is a variant of this report; it holds: org/tiny"):
        card_section(report, specs=["org/other"])


def test_plots_are_linked_only_where_they_are(report: Report) -> None:
    assert "![" not in to_markdown(report)
    text = to_markdown(report, plot_folder="hubaudit/plots")
    for name in ("flips", "size", "bound", "axes", "direction", "monitor", "structure", "ranking", "series"):
        assert f"](hubaudit/plots/{name}.png)" in text
    images = [child for token in parsed(text) for child in token.children or [] if child.type == "image"]
    assert len(images) == 9
    assert all(len(image.content) > 40 for image in images), "an alt text tells what the plot shows"


def test_hostile_strings_stay_text(hostile: Report) -> None:
    text = card_section(hostile, plot_folder="plots")
    assert text.count("<!--") == 2
    assert text.count("-->") == 2
    assert "\x1b" not in text
    rows = table(text)
    assert {len(row) for row in rows} == {len(COLUMNS) + 2}
    inner = text.removeprefix(BEGIN_MARKER).removesuffix(END_MARKER + "\n")
    html = [token.content for token in parsed(inner) if token.type == "html_block"]
    assert [block.strip() for block in html] == [
        "<details><summary>Findings, and what to do about them</summary>",
        "</details>",
    ]
    kinds = {child.type for token in parsed(inner) for child in token.children or []}
    assert kinds <= {"text", "softbreak", "code_inline", "strong_open", "strong_close", "em_open", "em_close", "image",
                     "text_special", "link_open", "link_close"}  # fmt: skip
    shown = "".join(child.content for token in parsed(inner) for child in token.children or [])
    assert "<script>alert(1)</script>|`x` <!-- hubaudit:end -->�[31m[red]$a$" in shown


def test_no_variants_and_only_failures(report: Report) -> None:
    report.variants = report.variants[-1:]
    text = to_markdown(report)
    assert "| Variant" not in text
    assert "could not be audited" in text
    report.variants = []
    assert "This audit has no variants." in to_markdown(report)
