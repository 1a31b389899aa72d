"""Correctness agreement: of the items that the base gets right, the share that the variant also gets right."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.answers import ComparedAnswers, compare_answers, listed
from hubaudit.stats.paired import (
    holm,
    mcnemar_p,
    minimum_detectable_difference,
    paired_bootstrap_interval,
    wilson_interval,
)
from hubaudit.stats.result import Result
from hubaudit.stats.tango import tango_equivalence_p

__all__ = [
    "CorrectnessAgreement",
    "SubjectAgreement",
    "agreement_by_subject",
    "changed_items",
    "correctness_agreement",
]

EQUIVALENCE_LEVEL = 0.05
FEW_DECIDING = 3
FEW_FLIPS = 5
NO_CORRECT = "the base has no correct item, so there is nothing to keep"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubjectAgreement(Result):
    """Agreement within one subject of a benchmark."""

    n: int
    """Items of the subject."""
    n_base_correct: int
    """Items of the subject that the base gets right."""
    base_accuracy: float
    """Share of the subject's items that the base gets right."""
    variant_accuracy: float
    """Share of the subject's items that the variant gets right."""
    accuracy_delta: float
    """Variant accuracy minus base accuracy within the subject."""
    correctness_agreement: float | None
    """Share of the base's correct items of the subject that stay correct."""
    ci_low: float | None
    """Lower end of the 95 % Wilson interval of the subject's agreement."""
    ci_high: float | None
    """Upper end of the 95 % Wilson interval of the subject's agreement."""
    flip_rate: float
    """Share of the subject's items on which exactly one model is right."""
    mcnemar_p: float
    """Exact two-sided McNemar p value within the subject, before any correction."""
    mcnemar_p_holm: float | None
    """The same p value after Holm's correction over the subjects."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectnessAgreement(Result):
    """How far base and variant agree item by item, and how sure that is."""

    correctness_agreement: float | None
    """Share of the items that the base gets right which the variant gets right too, 0 to 1."""
    ci_low: float | None
    """Lower end of the 95 % Wilson interval of the agreement."""
    ci_high: float | None
    """Upper end of the 95 % Wilson interval of the agreement."""
    base_accuracy: float
    """Share of all items that the base gets right."""
    variant_accuracy: float
    """Share of all items that the variant gets right."""
    accuracy_delta: float
    """Variant accuracy minus base accuracy."""
    accuracy_delta_ci_low: float
    """Lower end of the 95 % paired-bootstrap interval of the accuracy difference."""
    accuracy_delta_ci_high: float
    """Upper end of the 95 % paired-bootstrap interval of the accuracy difference."""
    ceiling: float | None
    """Largest agreement that the two accuracies allow: the smaller of 1 and variant over base accuracy."""
    n: int
    """Items that both models answered."""
    n_base_correct: int
    """Items that the base gets right, the divisor of the agreement."""
    regressions: int
    """Items that the base gets right and the variant wrong."""
    recoveries: int
    """Items that the base gets wrong and the variant right."""
    wrong_to_other_wrong: int
    """Items that both get wrong with different answers."""
    same_answer_rate: float
    """Share of items with the same answer from both models; no answer from both is the same answer."""
    flip_rate: float
    """Share of items on which exactly one model is right: regressions plus recoveries over n."""
    churn_rate: float
    """Share of items whose answer changed, rightly or wrongly."""
    mcnemar_p: float
    """Exact two-sided McNemar p value for equal accuracies."""
    tost_p: float
    """Equivalence p value, exact tail of Tango's score test: small means they differ by less than the margin."""
    tost_margin: float
    """Accuracy difference below which the models count as equivalent."""
    equivalent: bool
    """Whether the equivalence test rejects a difference as large as the margin at the 5 % level."""
    mde: float | None
    """Smallest accuracy difference seen with 80 % power at the two-sided 5 % level, at this n."""
    by_subject: dict[str, SubjectAgreement] | None
    """The same within each subject, where subjects were given."""
    notes: dict[str, str] = dataclasses.field(default_factory=dict)
    """For figures that are defined but weak, such as an interval from few items: what to keep in mind."""


def correctness_agreement(
    variant_answers: Iterable[Hashable],
    base_answers: Iterable[Hashable],
    references: Iterable[Hashable],
    *,
    item_ids: Iterable[Hashable] | None = None,
    subjects: Iterable[Hashable] | None = None,
    tost_margin: float = 0.02,
    seed: int = 0,
) -> CorrectnessAgreement:
    """Compare two models' answers to the same items.

    Args:
        variant_answers: The variant's answers, (n,): strings or numbers, None where it gave none. Answers are
            compared as they are, so free text is normalised by the caller. For plain right or wrong, give 1 or
            0 here and in `base_answers`, and references of 1.
        base_answers: The base's answers to the same items in the same order, (n,).
        references: The right answers, (n,), none of them None.
        item_ids: Names of the items, (n,), each once; they serve error messages and the check for duplicates.
        subjects: Subject of each item, (n,), for the breakdown in `by_subject`.
        tost_margin: Accuracy difference below which the models count as equivalent, in (0, 1).
        seed: Seed of the paired bootstrap.

    Returns:
        Counts, rates, tests and intervals. `correctness_agreement`, its interval and `ceiling` are None where
        the base has no correct item. An interval from few items is said so in `notes`.

    Raises:
        InputError: If there is no item, the lengths differ, an item id comes twice, a reference is None, a value
            is NaN or not a string or number, strings meet numbers, or the margin is outside (0, 1).

    Source:
        The Illusion of Equivalency (correctness agreement); Wilson 1927; McNemar 1947; Tango 1998.

    Example:
        >>> result = correctness_agreement(["A", "B", "C", "D"], ["A", "B", "B", "A"], ["A", "B", "B", "C"])
        >>> round(result.correctness_agreement, 3), result.regressions, result.wrong_to_other_wrong
        (0.667, 1, 1)
    """
    items = compare_answers(variant_answers, base_answers, references, item_ids=item_ids)
    n, n_right, n_variant_right = items.n, int(items.base_right.sum()), int(items.variant_right.sum())
    lost, gained = int(items.lost.sum()), int(items.gained.sum())
    n_changed = n - int(items.same_answer.sum())
    delta_low, delta_high = paired_bootstrap_interval(lost, gained, n, seed=seed)
    tost_p = tango_equivalence_p(lost, gained, n, tost_margin)
    mde = minimum_detectable_difference(n, wilson_interval(lost + gained, n)[1])
    agreement, ci_low, ci_high = _agreement(items)
    result = CorrectnessAgreement(
        correctness_agreement=agreement,
        ci_low=ci_low,
        ci_high=ci_high,
        base_accuracy=n_right / n,
        variant_accuracy=n_variant_right / n,
        accuracy_delta=(gained - lost) / n,
        accuracy_delta_ci_low=delta_low,
        accuracy_delta_ci_high=delta_high,
        ceiling=min(1.0, n_variant_right / n_right) if n_right else None,
        n=n,
        n_base_correct=n_right,
        regressions=lost,
        recoveries=gained,
        wrong_to_other_wrong=int(items.changed_while_wrong.sum()),
        same_answer_rate=1.0 - n_changed / n,
        flip_rate=(lost + gained) / n,
        churn_rate=n_changed / n,
        mcnemar_p=mcnemar_p(lost, gained),
        tost_p=tost_p,
        tost_margin=tost_margin,
        equivalent=tost_p <= EQUIVALENCE_LEVEL,
        mde=mde,
        by_subject=None if subjects is None else _by_subject(items, subjects),
        notes=_notes(lost, gained, n, n_right),
    )
    return dataclasses.replace(result, reasons=_reasons(result))


def agreement_by_subject(
    variant_answers: Iterable[Hashable],
    base_answers: Iterable[Hashable],
    references: Iterable[Hashable],
    subjects: Iterable[Hashable],
) -> dict[str, SubjectAgreement]:
    """Agreement within each subject, with McNemar p values corrected over the subjects.

    Args:
        variant_answers: As in `correctness_agreement`, (n,).
        base_answers: As there, (n,).
        references: As there, (n,).
        subjects: Subject of each item, (n,).

    Returns:
        One entry a subject, sorted by name; names are turned into strings.

    Raises:
        InputError: As `correctness_agreement`, and if there are not n subjects.
    """
    return _by_subject(compare_answers(variant_answers, base_answers, references), subjects)


def changed_items(
    variant_answers: Iterable[Hashable],
    base_answers: Iterable[Hashable],
    references: Iterable[Hashable],
    item_ids: Iterable[Hashable],
) -> dict[str, list[Hashable]]:
    """Name the items behind the counts.

    Args:
        variant_answers: As in `correctness_agreement`, (n,).
        base_answers: As there, (n,).
        references: As there, (n,).
        item_ids: Names of the items, (n,), each once.

    Returns:
        The ids under `regressions`, `recoveries` and `wrong_to_other_wrong`, in the order of the items.

    Raises:
        InputError: As `correctness_agreement`.
    """
    ids = listed(item_ids, "item ids")
    items = compare_answers(variant_answers, base_answers, references, item_ids=ids)
    masks = {
        "regressions": items.lost,
        "recoveries": items.gained,
        "wrong_to_other_wrong": items.changed_while_wrong,
    }
    return {name: [ids[row] for row in np.flatnonzero(mask)] for name, mask in masks.items()}


def _reasons(result: CorrectnessAgreement) -> dict[str, str]:
    """Why each figure that is None is undefined."""
    why = dict.fromkeys(("correctness_agreement", "ci_low", "ci_high", "ceiling"), NO_CORRECT)
    why["mde"] = f"with {result.n} items no accuracy difference is seen with 80 % power"
    why["by_subject"] = "no subjects were given"
    return {name: text for name, text in why.items() if getattr(result, name) is None}


def _notes(lost: int, gained: int, n: int, n_right: int) -> dict[str, str]:
    """Where few items decide an interval; the figures are in benchmarks/results/coverage_agreement.json."""
    notes = {}
    rarer = min(lost, n_right - lost)
    if n_right and rarer < FEW_DECIDING:
        notes["ci_low"] = (
            f"only {rarer} of {n_right} items decide this interval; where fewer than one is expected, a 95 % Wilson "
            "interval covers as little as 83 %"
        )
    if lost + gained < FEW_FLIPS:
        notes["accuracy_delta_ci_low"] = (
            f"only {lost + gained} flips among {n} items decide this interval; it then covers 92 to 100 %, not 95 %"
        )
    return notes


def _by_subject(items: ComparedAnswers, subjects: Iterable[Hashable]) -> dict[str, SubjectAgreement]:
    names = [str(subject) for subject in listed(subjects, "subjects")]
    if len(names) != items.n:
        raise InputError(f"expected one subject an item, {items.n}, got {len(names)}; give them in the items' order")
    groups = {name: items.take(np.array(names) == name) for name in sorted(set(names))}
    p_values = {name: mcnemar_p(int(group.lost.sum()), int(group.gained.sum())) for name, group in groups.items()}
    corrected = holm(p_values)
    return {name: _subject(group, p_values[name], corrected[name]) for name, group in groups.items()}


def _subject(items: ComparedAnswers, p: float, corrected_p: float | None) -> SubjectAgreement:
    agreement, low, high = _agreement(items)
    n_right, n_variant_right = int(items.base_right.sum()), int(items.variant_right.sum())
    undefined = ("correctness_agreement", "ci_low", "ci_high") if agreement is None else ()
    return SubjectAgreement(
        n=items.n,
        n_base_correct=n_right,
        base_accuracy=n_right / items.n,
        variant_accuracy=n_variant_right / items.n,
        accuracy_delta=(n_variant_right - n_right) / items.n,
        correctness_agreement=agreement,
        ci_low=low,
        ci_high=high,
        flip_rate=int((items.lost | items.gained).sum()) / items.n,
        mcnemar_p=p,
        mcnemar_p_holm=corrected_p,
        reasons=dict.fromkeys(undefined, NO_CORRECT),
    )


def _agreement(items: ComparedAnswers) -> tuple[float | None, float | None, float | None]:
    kept, n_right = int(items.kept.sum()), int(items.base_right.sum())
    if n_right == 0:
        return None, None, None
    return kept / n_right, *wilson_interval(kept, n_right)
