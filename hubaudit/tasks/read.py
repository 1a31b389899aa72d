"""Tasks by name from the Hub, by path from files, and the set that ships with the package."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hubaudit.errors import InputError
from hubaudit.hub.datasets import read_hub_rows
from hubaudit.tasks import formats
from hubaudit.tasks.items import Item, Task, TaskKind, sample_items

__all__ = ["BUILTIN_FOLDER", "TASK_NAMES", "load_task", "read_jsonl"]

BUILTIN_FOLDER = Path(__file__).parent / "builtin"
CORPUS_WINDOW_CHARACTERS = 1500
MAX_FILE_BYTES = 512 * 2**20


@dataclasses.dataclass(frozen=True)
class _HubTask:
    dataset: str
    config: str | None
    split: str
    headline_metric: str
    item: Callable[[str, Mapping[str, Any]], Item]


_HUB_TASKS = {
    "arc": _HubTask("allenai/ai2_arc", "ARC-Challenge", "test", "acc_norm", formats.arc_item),
    "mmlu": _HubTask("cais/mmlu", "all", "test", "acc", formats.mmlu_item),
    "hellaswag": _HubTask("Rowan/hellaswag", None, "validation", "acc_norm", formats.hellaswag_item),
    "winogrande": _HubTask("allenai/winogrande", "winogrande_xl", "validation", "acc", formats.winogrande_item),
    "csqa": _HubTask("tau/commonsense_qa", None, "validation", "acc", formats.csqa_item),
    "sst2": _HubTask("stanfordnlp/sst2", None, "validation", "acc", formats.sst2_item),
    "triviaqa": _HubTask("mandarjoshi/trivia_qa", "rc.nocontext", "validation", "exact_match", formats.triviaqa_item),
    "squad": _HubTask("rajpurkar/squad", None, "validation", "exact_match", formats.squad_item),
    "gsm8k": _HubTask("openai/gsm8k", "main", "test", "exact_match", formats.gsm8k_item),
}
TASK_NAMES = (*_HUB_TASKS, "builtin", "builtin-answers")


def load_task(name: str, *, limit: int | None, seed: int) -> Task:
    """Load a task.

    Args:
        name: One of `TASK_NAMES`, or the path of a `.jsonl` or `.txt` file.
        limit: Items to keep, a seeded sample; None keeps all.
        seed: Seed of the sample.

    Returns:
        The task with its sampled items.

    Raises:
        InputError: If the name is neither a task nor a file, or a file is empty or malformed.
        AccessError: If the dataset cannot be read from the Hub.
    """
    if name in _HUB_TASKS:
        task = _HUB_TASKS[name]
        rows, revision = read_hub_rows(task.dataset, task.config, task.split)
        items = [task.item(f"{name}-{index}", row) for index, row in enumerate(rows)]
        kind: TaskKind = "answer" if task.headline_metric == "exact_match" else "multiple_choice"
        source = f"{task.dataset}@{revision} {task.config or ''} {task.split}".replace("  ", " ")
        return Task(name, kind, source, task.headline_metric, sample_items(items, limit, seed=seed), kind != "answer")
    if name == "builtin":
        return _file_task(name, BUILTIN_FOLDER / "multiple_choice.jsonl", limit, seed, "hubaudit builtin")
    if name == "builtin-answers":
        return _file_task(name, BUILTIN_FOLDER / "answers.jsonl", limit, seed, "hubaudit builtin")
    path = Path(name)
    if path.suffix in {".jsonl", ".txt"}:
        return _file_task(path.stem, path, limit, seed, str(path))
    raise InputError(
        f"unknown task {name!r}: expected one of {', '.join(TASK_NAMES)}, or the path of a .jsonl or .txt file"
    )


def _file_task(name: str, path: Path, limit: int | None, seed: int, source: str) -> Task:
    if path.suffix == ".txt":
        items = list(_corpus_items(path))
        return Task(name, "corpus", source, "none", sample_items(items, limit, seed=seed))
    rows = list(read_jsonl(path))
    items = [_file_item(path, line, row) for line, row in rows]
    kinds = {"answer" if len(item.options) == 1 else "multiple_choice" for item in items}
    if len(kinds) > 1:
        raise InputError(
            f"{path}: every line must be of one kind, but some have options and some have none; split the file"
        )
    seen: dict[str, int] = {}
    for (line, _), item in zip(rows, items, strict=True):
        if item.item_id in seen:
            raise InputError(
                f"{path}, line {line}: the id {item.item_id!r} stands in line {seen[item.item_id]} too; make ids unique"
            )
        seen[item.item_id] = line
    sampled = sample_items(items, limit, seed=seed)
    if kinds == {"answer"}:
        return Task(name, "answer", source, "exact_match", sampled, joined_tokens=False)
    return Task(name, "multiple_choice", source, "acc_norm", sampled)


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the objects of a JSON Lines file with their line numbers, from 1.

    Raises:
        InputError: If the file is missing, empty, too large, or a line is no JSON object.
    """
    text = read_text(path)
    found = False
    # Only a line feed ends a line: JSON may hold U+2028 and the like as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InputError(f"{path}, line {number}: expected a JSON object, but got {line[:60]!r} ({exc})") from exc
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected a JSON object, but got {type(row).__name__}")
        found = True
        yield number, row
    if not found:
        raise InputError(f"{path}: expected at least one line, but the file is empty")


def read_text(path: Path) -> str:
    """Read a text file as UTF-8.

    Raises:
        InputError: If it is missing, too large, or not UTF-8.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: expected at most {MAX_FILE_BYTES} bytes; split the file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({exc})") from exc


def _file_item(path: Path, line: int, row: dict[str, Any]) -> Item:
    item_id = str(row.get("id", f"line-{line}"))
    subject = str(row["subject"]) if row.get("subject") is not None else None
    try:
        options = row.get("options", row.get("choices"))
        if options is not None:
            texts, gold = formats.labelled_options(options, row["answer"])
            for text in texts:
                if not text.strip():
                    raise ValueError("an option is empty")
            return formats.question_item(
                item_id, f"Question: {_text(row, 'question')}\nAnswer:", texts, gold, subject=subject
            )
        if "prompt" in row:
            return formats.answer_item(item_id, _text(row, "prompt"), _text(row, "target"))
        return formats.answer_item(item_id, f"{_text(row, 'question')}\nAnswer:", f" {_text(row, 'answer')}")
    except KeyError as exc:
        raise InputError(
            f"{path}, line {line}: the field {exc.args[0]!r} is missing; "
            "expected question, options, answer or prompt, target or question, answer"
        ) from exc
    except ValueError as exc:
        raise InputError(f"{path}, line {line}: {exc}") from exc


def _text(row: dict[str, Any], field: str) -> str:
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{field} must be a text that is not empty, but got {value!r}")
    return value


def _corpus_items(path: Path) -> Iterator[Item]:
    """Windows of a text, cut at white space; the first token of each is context."""
    words = read_text(path)
    start = 0
    number = 0
    while start < len(words):
        end = min(start + CORPUS_WINDOW_CHARACTERS, len(words))
        if end < len(words):
            cut = max(words.rfind(" ", start + 1, end), words.rfind("\n", start + 1, end))
            end = cut if cut > start else end
        window = words[start:end]
        if window.strip():
            yield Item(f"window-{number}", ("",), (window,), (window,), 0)
            number += 1
        start = end
    if number == 0:
        raise InputError(f"{path}: expected text, but the file is empty")
