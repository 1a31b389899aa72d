"""A tiny model and a plan for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubaudit.collect import Plan, build_plan
from hubaudit.load import LoadedModel, ModelSource, load_model
from hubaudit.tasks import ContrastSet, Task, tokenize_contrast, tokenize_task
from hubaudit.tasks.formats import answer_item, question_item

QUESTIONS = [
    question_item("q0", "Question: Which colour has the sky?\nAnswer:", ["blue", "green", "red", "very dark"], 0),
    question_item("q1", "Question: 2 + 2?\nAnswer:", ["4", "5"], 1),
    question_item("q2", "Question: Is snow cold?\nAnswer:", ["yes", "no", "never at all"], 2),
]
ANSWERS = [answer_item("a0", "The sun is", " hot"), answer_item("a1", "Water is", " wet and clear")]
CONTRAST = ContrastSet(
    "c", "here", tuple(f"Please lie {n}" for n in range(9)), tuple(f"Kindly say {n} times" for n in range(8))
)


@pytest.fixture(scope="session")
def tiny_plan(tiny_tokenizer: Any) -> Callable[..., Plan]:
    """Makes the plan of a multiple-choice task, an answer task and a contrast set."""

    def make(batch_tokens: int = 256) -> Plan:
        choice = Task("mc", "multiple_choice", "here", "acc_norm", tuple(QUESTIONS))
        answer = Task("an", "answer", "here", "exact_match", tuple(ANSWERS), False)
        tasks = [tokenize_task(task, tiny_tokenizer, max_length=512) for task in (choice, answer)]
        prompts = tokenize_contrast(CONTRAST, tiny_tokenizer, max_length=512)
        return build_plan(tasks, prompts, batch_tokens=batch_tokens, layers=(0, 1))

    return make


@pytest.fixture
def tiny_model(tiny_base: Path) -> Iterator[LoadedModel]:
    """The tiny base in float32."""
    model = load_model(ModelSource("tiny", "dense", tiny_base), dtype="float32", device="cpu")
    yield model
    model.close()
