"""A whole card: metadata and section, in whatever form the card is; every other byte stays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard, metadata_load

from hubaudit.errors import InputError
from hubaudit.publish.card import MAX_CARD_BYTES, edit_card
from hubaudit.publish.front_matter import new_front_matter
from hubaudit.report.markdown import BEGIN_MARKER, END_MARKER

OLD = f"{BEGIN_MARKER}\n## What changed\n\n| a |\n| - |\n| 1 |\n{END_MARKER}\n"
NEW = f"{BEGIN_MARKER}\n## What changed\n\n```sh\n{END_MARKER}\n```\n\nfar more\n{END_MARKER}\n"
META = "---\nlicense: mit # as the base\ntags: [gguf]\n---\n"
FENCED = (
    f"~~~\n{BEGIN_MARKER}\n~~~\n\n    {END_MARKER}\n\n> {BEGIN_MARKER}\n\n- a\n  ```\n  {END_MARKER}\n  ```\n\n"
    f"inline `{BEGIN_MARKER}` {BEGIN_MARKER}\n"
)

CARDS = {
    "nothing": "",
    "metadata only": META,
    "metadata without an end of line": META.rstrip("\n"),
    "metadata and text": META + "\n# Model\n\nText.\n",
    "no front matter": "# Model\n\nText.\n",
    "no end of line": META + "# Model",
    "blank lines at the end": META + "# Model\n\n\n",
    "blank first": "\n\n" + META + "text\n",
    "empty metadata": "---\n\n---\ntext\n",
    "a rule in the text": META + "a\n\n---\n\nb\n---\n",
    "byte order mark": "\ufeff" + META + "text\n",
    "byte order mark, no front matter": "\ufefftext\n",
    "markers in code, quotes, lists, lines": META + FENCED + "end\n",
    "odd line ends": META + "a\x0bb\x0cc\u2028d\x85e\n",
    "in a details element": META + f"<details>\n\n{BEGIN_MARKER}\nold\n{END_MARKER}\n\n</details>\n",
    "old section in the middle": META + "a\n\n" + OLD + "\nb",
    "markers with nothing between": META + f"{BEGIN_MARKER}\n{END_MARKER}\nb",
    "indented markers": META + f"a\n  {BEGIN_MARKER}  \nold\n   {END_MARKER}\t\nb",
    "a table right before": META + f"| a |\n| - |\n| 1 |\n{BEGIN_MARKER}\n{END_MARKER}\n",
}


def edited(card: str | bytes | None, results: Any, section: str) -> bytes:
    raw = card.encode() if isinstance(card, str) else card
    return edit_card(raw, name="model", results=results, section=section)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS.keys())
def test_every_kind_of_card(card: str, newline: str, one: Any, two: Any, tmp_path: Path) -> None:
    card = card.replace("\n", newline)
    first = edited(card, one, OLD)
    path = tmp_path / "README.md"
    path.write_bytes(first)
    loaded = ModelCard.load(path)
    assert [entry.metric_value for entry in loaded.data.eval_results] == [0.25]
    assert OLD.replace("\n", newline if card else "\n").encode().rstrip() in first
    if newline == "\r\n" and card:
        assert b"\n" not in first.replace(b"\r\n", b"")
    assert edited(first, one, OLD) == first, "the same again changes nothing"

    second = edited(first, two, NEW)
    path.write_bytes(second)
    assert len(metadata_load(path)["model-index"][0]["results"]) == 2
    assert second.count(b"far more") == 1
    assert second == edited(card, two, NEW), "the way there does not matter"
    assert edited(second, one, OLD) == first


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\na: 1 # b\n---\n# T\n", "---\na: 1 # b\n{index}\n---\n# T\n\n{section}"),
        ("---\na: 1\n---", "---\na: 1\n{index}\n---\n{section}"),
        ("# T \n\nx", "---\n{index}\n---\n\n# T \n\nx\n\n{section}"),
        ("\ufeff\n\nx\n\n", "\ufeff---\n{index}\n---\n\n\nx\n\n{section}"),
        ("\n---\n\n---\n\n", "\n---\n{index}\n---\n\n{section}"),
    ],
)
def test_byte_for_byte(card: str, expected: str, one: Any) -> None:
    index = new_front_matter(name="model", results=one, newline="\n")
    assert edited(card, one, OLD).decode() == expected.format(index=index, section=OLD)


def test_no_card(one: Any) -> None:
    text = edited(None, one, OLD).decode()
    assert text.startswith("---\nmodel-index:\n- name: model\n")
    assert text.endswith("---\n" + OLD)


def test_only_the_section_is_replaced(one: Any) -> None:
    card = edited(META + "before \n\n" + OLD + "\n  after\t\n\n\n", one, OLD)
    done = edited(card, one, NEW)
    start = card.index(BEGIN_MARKER.encode())
    assert done[:start] == card[:start]
    assert done.endswith(NEW.encode() + b"\n  after\t\n\n\n")


def test_old_section_with_other_line_ends_is_left_alone(one: Any) -> None:
    card = edited(META.replace("\n", "\r\n") + OLD, one, OLD)
    assert edited(card, one, OLD) == card
    assert OLD.encode() in card


BAD = {
    "begin only": (META + f"a\n{BEGIN_MARKER}\nb\n", r"stand on line 6 and nowhere; add the missing marker"),
    "end only": (META + f"a\n{END_MARKER}\nb\n", r"stand nowhere and on line 6"),
    "wrong order": (f"{END_MARKER}\n{BEGIN_MARKER}\n", r"stand on line 2 and on line 1"),
    "two sections": (OLD + "\n" + OLD, r"stand on line 1 and 9 and on line 7 and 15"),
    "open code block": ("```\ncode\n", r"ends inside a code block .* close it, or put the lines"),
    "open element": ("<pre>\ncode\n", r"ends inside a code block or an HTML element that is not closed"),
    "front matter never ends": (
        "---\nlicense: mit\n\n# Model\n",
        r"begins with a line `---`, but its metadata does not",
    ),
    "front matter at once ended": ("---\n---\ntext\n", r"begins with a line `---`"),
    "a blank after the dashes": ("--- \nlicense: mit\n---\n", r"begins with a line `---`"),
    "a list as metadata": ("---\n- a\n---\n", r"must be a mapping of keys, but got a list"),
    "broken metadata": ("---\na: [\n---\n", r"is no YAML at line"),
}


@pytest.mark.parametrize(("card", "message"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_edited_is_refused(card: str, message: str, one: Any) -> None:
    with pytest.raises(InputError, match=message):
        edited(card, one, OLD)


def test_bytes_that_are_no_text(one: Any) -> None:
    with pytest.raises(InputError, match=r"must be UTF-8, but byte 4 is not"):
        edited(b"abc \xff", one, OLD)
    with pytest.raises(InputError, match=r"must have at most 4194304 bytes, but has 4194305"):
        edited(b"x" * (MAX_CARD_BYTES + 1), one, OLD)


TEXT = ["# Title", "", "text", "- item", "  ```", "```", "~~~~", "<div>", "</div>", "    indented", "> quote", "---"]
TEXT += ["| a | b |", "|---|---|", "<!-- note -->", f"`{BEGIN_MARKER}`", f"  - {END_MARKER}", "\ttab", "$x$", "é 🤗 漢"]


@pytest.mark.parametrize("seed", range(60))
def test_random_cards(seed: int, one: Any, two: Any) -> None:
    rng = random.Random(seed)
    newline = rng.choice(["\n", "\r\n"])
    body = [rng.choice(TEXT) for _ in range(rng.randint(0, 12))]
    if rng.random() < 0.4:
        body[rng.randint(0, len(body)) :] = [BEGIN_MARKER, "old", END_MARKER, rng.choice(TEXT)]
    card = rng.choice(["", META]) + "\n".join(body) + rng.choice(["", "\n", "\n\n"])
    card = card.replace("\n", newline)
    try:
        first = edited(card, one, OLD)
    except InputError:
        return  # an open fence, a lone marker: refused, so nothing is lost
    assert edited(first, one, OLD) == first
    assert edited(edited(first, two, NEW), one, OLD) == first
    lines = iter(first.decode().split(newline))
    gone = {"old"} if f"{newline}old{newline}" in f"{newline}{card}" else set()
    assert all(line in lines for line in card.split(newline) if line and line not in gone), "in the same order"
