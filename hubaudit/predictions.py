"""Files of predictions: lm-eval's samples, JSON lists, JSON Lines and CSV, told apart by what they hold."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hubaudit.answer_file import AnswerFile, ItemAnswer, answer_text, by_id, json_lines, parse_json, shown
from hubaudit.errors import InputError
from hubaudit.lm_eval_samples import is_sample, read_samples
from hubaudit.tasks.read import read_text

__all__ = ["read_predictions", "with_references"]

ID_NAMES = ("id", "item_id", "doc_id", "question_id", "example_id")
PREDICTION_NAMES = ("prediction", "pred", "predicted", "model_answer", "output", "response")
REFERENCE_NAMES = ("reference", "ref", "target", "gold", "answer", "label", "expected", "correct_answer")
SUBJECT_NAMES = ("subject", "category")
LIST_NAMES = ("preds", "predictions", "answers")

_Record = tuple[int, dict[str, Any]]


def read_predictions(path: Path, *, metric: str | None = None, filter_name: str | None = None) -> AnswerFile:
    """Read one model's answers.

    Args:
        path: lm-eval's `samples_*.jsonl`; JSON: a list of answers, an object with such a list as `preds`, or a
            list of objects with id, prediction and reference; JSON Lines of such objects; CSV or TSV with these
            columns.
        metric: For lm-eval's samples, see `read_samples`; the other forms have none.
        filter_name: Likewise.

    Returns:
        The answers by item id, or by position where the file is a bare list.

    Raises:
        InputError: If the file is missing, too large, empty, of another kind, or malformed; with the line.
    """
    text = _text(path)
    records = _answers_or_records(path, text)
    if isinstance(records, AnswerFile):
        return records
    if is_sample(records[0][1]):
        return read_samples(path, records, metric=metric, filter_name=filter_name)
    items = [_prediction(path, line, row) for line, row in records]
    return AnswerFile(path=path, form="a table of predictions", items=by_id(path, items))


def with_references(answers: AnswerFile, path: Path) -> AnswerFile:
    """Give every answer its reference from another file, in place of one that it may have.

    Args:
        answers: A model's answers.
        path: JSON Lines of items with `answer` (or another usual name), JSON or CSV; joined by `id`, or by
            position where the answers are a bare list.

    Raises:
        InputError: If the file cannot be used, an item has no reference, or the lengths of lists differ.
    """
    if answers.metric is not None:
        raise InputError(f"--references is not for lm-eval's samples, which hold their own; {answers.path} is one")
    records = _answers_or_records(path, _text(path))
    if isinstance(records, AnswerFile):
        right = [
            ItemAnswer(item_id=item.item_id, place=item.place, reference=item.answers[0])
            for item in records.items.values()
        ]
    else:
        right = [_reference(path, line, row, str(index)) for index, (line, row) in enumerate(records, start=1)]
    if not answers.by_position:
        named = by_id(path, right)
    elif len(right) == len(answers.items):
        named = {str(index): item for index, item in enumerate(right, start=1)}
    else:
        raise InputError(
            f"{answers.path}: expected as many answers as {path} has items, {len(right)}, but got "
            f"{len(answers.items)}; a bare list is joined by position, so both have to be complete"
        )
    joined = {}
    for item_id, item in answers.items.items():
        if item_id not in named:
            raise InputError(f"{path}: expected a reference for every item, but {shown(item_id)} is not in it")
        reference = named[item_id]
        joined[item_id] = dataclasses.replace(
            item, reference=reference.reference, subject=item.subject or reference.subject
        )
    return dataclasses.replace(answers, items=joined)


def _text(path: Path) -> str:
    if not path.is_file():
        got = "it is a folder or a device" if path.exists() else "there is no such file"
        raise InputError(f"{path}: expected a file of predictions, but {got}")
    text = read_text(path).removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{path}: expected at least one prediction, but the file is empty")
    return text


def _answers_or_records(path: Path, text: str) -> AnswerFile | list[_Record]:
    """A bare list of answers, or rows with fields."""
    if path.suffix.lower() in (".csv", ".tsv"):
        rows = list(_table_rows(path, text))
        if not rows:
            raise InputError(f"{path}: expected at least one row under the names of the columns, but there is none")
        return rows
    if text.lstrip()[0] not in "[{":
        raise InputError(
            f"{path}: expected lm-eval's samples, JSON, JSON Lines, or a file named .csv or .tsv, but it begins "
            f"with {shown(text.lstrip()[:20])}"
        )
    if text.lstrip()[0] == "{" and (path.suffix.lower() == ".jsonl" or _is_many_lines(text)):
        return list(json_lines(path, text))
    value = parse_json(text, f"{path}")
    if isinstance(value, dict):
        name = next((name for name in LIST_NAMES if isinstance(value.get(name), list)), None)
        if name is None:
            raise InputError(f"{path}: expected a list under {_choice(LIST_NAMES)}, but the object has none of them")
        value = value[name]
    if not value:
        raise InputError(f"{path}: expected at least one prediction, but the list is empty")
    if isinstance(value[0], dict):
        for place, row in enumerate(value, start=1):
            if not isinstance(row, dict):
                raise InputError(f"{path}, entry {place}: expected an object as the first is, but got {shown(row)}")
        return list(enumerate(value, start=1))
    items = {
        str(place): ItemAnswer(
            item_id=str(place), place=place, answers=(answer_text(answer, f"{path}, entry {place}"),)
        )
        for place, answer in enumerate(value, start=1)
    }
    return AnswerFile(path=path, form="a bare list of answers", items=items, by_position=True)


def _is_many_lines(text: str) -> bool:
    """Whether each line is an object of its own, judged by the first."""
    lines = [line for line in text.strip().split("\n", 2)[:2] if line.strip()]
    return len(lines) == 2 and lines[0].rstrip().endswith("}") and lines[1].lstrip().startswith("{")


def _table_rows(path: Path, text: str) -> Iterator[_Record]:
    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if names is None:
                names = [cell.strip().lower() for cell in cells]
                if len(set(names)) < len(names):
                    raise InputError(f"{path}, line {reader.line_num}: expected every column once; rename one of them")
            elif len(cells) != len(names):
                raise InputError(
                    f"{path}, line {reader.line_num}: expected {len(names)} cells as in the first line, but got "
                    f"{len(cells)}; put texts that hold {shown(delimiter)} in double quotes"
                )
            else:
                yield reader.line_num, dict(zip(names, cells, strict=True))
    except csv.Error as exc:
        raise InputError(f"{path}, line {reader.line_num}: expected CSV, but {exc}") from exc


def _prediction(path: Path, line: int, row: dict[str, Any]) -> ItemAnswer:
    where = f"{path}, line {line}"
    reference = _field(row, REFERENCE_NAMES)
    return ItemAnswer(
        item_id=_item_id(where, row, None),
        place=line,
        answers=(answer_text(row[_required(where, row, PREDICTION_NAMES)], f"{where}, prediction"),),
        reference=None if reference is None else answer_text(row[reference], f"{where}, {reference}"),
        subject=_subject(where, row),
    )


def _reference(path: Path, line: int, row: dict[str, Any], position: str) -> ItemAnswer:
    where = f"{path}, line {line}"
    text = answer_text(row[_required(where, row, REFERENCE_NAMES)], f"{where}, reference")
    if text is None:
        raise InputError(f"{where}: expected the right answer, but it is empty; leave the item out of every file")
    return ItemAnswer(item_id=_item_id(where, row, position), place=line, reference=text, subject=_subject(where, row))


def _item_id(where: str, row: dict[str, Any], position: str | None) -> str:
    if position is not None and _field(row, ID_NAMES) is None:
        return position
    found = answer_text(row[_required(where, row, ID_NAMES)], f"{where}, id")
    if found is None:
        raise InputError(f"{where}: expected an id, but it is empty; give every item an id of its own")
    return found


def _subject(where: str, row: dict[str, Any]) -> str | None:
    name = _field(row, SUBJECT_NAMES)
    return None if name is None else answer_text(row[name], f"{where}, {name}")


def _field(row: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of the names that the row has."""
    return next((name for name in names if name in row), None)


def _required(where: str, row: dict[str, Any], names: tuple[str, ...]) -> str:
    name = _field(row, names)
    if name is None:
        got = ", ".join(shown(key) for key in list(row)[:8]) or "none"
        raise InputError(f"{where}: expected a field {_choice(names)}, but the fields are {got}; rename one of them")
    return name


def _choice(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
