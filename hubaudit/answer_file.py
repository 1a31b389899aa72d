"""One model's answers as a file gives them, and the reading of JSON that nobody vouches for."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hubaudit.errors import InputError
from hubaudit.report.text import clip

__all__ = ["AnswerFile", "ItemAnswer", "answer_text", "by_id", "json_lines", "parse_json", "shown"]

_LONGEST_SHOWN = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemAnswer:
    """A model's answer to one item."""

    item_id: str
    """Name of the item, once in a file."""
    place: int
    """Line of the file, or position in its list, both from 1; for messages."""
    answers: tuple[str | None, ...] = ()
    """The answer under each reading that the file allows; empty where it gives only right or wrong."""
    right: bool | None = None
    """Whether the file itself calls the answer right; None where it has to be compared with a reference."""
    reference: str | None = None
    """The right answer, where the file holds it."""
    subject: str | None = None
    """Subject of the item, where the file names one."""
    hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    """Fingerprints of the item by what they cover: document, prompt, target."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerFile:
    """All answers of one file."""

    path: Path
    form: str
    """What the file is, in words."""
    items: dict[str, ItemAnswer]
    """The answers by item id, in the file's order."""
    by_position: bool = False
    """Whether the ids are only positions in a list."""
    metric: str | None = None
    """The metric that says right or wrong, in lm-eval's samples."""
    filter_name: str | None = None
    """The filter of the answers, in lm-eval's samples."""
    possible: tuple[bool, ...] = (True,)
    """For each reading in `ItemAnswer.answers`, whether it fits what the file itself calls right."""
    warnings: tuple[str, ...] = ()
    """What the reader should know of this file."""


def by_id(path: Path, items: Iterable[ItemAnswer]) -> dict[str, ItemAnswer]:
    """Answers by item id.

    Raises:
        InputError: If an id comes twice.
    """
    found: dict[str, ItemAnswer] = {}
    for item in items:
        earlier = found.setdefault(item.item_id, item)
        if earlier is not item:
            raise InputError(
                f"{path}, line {item.place}: expected every item once, but {shown(item.item_id)} stands in line "
                f"{earlier.place} too; keep one of them"
            )
    return found


def json_lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Read the objects of JSON Lines with their line numbers, from 1.

    Only a line feed ends a line: lm-eval writes characters such as U+2028 as they are, inside strings, and
    `str.splitlines` would cut there.

    Raises:
        InputError: If a line is no JSON object.
    """
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}, line {number}")
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected a JSON object, but got {shown(row)}")
        yield number, row


def parse_json(text: str, where: str) -> Any:
    """Read one JSON value.

    Args:
        text: The JSON.
        where: File and line, for the message.

    Raises:
        InputError: If the text is no JSON, or nested deeper than Python can follow.
    """
    try:
        return json.loads(text)
    except RecursionError as exc:
        raise InputError(f"{where}: expected JSON with a few levels, but it is nested too deeply to be read") from exc
    except ValueError as exc:
        raise InputError(f"{where}: expected JSON, but got {shown(text.strip())} ({exc})") from exc


def answer_text(value: object, where: str) -> str | None:
    """An answer or a reference as text, so that 3, 3.0 and "3" are the same; None where there is none.

    White space around an answer is dropped; an empty text is no answer.

    Args:
        value: What the file holds.
        where: File, line and field, for the message.

    Raises:
        InputError: If the value is a list or an object, NaN or infinite.
    """
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise InputError(f"{where}: expected a text, a number or null, but got {shown(value)}")


def shown(value: object) -> str:
    """A value from outside for a message: short, on one line, nothing in it that steers a terminal."""
    if isinstance(value, str):
        # `repr` escapes all that does not print, direction overrides included.
        return repr(clip(value, _LONGEST_SHOWN))
    if value is None or isinstance(value, bool | int | float):
        return clip(json.dumps(value), _LONGEST_SHOWN)
    return {"list": "a list", "dict": "an object"}.get(type(value).__name__, type(value).__name__)
