"""lm-eval's `samples_*.jsonl` (0.4.x): the option that each item's log-likelihoods choose, and whether it is right."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hubaudit.answer_file import AnswerFile, ItemAnswer, by_id, shown
from hubaudit.errors import InputError

__all__ = ["is_sample", "read_samples"]

_PREFERRED_METRICS = ("acc_norm", "acc", "exact_match")
_COMMON_KEYS = frozenset(
    [
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    ]
)
_HASHES = {"doc_hash": "document", "prompt_hash": "prompt", "target_hash": "target"}
_SUBJECT_KEYS = ("subject", "category")


@dataclasses.dataclass(frozen=True)
class _Sample:
    where: str
    line: int
    row: dict[str, Any]
    filter_name: str


def is_sample(row: dict[str, Any]) -> bool:
    """Whether an object of a JSON Lines file is one of lm-eval's samples."""
    return "doc_id" in row and "filtered_resps" in row


def read_samples(
    path: Path, rows: Iterable[tuple[int, dict[str, Any]]], *, metric: str | None, filter_name: str | None
) -> AnswerFile:
    """Read the samples of one task.

    Right or wrong is what the metric's key says. The answer is the option with the highest log-likelihood (the
    first of equals, as in lm-eval); for `acc_norm` and `acc_bytes` after division by the option's length in
    characters or bytes, and for `acc_mutual_info` after subtraction of the unconditional one. Other metrics
    take the filtered text. Options are read off the requests, where a delimiter, mostly a blank, stands before
    them: with and without it are two readings, and `possible` says which of them contradict the metric.

    Args:
        path: The file, for messages.
        rows: Its lines with their numbers.
        metric: Key of a metric of 0 and 1; None takes `acc_norm`, `acc`, `exact_match`, or the only one.
        filter_name: The filter; None takes the first of the file.

    Returns:
        The answers by `doc_id`.

    Raises:
        InputError: If a line lacks a field, a value is not of its kind, an item comes twice, or the metric or
            filter is not there.
    """
    samples = [_sample(path, line, row) for line, row in rows]
    filters = list(dict.fromkeys(sample.filter_name for sample in samples))
    chosen_filter = filters[0] if filter_name is None else filter_name
    if chosen_filter not in filters:
        raise InputError(
            f"{path}: expected answers of the filter {shown(chosen_filter)}, but the file has "
            f"{_listed(filters)}; name one of them with --filter"
        )
    samples = [sample for sample in samples if sample.filter_name == chosen_filter]
    chosen_metric = _metric(path, samples[0], metric)
    items, fits = [], []
    for sample in samples:
        item, fit = _item(sample, chosen_metric)
        items.append(item)
        fits.append(fit)
    readings = min(len(item.answers) for item in items)
    if readings < max(len(item.answers) for item in items):
        # Without the options of some items, answers of the others would be compared with nothing.
        readings = 0
    warnings = []
    if len(filters) > 1 and filter_name is None:
        warnings.append(f"{path} has the filters {_listed(filters)}; the first is used, --filter takes another")
    return AnswerFile(
        path=path,
        form="lm-eval samples",
        items=by_id(path, items),
        metric=chosen_metric,
        filter_name=chosen_filter,
        possible=tuple(all(fit[place] for fit in fits) for place in range(readings)),
        warnings=tuple(warnings),
    )


def _sample(path: Path, line: int, row: dict[str, Any]) -> _Sample:
    where = f"{path}, line {line}"
    for field in ("doc_id", "filtered_resps"):
        if field not in row:
            raise InputError(
                f"{where}: expected one of lm-eval's samples, but the field {field} is missing; "
                "write the file with lm-eval 0.4 and --log_samples"
            )
    if not isinstance(row["doc_id"], int | str):
        raise InputError(f"{where}: expected a number or text as doc_id, but got {shown(row['doc_id'])}")
    if not isinstance(row["filtered_resps"], list):
        raise InputError(f"{where}: expected a list as filtered_resps, but got {shown(row['filtered_resps'])}")
    filter_name = row.get("filter", "none")
    if not isinstance(filter_name, str):
        raise InputError(f"{where}: expected a text as filter, but got {shown(filter_name)}")
    # What no one reads is dropped, since documents and prompts are most of a large file.
    kept = {key: value for key, value in row.items() if key != "resps"}
    return _Sample(where, line, kept, filter_name)


def _metric(path: Path, first: _Sample, metric: str | None) -> str:
    declared = first.row.get("metrics")
    names = declared if isinstance(declared, list) else [key for key in first.row if key not in _COMMON_KEYS]
    found = [name for name in names if isinstance(name, str) and first.row.get(name) in (0, 1)]
    preferred = [name for name in _PREFERRED_METRICS if name in found] or (found if len(found) == 1 else [])
    chosen = metric or (preferred[0] if preferred else None)
    if chosen is None or chosen not in found:
        wanted = "a metric of 0 and 1" if chosen is None else f"the metric {shown(chosen)} with 0 or 1"
        raise InputError(
            f"{path}, line {first.line}: expected {wanted}, but such metrics are {_listed(found)}; "
            "name one of them with --metric"
        )
    return chosen


def _item(sample: _Sample, metric: str) -> tuple[ItemAnswer, tuple[bool, ...]]:
    """The answer under each reading, and whether each reading agrees with the metric."""
    value = sample.row.get(metric)
    if value not in (0, 1):
        got = shown(value) if metric in sample.row else "no such field"
        raise InputError(f"{sample.where}: expected 0 or 1 as {metric}, but got {got}; choose another with --metric")
    right = bool(value)
    choices = _choices(sample, metric)
    answers = tuple(str(choice) for choice in choices) if choices is not None else _text_answer(sample)
    targets = _target_options(sample) if choices is not None else None
    fits = tuple(targets is None or (choice in targets) == right for choice in choices or answers)
    document = sample.row.get("doc")
    named = [document.get(key) for key in _SUBJECT_KEYS] if isinstance(document, dict) else []
    item = ItemAnswer(
        item_id=str(sample.row["doc_id"]),
        place=sample.line,
        answers=answers,
        right=right,
        subject=next((name for name in named if isinstance(name, str) and name.strip()), None),
        hashes={name: str(sample.row[key]) for key, name in _HASHES.items() if isinstance(sample.row.get(key), str)},
    )
    return item, fits


def _text_answer(sample: _Sample) -> tuple[str, ...]:
    """The filtered text of a generation; nothing where the responses are log-likelihoods."""
    responses = sample.row["filtered_resps"]
    if len(responses) != 1:
        return ()
    only = responses[0]
    if isinstance(only, str):
        return (only.strip(),)
    is_likelihood = isinstance(only, list) and len(only) == 2 and str(only[1]) in ("True", "False")
    if isinstance(only, list) and not is_likelihood and all(isinstance(part, str) for part in only):
        return ("\n".join(only),)  # several generations for one item
    return ()


def _choices(sample: _Sample, metric: str) -> list[int] | None:
    """The option chosen under each reading; None where the metric or the responses name no option."""
    responses = sample.row["filtered_resps"]
    if not metric.startswith("acc") or len(responses) < 2:
        return None
    values = np.array([_log_likelihood(sample, response) for response in responses])
    unconditional = np.zeros(0)
    if "acc_mutual_info" in sample.row and len(values) % 2 == 0:
        values, unconditional = np.split(values, 2)
    if metric == "acc":
        return [int(np.argmax(values))]
    if metric == "acc_mutual_info" and len(unconditional):
        with np.errstate(invalid="ignore"):  # -inf less -inf; lm-eval takes the NaN as the highest too
            return [int(np.argmax(values - unconditional))]
    measures: dict[str, Callable[[str], int]] = {"acc_norm": len, "acc_bytes": _byte_length}
    options = _options(sample, len(values))
    if metric not in measures or options is None:
        return None
    measure, chosen = measures[metric], []
    for texts in (_without_blank(options), options):
        lengths = np.array([measure(text) for text in texts], dtype=float)
        if not lengths.all():
            return None
        chosen.append(int(np.argmax(values / lengths)))
    return chosen


def _log_likelihood(sample: _Sample, response: object) -> float:
    """The first part of `["-31.25", "False"]`; older files hold numbers."""
    value = response[0] if isinstance(response, list) and response else response
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if math.isnan(number) or number == math.inf:
        raise InputError(
            f"{sample.where}: expected a log-likelihood in filtered_resps, but got {shown(value)}; "
            "a model that gives NaN has to be evaluated anew, in bfloat16 or float32"
        )
    return number


def _options(sample: _Sample, count: int) -> list[str] | None:
    """What each request asks to continue with; None where that does not tell the options apart."""
    arguments = sample.row.get("arguments")
    if isinstance(arguments, dict):
        requests = [arguments.get(f"gen_args_{index}") for index in range(count)]
        pairs = [request.get("arg_1") if isinstance(request, dict) else None for request in requests]
    elif isinstance(arguments, list) and len(arguments) >= count:  # before 0.4.3
        pairs = [
            request[1] if isinstance(request, list) and len(request) > 1 else None for request in arguments[:count]
        ]
    else:
        return None
    texts = [text for text in pairs if isinstance(text, str)]
    # Equal continuations: the options stand in the contexts, as in WinoGrande, and their lengths are not known.
    return texts if len(texts) == count and len(set(texts)) > 1 else None


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _without_blank(options: list[str]) -> list[str]:
    return [text[1:] for text in options] if all(text[:1].isspace() for text in options) else options


def _target_options(sample: _Sample) -> set[int] | None:
    """The right options, where the target names them by number; None where it does not."""
    target = sample.row.get("target")
    try:
        value = json.loads(target) if isinstance(target, str) else target
    except (ValueError, RecursionError):
        return None
    values = value if isinstance(value, list) else [value]
    whole = {number for number in values if isinstance(number, int) and not isinstance(number, bool)}
    count = len(sample.row["filtered_resps"])
    # Numbers beyond the options are a text that happens to be a number, as in arithmetic tasks.
    return whole if len(whole) == len(values) and all(0 <= number < count for number in whole) else None


def _listed(names: list[str]) -> str:
    return ", ".join(shown(name) for name in names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"
