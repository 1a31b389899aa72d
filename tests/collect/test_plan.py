from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hubaudit.collect import Plan
from hubaudit.collect.pack import plain_paths


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
