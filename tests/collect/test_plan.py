from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hubaudit.collect import Plan
from hubaudit.collect.pack import plain_paths
from hubaudit.collect.plan import CALL_TOKENS, cut_batches


def test_every_option_can_be_read_off_the_packed_sequences(tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan()
    found = {}
    for sequence in plan.sequences:
        texts, places = plain_paths(sequence)
        for scored in sequence.scored:
            # The last position decides which text it is: earlier ones may lie in the shared prefix.
            text, last = places[scored.positions[-1]]
            ids = texts[text].input_ids
            found[scored.task, scored.item, scored.option] = (ids[: last + 1], scored.target_ids)
    expected = {
        (task, item, option): (scored.input_ids, scored.target_ids)
        for task, one in enumerate(plan.tasks)
        for item, tokenized in enumerate(one.items)
        for option, scored in enumerate(tokenized.options)
    }
    assert found == expected


def test_options_share_one_copy_of_the_question(tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan()
    plain = sum(len(option.input_ids) for task in plan.tasks for item in task.items for option in item.options)
    plain += sum(map(len, plan.prompt_texts()))
    assert plan.n_tokens < 0.7 * plain


def test_prompts_come_back_in_their_order(tiny_plan: Callable[..., Plan], tiny_tokenizer: Any) -> None:
    texts = [tiny_tokenizer.decode(ids) for ids in tiny_plan().prompt_texts()]
    assert texts[0] == "<|user|>Please lie 0<|assistant|>"
    assert texts[9] == "<|user|>Kindly say 0 times<|assistant|>"
    assert len(texts) == 17


def test_batches_keep_the_budget_and_lose_nothing(tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan(batch_tokens=120)
    batches = [batch for shard in range(len(plan.shards)) for batch in plan.shard_batches(shard)]
    assert [sequence for batch in batches for sequence in batch] == list(plan.sequences)
    assert len(batches) > 1
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(len(one.input_ids) for one in batch) <= 120


def _cost(lengths: list[int], cuts: tuple[int, ...], budget: int) -> float:
    """Tokens and calls of one way of cutting; infinite where a run is too long."""
    edges = (0, *cuts, len(lengths))
    total = 0.0
    for start, stop in itertools.pairwise(edges):
        padded = (stop - start) * lengths[start]
        total += CALL_TOKENS + padded if stop - start == 1 or padded <= budget else math.inf
    return total


@pytest.mark.parametrize("budget", [1, 100, 300, 10_000])
def test_no_other_batches_cost_less(budget: int) -> None:
    rng = np.random.default_rng(budget)
    for n in range(1, 9):
        lengths = sorted(rng.integers(1, 150, n).tolist(), reverse=True)
        runs = cut_batches(lengths, budget)
        assert [start for start, _ in runs] + [n] == [0] + [stop for _, stop in runs]
        ours = _cost(lengths, tuple(stop for _, stop in runs[:-1]), budget)
        ways = (cuts for count in range(n) for cuts in itertools.combinations(range(1, n), count))
        assert ours == min(_cost(lengths, cuts, budget) for cuts in ways)


def test_nothing_to_run_has_no_batches() -> None:
    assert cut_batches([], 100) == []


def test_rows_are_the_gold_tokens(tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan()
    rows = [plan.shard_rows(shard) for shard in range(len(plan.shards))]
    assert sum(len(row.label) for row in rows) == sum(task.n_gold_tokens for task in plan.tasks)
    labels = np.concatenate([row.label[(row.task == 1) & (row.item == 0)] for row in rows])
    assert tuple(labels) == plan.tasks[1].items[0].options[0].target_ids


def test_the_digest_knows_batches_and_order(tiny_plan: Callable[..., Plan]) -> None:
    assert tiny_plan().digest == tiny_plan().digest
    assert tiny_plan().digest != tiny_plan(batch_tokens=120).digest
    assert tiny_plan().digest != tiny_plan().one_by_one().digest
