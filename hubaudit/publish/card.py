"""A model card's text: our results in its metadata and our section between two markers, all else byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hubaudit.errors import InputError
from hubaudit.publish.front_matter import merge_results, new_front_matter
from hubaudit.report.markdown import BEGIN_MARKER, END_MARKER

__all__ = ["MAX_CARD_BYTES", "edit_card"]

MAX_CARD_BYTES = 4 * 2**20
_BOM = "\ufeff"
# Markdown's own line ends; str.splitlines knows more of them, and would count other lines.
_BREAK = re.compile(r"\r\n|\r|\n")


def edit_card(card: bytes | None, *, name: str, results: Sequence[dict[str, Any]], section: str) -> bytes:
    """The card with our results and our section, in place of older ones.

    Args:
        card: The bytes of README.md, or None where the repo has none.
        name: The model's name, for a card whose metadata names no results yet.
        results: Entries for the metadata's `model-index[].results`.
        section: The section with its two markers, lines ending in a line feed.

    Returns:
        The new bytes; the same bytes where the card already says just this. New lines end as the card's lines do.

    Raises:
        InputError: If the card cannot be edited without touching what others wrote: it is no UTF-8, its metadata
            cannot be read, a marker is missing or stands twice, or it ends inside an open code block.
    """
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    text = _decoded(card or b"")
    bom = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    first = _BREAK.search(text)
    newline = first.group() if first else "\n"
    found = REGEX_YAML_BLOCK.search(text)
    if found:
        start, end = found.span(2)
        block = merge_results(found[2], name=name, results=results, newline=newline)
        head, body = text[:start] + block + text[end : found.end()], text[found.end() :]
        if not head.endswith(("\n", "\r")):
            head += newline
        first_line = len(_BREAK.findall(text[: found.end()])) + 1
    else:
        _refuse_open_front_matter(text)
        block = new_front_matter(name=name, results=results, newline=newline)
        apart = newline if text and not _BREAK.match(text) else ""
        head, body, first_line = f"---{newline}{block}{newline}---{newline}{apart}", text, 1
    edited = _with_section(body, section, newline, first_line=first_line)
    return (bom + head + edited).encode("utf-8")


def _decoded(card: bytes) -> str:
    if len(card) > MAX_CARD_BYTES:
        raise InputError(f"README.md must have at most {MAX_CARD_BYTES} bytes, but has {len(card)}; shorten it first")
    try:
        return card.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"README.md must be UTF-8, but byte {exc.start} is not; save it as UTF-8 first, as the Hub wants it"
        ) from exc


def _refuse_open_front_matter(text: str) -> None:
    """Metadata that is begun and not ended would become text below ours."""
    lines = _BREAK.split(text.lstrip(), maxsplit=1)
    if lines[0].rstrip() == "---":
        raise InputError(
            "README.md begins with a line `---`, but its metadata does not end in another one that the Hub would see; "
            "end the metadata with a line `---`, or drop the first one"
        )


def _with_section(body: str, section: str, newline: str, *, first_line: int) -> str:
    """The card's text with the section in the place of the older one, else at the end."""
    lines = section.rstrip("\n").split("\n")
    place = _marked(body, first_line)
    if place is not None:
        start, end = place
        if _BREAK.split(body[start:end]) == lines:
            return body
        return body[:start] + newline.join(lines) + body[end:]
    last = _BREAK.split(body)[-2:]
    if not body or (len(last) == 2 and not "".join(last).strip(" \t") and not last[1]):
        apart = ""
    else:
        apart = newline if body.endswith(("\n", "\r")) else 2 * newline
    edited = body + apart + newline.join(lines) + newline
    if not _is_shown(edited, len(_BREAK.findall(body + apart))):
        raise InputError(
            "README.md ends inside a code block or an HTML element that is not closed, so a section at its end would "
            f"not be shown; close it, or put the lines {BEGIN_MARKER} and {END_MARKER} where the section shall stand"
        )
    return edited


def _marked(body: str, first_line: int) -> tuple[int, int] | None:
    """Start and end of the text from marker to marker, or None where there is no marker.

    A marker counts where Markdown sees an HTML comment on a line of its own: not in code, lists or quotes.
    """
    begins, ends = _marker_lines(body, BEGIN_MARKER), _marker_lines(body, END_MARKER)
    if not begins and not ends:
        return None
    starts = [0, *(found.end() for found in _BREAK.finditer(body))]
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise InputError(
            f"README.md must hold {BEGIN_MARKER} once and {END_MARKER} once after it, but they stand "
            f"{_at(begins, first_line)} and {_at(ends, first_line)}; add the missing marker or delete the other lines"
        )
    found = _BREAK.search(body, starts[ends[0]])
    return starts[begins[0]], found.start() if found else len(body)


def _is_shown(body: str, line: int) -> bool:
    """Whether the marker on a line, from 0, is a comment that ends there, so that what follows is Markdown."""
    return any(end == line + 1 for _, end in _html_blocks(body))


def _marker_lines(body: str, marker: str) -> list[int]:
    """Numbers of the lines, from 0, that are this marker to a Markdown parser."""
    if marker not in body:
        return []
    lines = _BREAK.split(body)
    return [
        line for start, end in _html_blocks(body) for line in range(start, end) if lines[line].strip(" \t") == marker
    ]


def _html_blocks(body: str) -> list[tuple[int, int]]:
    """First line and line after the last of every block of HTML that stands in no list and no quote."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    return [
        (token.map[0], token.map[1]) for token in tokens if token.type == "html_block" and not token.level and token.map
    ]


def _at(lines: list[int], first_line: int) -> str:
    if not lines:
        return "nowhere"
    return "on line " + " and ".join(str(line + first_line) for line in lines)
