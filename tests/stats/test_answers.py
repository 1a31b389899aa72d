"""Comparing answers: what counts as the same, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
import pytest

from hubaudit.errors import InputError
from hubaudit.stats.answers import compare_answers, listed


def test_two_missing_answers_are_the_same_and_never_right() -> None:
    items = compare_answers([None, None, "x"], [None, "x", "x"], ["x", "x", "x"])
    assert items.same_answer.tolist() == [True, False, True]
    assert items.variant_right.tolist() == [False, False, True]
    assert items.lost.tolist() == [False, True, False]


def test_every_item_is_in_exactly_one_group() -> None:
    variant, base, right = ["a", "b", "b", "c", "c"], ["a", "a", "b", "b", "c"], ["a", "a", "a", "c", "a"]
    items = compare_answers(variant, base, right)
    both_wrong_alike = ~items.base_right & ~items.variant_right & items.same_answer
    groups = [items.kept, items.lost, items.gained, items.changed_while_wrong, both_wrong_alike]
    assert np.sum(groups, axis=0).tolist() == [1] * 5
    assert [int(g.sum()) for g in groups] == [1, 1, 1, 0, 2]


def test_numpy_columns_booleans_and_mixed_numbers() -> None:
    items = compare_answers(np.array([1, 0, 1]), np.array([True, True, False]), np.array([1.0, 1.0, 1.0]))
    assert items.base_right.tolist() == [True, True, False]
    assert items.variant_right.tolist() == [True, False, True]


def test_integers_of_any_size() -> None:
    assert compare_answers([2**70, 1], [2**70, 2**70], [2**70, 2**70]).variant_right.tolist() == [True, False]


def test_object_arrays_hold_builtin_values() -> None:
    assert listed(np.array(["A", None], dtype=object), "answers") == ["A", None]
    assert [type(x) for x in listed([np.int64(3), np.float32(0.5)], "answers")] == [int, float]


@pytest.mark.parametrize(
    ("variant", "base", "right", "message"),
    [
        ([], [], [], "expected at least one item, got none"),
        (["a"], ["a", "b"], ["a"], "got 1 variant answers, 2 base answers, 1 references; join the lists by item"),
        ("ab", ["a", "b"], ["a", "b"], "expected a list of variant answers, got str"),
        (3, ["a"], ["a"], "expected a list of variant answers, got int"),
        (["a"], ["a"], [None], "expected a reference for every item, got None in row 0"),
        (["a", math.nan], ["a", "b"], ["a", "b"], "got nan in row 1 of the variant answers"),
        (["a"], [["a"]], ["a"], r"expected a string, a number or None, got \['a'\] in row 0 of the base answers"),
        (["a", 1], ["a", "b"], ["a", "b"], "expected strings as the first reference is, got 1 in row 1"),
        (
            [1, 2],
            ["1", "2"],
            [1, 2],
            "expected numbers as the first reference is, got '1' in row 0 of the base answers",
        ),
    ],
)
def test_bad_answers(variant: list[Hashable], base: list[Hashable], right: list[Hashable], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare_answers(variant, base, right)


def test_bad_item_ids() -> None:
    with pytest.raises(InputError, match="expected every item once, got 'q1' 2 times"):
        compare_answers(["a", "b"], ["a", "b"], ["a", "b"], item_ids=["q1", "q1"])
    with pytest.raises(InputError, match="got 2 variant answers, 2 base answers, 2 references, 1 item ids"):
        compare_answers(["a", "b"], ["a", "b"], ["a", "b"], item_ids=["q1"])
