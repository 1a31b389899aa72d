"""Correctness agreement: literal counts, the real predictions of data/flips, invariants, weak cases."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from hubaudit.errors import InputError
from hubaudit.stats.correctness_agreement import (
    CorrectnessAgreement,
    agreement_by_subject,
    changed_items,
    correctness_agreement,
)
from hubaudit.stats.paired import holm, mcnemar_p

KEYS = [
    "correctness_agreement",
    "ci_low",
    "ci_high",
    "base_accuracy",
    "variant_accuracy",
    "accuracy_delta",
    "accuracy_delta_ci_low",
    "accuracy_delta_ci_high",
    "ceiling",
    "n",
    "n_base_correct",
    "regressions",
    "recoveries",
    "wrong_to_other_wrong",
    "same_answer_rate",
    "flip_rate",
    "churn_rate",
    "mcnemar_p",
    "tost_p",
    "tost_margin",
    "equivalent",
    "mde",
]

MODELS = ["Qwen__Qwen2.5-1.5B-Instruct", "google__gemma-2-2b-it", "meta-llama__Llama-3.2-3B-Instruct"]


def count(variant: list[str], base: list[str], right: list[str]) -> dict[str, float]:
    """The counts, item by item, as one would by hand."""
    found = dict.fromkeys(("base_right", "variant_right", "kept", "lost", "gained", "other_wrong", "same"), 0)
    for v, b, r in zip(variant, base, right, strict=True):
        found["base_right"] += b == r
        found["variant_right"] += v == r
        found["kept"] += b == r and v == r
        found["lost"] += b == r and v != r
        found["gained"] += b != r and v == r
        found["other_wrong"] += b != r and v != r and b != v
        found["same"] += v == b
    return found


def read_flips(shared: Path, model: str, precision: str, benchmark: str) -> tuple[list[str], list[str], list[str]]:
    def answers(name: str) -> list[str]:
        return list(json.loads((shared / f"data/flips/{model}__{name}__{benchmark}.json").read_text())["preds"])

    lines = (shared / f"data/{benchmark}.jsonl").read_text().splitlines()
    return answers(precision), answers("fp16"), [json.loads(line)["answer"] for line in lines]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("benchmark", ["mmlu", "arc", "csqa"])
def test_real_predictions_agree_with_plain_counts(shared: Path, model: str, precision: str, benchmark: str) -> None:
    variant, base, right = read_flips(shared, model, precision, benchmark)
    result, found, n = correctness_agreement(variant, base, right), count(variant, base, right), len(right)
    assert (result.n, result.n_base_correct) == (n, found["base_right"])
    assert (result.regressions, result.recoveries) == (found["lost"], found["gained"])
    assert result.wrong_to_other_wrong == found["other_wrong"]
    assert result.correctness_agreement == pytest.approx(found["kept"] / found["base_right"], abs=1e-12)
    assert result.base_accuracy == pytest.approx(found["base_right"] / n, abs=1e-12)
    assert result.variant_accuracy == pytest.approx(found["variant_right"] / n, abs=1e-12)
    assert result.ceiling == pytest.approx(min(1, found["variant_right"] / found["base_right"]), abs=1e-12)
    assert result.same_answer_rate == pytest.approx(found["same"] / n, abs=1e-12)
    assert result.churn_rate == pytest.approx(1 - found["same"] / n, abs=1e-12)
    assert result.flip_rate == pytest.approx((found["lost"] + found["gained"]) / n, abs=1e-12)


def test_the_textbook_case(shared: Path) -> None:
    # data/README.md: gemma-2-2b-it int4 on mmlu, accuracy .570 -> .570, yet 46 lost, 46 gained, 42 to another wrong.
    result = correctness_agreement(*read_flips(shared, "google__gemma-2-2b-it", "int4", "mmlu"))
    assert (round(result.base_accuracy, 3), round(result.variant_accuracy, 3)) == (0.570, 0.570)
    assert round(result.correctness_agreement or 0.0, 3) == 0.917
    assert (result.regressions, result.recoveries, result.wrong_to_other_wrong) == (46, 46, 42)
    assert result.mcnemar_p == 1.0
    assert result.equivalent


def test_by_hand() -> None:
    #          lost  kept  gained  other wrong  same wrong
    variant = ["B", "A", "A", "C", "B"]
    base = ["A", "A", "B", "B", "B"]
    result = correctness_agreement(variant, base, ["A"] * 5)
    assert result.correctness_agreement == 1 / 2
    assert result.ceiling == 1.0
    assert (result.regressions, result.recoveries, result.wrong_to_other_wrong) == (1, 1, 1)
    assert (result.same_answer_rate, result.churn_rate, result.flip_rate) == (2 / 5, 3 / 5, 2 / 5)
    assert (result.base_accuracy, result.variant_accuracy, result.accuracy_delta) == (2 / 5, 2 / 5, 0.0)


def test_every_contract_key_is_there() -> None:
    values = correctness_agreement(["A"], ["A"], ["A"]).to_dict()
    assert set(KEYS) <= set(values)
    assert all(values[key] is not None or key in values["reasons"] for key in values if key != "reasons")


def make_answers(n: int, *, seed: int) -> tuple[list[str], list[str], list[str]]:
    rng = random.Random(seed)
    right = [rng.choice("ABCD") for _ in range(n)]
    base = [r if rng.random() < 0.6 else rng.choice("ABCD") for r in right]
    variant = [b if rng.random() < 0.85 else rng.choice("ABCD") for b in base]
    return variant, base, right


def test_row_permutation_changes_nothing() -> None:
    variant, base, right = make_answers(200, seed=1)
    order = list(range(200))
    random.Random(2).shuffle(order)
    shuffled = ([column[i] for i in order] for column in (variant, base, right))
    assert correctness_agreement(*shuffled) == correctness_agreement(variant, base, right)


def test_base_against_itself() -> None:
    _, base, right = make_answers(200, seed=1)
    result = correctness_agreement(base, base, right)
    assert (result.correctness_agreement, result.ceiling, result.ci_high) == (1.0, 1.0, 1.0)
    assert (result.flip_rate, result.churn_rate, result.mcnemar_p) == (0.0, 0.0, 1.0)
    assert result.accuracy_delta_ci_low < 0.0 < result.accuracy_delta_ci_high


def test_swapping_models_swaps_the_counts() -> None:
    variant, base, right = make_answers(300, seed=4)
    forth, back = correctness_agreement(variant, base, right), correctness_agreement(base, variant, right)
    assert (forth.regressions, forth.recoveries) == (back.recoveries, back.regressions)
    assert (forth.mcnemar_p, forth.tost_p, forth.mde) == (back.mcnemar_p, back.tost_p, back.mde)


def test_strings_integers_and_correctness_flags_agree() -> None:
    variant, base, right = make_answers(150, seed=5)
    by_letter = correctness_agreement(variant, base, right)
    by_index = correctness_agreement(*(["ABCD".index(x) for x in column] for column in (variant, base, right)))
    assert by_index == by_letter
    flags = [[int(x == r) for x, r in zip(column, right, strict=True)] for column in (variant, base)]
    by_flag = correctness_agreement(*flags, [1] * 150)
    assert by_flag.correctness_agreement == by_letter.correctness_agreement
    assert by_flag.mcnemar_p == by_letter.mcnemar_p
    assert by_flag.wrong_to_other_wrong == 0  # flags cannot tell wrong answers apart


def test_base_without_a_correct_item_is_undefined_with_the_reason() -> None:
    result = correctness_agreement(["A", "B"], ["C", "C"], ["A", "A"])
    for key in ("correctness_agreement", "ci_low", "ci_high", "ceiling"):
        assert getattr(result, key) is None
        assert "the base has no correct item" in result.reasons[key]
    assert result.recoveries == 1


def test_few_items_are_said_in_the_notes() -> None:
    weak = correctness_agreement(["A"] * 5, ["A"] * 5, ["A"] * 5)
    assert "only 0 of 5 items decide this interval" in weak.notes["ci_low"]
    assert "only 0 flips among 5 items" in weak.notes["accuracy_delta_ci_low"]
    strong = correctness_agreement(*make_answers(1000, seed=3))
    assert strong.notes == {}


def test_margin_is_used_and_checked() -> None:
    answers = make_answers(1000, seed=3)
    narrow, wide = (correctness_agreement(*answers, tost_margin=m) for m in (0.01, 0.1))
    assert (narrow.tost_margin, wide.tost_margin) == (0.01, 0.1)
    assert narrow.tost_p > wide.tost_p
    assert wide.equivalent
    with pytest.raises(InputError, match=r"expected a margin in \(0, 1\), got 0"):
        correctness_agreement(*answers, tost_margin=0.0)


def test_seed_moves_only_the_bootstrap_interval() -> None:
    answers = make_answers(400, seed=3)
    one, other = correctness_agreement(*answers, seed=1).to_dict(), correctness_agreement(*answers, seed=2).to_dict()
    changed = {key for key in one if one[key] != other[key]}
    assert changed <= {"accuracy_delta_ci_low", "accuracy_delta_ci_high"}
    assert correctness_agreement(*answers, seed=1).to_dict() == one


def test_subjects_equal_audits_of_each_subject_alone() -> None:
    variant, base, right = make_answers(240, seed=6)
    subjects = [("law", "logic", "physics")[i % 3] for i in range(240)]
    by_subject = correctness_agreement(variant, base, right, subjects=subjects).by_subject
    assert by_subject == agreement_by_subject(variant, base, right, subjects)
    assert list(by_subject or {}) == ["law", "logic", "physics"]
    p_values = {}
    for name, part in (by_subject or {}).items():
        rows = [i for i, subject in enumerate(subjects) if subject == name]
        alone = correctness_agreement(*([column[i] for i in rows] for column in (variant, base, right)))
        for key in (
            "n",
            "n_base_correct",
            "base_accuracy",
            "variant_accuracy",
            "correctness_agreement",
            "ci_low",
            "ci_high",
        ):
            assert getattr(part, key) == getattr(alone, key)
        assert part.accuracy_delta == pytest.approx(alone.accuracy_delta, abs=1e-15)
        assert part.flip_rate == alone.flip_rate
        p_values[name] = mcnemar_p(alone.regressions, alone.recoveries)
    assert {name: part.mcnemar_p_holm for name, part in (by_subject or {}).items()} == holm(p_values)


def test_subject_without_a_correct_item() -> None:
    parts = agreement_by_subject(["A", "B"], ["A", "B"], ["A", "A"], ["easy", "hard"])
    assert parts["easy"].correctness_agreement == 1.0
    assert parts["hard"].correctness_agreement is None
    assert "no correct item" in parts["hard"].reasons["correctness_agreement"]


def test_wrong_number_of_subjects() -> None:
    with pytest.raises(InputError, match="expected one subject an item, 2, got 1"):
        correctness_agreement(["A", "B"], ["A", "B"], ["A", "A"], subjects=["law"])


def test_changed_items_are_named() -> None:
    ids = ["q1", "q2", "q3", "q4"]
    changed = changed_items(["B", "A", "C", "D"], ["A", "B", "B", "D"], ["A", "A", "A", "A"], ids)
    assert changed == {"regressions": ["q1"], "recoveries": ["q2"], "wrong_to_other_wrong": ["q3"]}


def test_result_is_frozen_and_its_dict_is_builtin() -> None:
    result = correctness_agreement(*make_answers(50, seed=1), subjects=["a", "b"] * 25)
    assert isinstance(result, CorrectnessAgreement)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) == result.to_dict()
