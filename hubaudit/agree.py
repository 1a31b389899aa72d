"""Correctness agreement from two files of predictions: joining them item by item, then the statistic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hubaudit.answer_file import AnswerFile, ItemAnswer, shown
from hubaudit.errors import InputError
from hubaudit.predictions import read_predictions, with_references
from hubaudit.report.text import clip
from hubaudit.stats.answers import ComparedAnswers, compare_answers
from hubaudit.stats.correctness_agreement import CorrectnessAgreement, changed_items, correctness_agreement

__all__ = ["Agreement", "Counts", "Difference", "agree"]

MAX_SUBJECTS = 1000
_LONGEST_SUBJECT = 100
_RIGHT = "right"
_NEED_ANSWERS = ("wrong_to_other_wrong", "same_answer_rate", "churn_rate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Items in which the two files do not fit each other."""

    kind: str
    """What differs, in words."""
    count: int
    """How many items."""
    first: str
    """Id of the first of them."""
    compared: bool
    """Whether they were compared nevertheless."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of the items; the five counts sum to all of them."""

    kept: int
    """Right in both models."""
    lost: int
    """Right only in the base."""
    gained: int
    """Right only in the variant."""
    changed_wrong: int
    """Wrong in both, with different answers."""
    same_wrong: int
    """Wrong in both, with the same answer, or with answers that are not known."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """The comparison of two files."""

    base: Path
    """The base's file."""
    variant: Path
    """The variant's file."""
    form: str
    """What the files are."""
    metric: str | None
    """lm-eval's metric, in its samples."""
    filter_name: str | None
    """lm-eval's filter, in its samples."""
    n_base_items: int
    """Items in the base's file."""
    n_variant_items: int
    """Items in the variant's file."""
    differences: tuple[Difference, ...]
    """How the sets of items differ."""
    warnings: tuple[str, ...]
    """What to keep in mind when reading the figures."""
    answers_known: bool
    """Whether the files hold the answers, or only right and wrong."""
    result: CorrectnessAgreement
    """The figures; `wrong_to_other_wrong`, `same_answer_rate` and `churn_rate` mean nothing without answers."""
    counts: Counts
    """What became of all items."""
    by_subject: dict[str, Counts]
    """The same within each subject, by name; empty without subjects."""
    changed: dict[str, list[str]]
    """Ids of the items behind the counts of changes."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as builtin values for JSON, undefined figures None with their reason."""
        figures, changed = self.result.to_dict(), dict(self.changed)
        if not self.answers_known:
            why = "the files say right or wrong, but not which answer was given"
            figures |= dict.fromkeys(_NEED_ANSWERS)
            figures["reasons"] = figures["reasons"] | dict.fromkeys(_NEED_ANSWERS, why)
            del changed["wrong_to_other_wrong"]
        return {
            "base": str(self.base),
            "variant": str(self.variant),
            "form": self.form,
            "metric": self.metric,
            "filter": self.filter_name,
            "n_base_items": self.n_base_items,
            "n_variant_items": self.n_variant_items,
            "differences": [dataclasses.asdict(entry) for entry in self.differences],
            "warnings": list(self.warnings),
            "correctness_agreement": figures,
            "changed_items": changed,
        }


def agree(
    base: Path,
    variant: Path,
    *,
    references: Path | None = None,
    metric: str | None = None,
    filter_name: str | None = None,
    tost_margin: float = 0.02,
    seed: int = 0,
) -> Agreement:
    """Compare two models by their prediction files; no model runs.

    Items are joined by id (lm-eval's `doc_id` within one filter), bare lists by position. Items of one file
    only, and items whose document or target differs, are left out and counted; items whose prompt differs are
    compared and counted. Two right answers are the same answer, however they are written.

    Args:
        base: The base's file, see `read_predictions`.
        variant: The variant's file, of the same form.
        references: Right answers, where the files do not hold them.
        metric: lm-eval's metric.
        filter_name: lm-eval's filter.
        tost_margin: Accuracy difference below which the models count as equivalent.
        seed: Seed of the paired bootstrap.

    Raises:
        InputError: If a file cannot be used, the forms differ, an item has no reference, or no item is common.
    """
    first = read_predictions(base, metric=metric, filter_name=filter_name)
    # The base's choice holds for both; the variant's file may list its metrics and filters in another order.
    second = read_predictions(variant, metric=first.metric or metric, filter_name=first.filter_name or filter_name)
    _check_forms(first, second)
    if first.metric is None and (metric is not None or filter_name is not None):
        raise InputError(f"--metric and --filter are for lm-eval's samples, but {base} is {first.form}; leave them out")
    if references is not None:
        first, second = with_references(first, references), with_references(second, references)
    pairs, differences = _join(first, second)
    reading = next(
        (place for place, fit in enumerate(zip(first.possible, second.possible, strict=False)) if all(fit)), None
    )
    warnings = list(first.warnings)
    if reading is None and first.metric is not None:
        warnings.append("the answers are not known, only right and wrong: changes between wrong answers are not seen")
    base_answers = [_encoded(first.path, one, two, reading) for one, two in pairs]
    variant_answers = [_encoded(second.path, two, one, reading) for one, two in pairs]
    warnings += _unlike_references(pairs, base_answers, variant_answers)
    ids = [one.item_id for one, _ in pairs]
    right = [_RIGHT] * len(pairs)
    subjects, subject_warnings = _subjects(pairs)
    result = correctness_agreement(
        variant_answers, base_answers, right, item_ids=ids, subjects=subjects, tost_margin=tost_margin, seed=seed
    )
    compared = compare_answers(variant_answers, base_answers, right)
    names = np.array(subjects or [])
    changed = changed_items(variant_answers, base_answers, right, ids)
    return Agreement(
        base=base,
        variant=variant,
        form=first.form,
        metric=first.metric,
        filter_name=first.filter_name,
        n_base_items=len(first.items),
        n_variant_items=len(second.items),
        differences=differences,
        warnings=(*warnings, *subject_warnings),
        answers_known=reading is not None,
        result=result,
        counts=_counts(compared),
        by_subject={str(name): _counts(compared.take(names == name)) for name in sorted(set(subjects or []))},
        changed={name: [str(item_id) for item_id in listed] for name, listed in changed.items()},
    )


def _check_forms(base: AnswerFile, variant: AnswerFile) -> None:
    if base.form != variant.form:
        raise InputError(
            f"expected two files of one form, but {base.path} is {base.form} and {variant.path} is {variant.form}"
        )
    if base.by_position and len(base.items) != len(variant.items):
        raise InputError(
            f"{variant.path}: expected {len(base.items)} answers as in {base.path}, but got {len(variant.items)}; "
            "bare lists are joined by position, so give lists of the same items, or objects with ids"
        )


def _join(base: AnswerFile, variant: AnswerFile) -> tuple[list[tuple[ItemAnswer, ItemAnswer]], tuple[Difference, ...]]:
    """Pairs of answers to the same item, in the base's order, and what did not fit."""
    tests: list[tuple[str, Callable[[ItemAnswer, ItemAnswer], bool], bool]] = [
        ("different document", lambda one, two: _unlike(one.hashes, two.hashes, "document"), False),
        (
            "different target",
            lambda one, two: (
                _unlike(one.hashes, two.hashes, "target")
                or (None not in (one.reference, two.reference) and one.reference != two.reference)
            ),
            False,
        ),
        ("different prompt", lambda one, two: _unlike(one.hashes, two.hashes, "prompt"), True),
    ]
    found = [
        _difference("only in the base's file", (key for key in base.items if key not in variant.items)),
        _difference("only in the variant's file", (key for key in variant.items if key not in base.items)),
    ]
    pairs = [(item, variant.items[key]) for key, item in base.items.items() if key in variant.items]
    for kind, differs, compared in tests:
        unlike = [one.item_id for one, two in pairs if differs(one, two)]
        found.append(_difference(kind, unlike, compared=compared))
        if not compared and unlike:
            left_out = set(unlike)
            pairs = [pair for pair in pairs if pair[0].item_id not in left_out]
    differences = tuple(entry for entry in found if entry is not None)
    if not pairs:
        why = "; ".join(f"{entry.count} {entry.kind}, first {shown(entry.first)}" for entry in differences)
        raise InputError(
            f"expected items that stand in both {base.path} and {variant.path}, but there are none ({why}); "
            "give files of the same task"
        )
    return pairs, differences


def _difference(kind: str, ids: Iterable[str], *, compared: bool = False) -> Difference | None:
    listed = list(ids)
    return Difference(kind=kind, count=len(listed), first=listed[0], compared=compared) if listed else None


def _unlike(one: dict[str, str], two: dict[str, str], name: str) -> bool:
    """Whether both files have the fingerprint, and it differs; older versions of lm-eval wrote none."""
    return name in one and name in two and one[name] != two[name]


def _encoded(path: Path, item: ItemAnswer, other: ItemAnswer, reading: int | None) -> str | None:
    """`right`, or which wrong answer was given; None where none was."""
    answer = item.answers[reading] if reading is not None and item.answers else None
    right = item.right
    if right is None:
        reference = item.reference or other.reference
        if reference is None:
            raise InputError(
                f"{path}, line {item.place}: expected the right answer of {shown(item.item_id)} in the file, but "
                "there is none; name a file of items with --references"
            )
        right = answer == reference
    if right:
        return _RIGHT
    return None if answer is None else f"wrong: {answer}"


def _unlike_references(
    pairs: list[tuple[ItemAnswer, ItemAnswer]], base_answers: list[str | None], variant_answers: list[str | None]
) -> list[str]:
    """A hint where nothing is right, which mostly means that letters meet numbers."""
    one, _ = pairs[0]
    if one.right is not None or _RIGHT in base_answers or _RIGHT in variant_answers:
        return []
    return [
        "no answer of either model equals its reference: the first answer of the base is "
        f"{shown(one.answers[0])}, its reference {shown(one.reference)}; letters never equal numbers"
    ]


def _subjects(pairs: list[tuple[ItemAnswer, ItemAnswer]]) -> tuple[list[str] | None, list[str]]:
    """The subject of each item where the files name several, and a warning where there are too many."""
    named = [one.subject or two.subject for one, two in pairs]
    distinct = set(named)
    if len(distinct) < 2:
        return None, []
    if len(distinct) > MAX_SUBJECTS:
        return None, [f"{len(distinct)} subjects are more than {MAX_SUBJECTS}, so there is no figure for each"]
    # numpy gives every row the room of the longest name, so one endless name would fill the memory.
    return [clip(name or "(none)", _LONGEST_SUBJECT) for name in named], []


def _counts(items: ComparedAnswers) -> Counts:
    kept, lost, gained = int(items.kept.sum()), int(items.lost.sum()), int(items.gained.sum())
    moved = int(items.changed_while_wrong.sum())
    return Counts(
        kept=kept, lost=lost, gained=gained, changed_wrong=moved, same_wrong=items.n - kept - lost - gained - moved
    )
