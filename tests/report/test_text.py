"""Escapes, numbers and names."""

# ruff: noqa: RUF001 - the pages use the typographic minus, dash and multiplication sign

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from report_example import HOSTILE

from hubaudit.report.text import (
    clean,
    clip,
    markdown,
    markdown_code,
    number,
    percent,
    plural,
    sentence,
    short_labels,
    size,
)


def rendered(text: str) -> str:
    """What a reader sees of one Markdown paragraph."""
    return MarkdownIt("gfm-like", {"linkify": False}).render(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\n b\tc", "a b c"),
        ("\x1b[31mred", "�[31mred"),
        ("user\u202egnp.exe", "user�gnp.exe"),
        ("\ud800", "�"),
        ("  two  words ", "two words"),
    ],
)
def test_clean_removes_what_could_steer(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_clean_can_keep_line_ends() -> None:
    assert clean("\na\r\nb\x07\n", keep_newlines=True) == "a\nb�"


@pytest.mark.parametrize(
    "text",
    [
        "a|b",
        "`code`",
        "<b>bold</b>",
        "<!-- hubaudit:end -->",
        "*stars* and __lines__ and ~~strike~~",
        "[link](https://example.org)",
        "![image](x.png)",
        "https://example.org/a_b and www.example.org",
        "&amp; stays",
        r"back\slash \* ",
        "# heading",
        "1. list",
        "12) list",
        "- list",
        "+",
        "---",
        "===",
        "> quote",
        "$x$ and $$y$$",
        HOSTILE,
    ],
)
def test_markdown_shows_exactly_the_text(text: str) -> None:
    shown = rendered(markdown(text))
    assert shown.startswith("<p>")
    assert shown.count("<") == 2, "only the paragraph's own tags"
    plain = shown.removeprefix("<p>").removesuffix("</p>\n")
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        plain = plain.replace(entity, char)
    assert plain == clean(text)


@pytest.mark.parametrize("text", ["risk_gap", "0.95", "8.50", "-0.79", "Q4_K_M", "55.1% → 54.7%"])
def test_markdown_leaves_plain_text_readable(text: str) -> None:
    assert markdown(text) == text


def test_markdown_code_is_a_code_span_only_for_plain_names() -> None:
    assert markdown_code("org/model-GGUF:Q4_K_M") == "`org/model-GGUF:Q4_K_M`"
    assert "`" not in markdown_code("<!-- hubaudit:end -->")
    assert "-->" not in markdown_code("a-->b")
    assert rendered(markdown_code("a`b|c")) == "<p>a`b|c</p>\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (0.0, "0"),
        (9.8925, "9.89"),
        (0.00234, "0.00234"),
        (0.0000234, "2.34e-05"),
        (123456.0, "123456"),
        (12345678.0, "1.23e+07"),
        (-0.5, "-0.500"),
    ],
)
def test_number(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_signs_shares_sizes_and_plurals() -> None:
    assert number(0.5, digits=2, signed=True) == "+0.50"
    assert percent(0.9123) == "91.2%"
    assert percent(-0.02, signed=True) == "-2.0%"
    assert percent(None) == "–"
    assert [size(n) for n in (None, 17, 145_000_000, 999_600_000, 1_070_000_000, 2_000_000_000_000)] == [
        "–",
        "17 B",
        "145 MB",
        "1.00 GB",
        "1.07 GB",
        "2.00 TB",
    ]
    assert plural(1, "item") == "1 item"
    assert plural(0, "item") == "0 items"


def test_sentence_keeps_names() -> None:
    assert sentence("the head drifted") == "The head drifted"
    assert sentence("org/model: gone") == "org/model: gone"
    assert sentence("") == ""


def test_clip_keeps_both_ends() -> None:
    assert clip("abcdefghij", 5) == "ab…ij"
    assert clip("abc", 3) == "abc"


def test_short_labels_stay_unique() -> None:
    specs = [
        "org/model-GGUF:Q8_0",
        "org/model-GGUF:Q4_K_M",
        "other/model-GGUF:Q4_K_M",
        "org/model-awq",
        "bnb:nf4",
        "/tmp/demo/base-Q8_0.gguf",
    ]
    assert short_labels(specs) == [
        "Q8_0",
        "org/model-GGUF:Q4_K_M",
        "other/model-GGUF:Q4_K_M",
        "model-awq",
        "bnb:nf4",
        "Q8_0.gguf",
    ]


def test_short_labels_of_gguf_files_are_their_quants() -> None:
    assert short_labels(["/m/model-Q8_0.gguf", "/m/model.i1-IQ2_XS.gguf"]) == ["Q8_0.gguf", "IQ2_XS.gguf"]
    assert short_labels(["/m/a-Q8_0.gguf", "/m/b-Q8_0.gguf"]) == ["a-Q8_0.gguf", "b-Q8_0.gguf"]


def test_short_labels_number_what_they_cannot_tell_apart() -> None:
    assert short_labels(["bnb:nf4", "bnb:nf4", ""]) == ["bnb:nf4 #1", "bnb:nf4 #2", "(no name)"]
    long = ["org/" + "x" * 40 + f"{index}" + "y" * 40 for index in range(3)]
    assert len(set(short_labels(long))) == 3
