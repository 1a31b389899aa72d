"""The same answers as lm-eval 0.4.13, item by item, on real weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hubaudit.collect import EvidenceStore, build_plan, collect
from hubaudit.collect.run import model_facts
from hubaudit.compare import option_log_likelihoods, read_answers
from hubaudit.load import ModelSource, load_model
from hubaudit.tasks import Task, tokenize_task
from hubaudit.tasks.formats import arc_item, mmlu_item
from hubaudit.tasks.read import BUILTIN_FOLDER
from hubaudit.tasks.vocabulary import load_tokenizer

GOLDEN = json.loads((Path(__file__).parent / "golden" / "lm_eval_0.4.13.json").read_text())


def tasks() -> list[Task]:
    """The items of the golden file in ARC's and in MMLU's columns."""
    lines = (BUILTIN_FOLDER / "multiple_choice.jsonl").read_text().splitlines()[:: GOLDEN["every"]]
    rows = [json.loads(line) for line in lines]
    arc, mmlu = [], []
    for row in rows:
        texts, labels = list(row["options"].values()), list(row["options"])
        choices = {"text": texts, "label": labels}
        arc.append(arc_item(row["id"], {**row, "choices": choices, "answerKey": row["answer"]}))
        mmlu.append(mmlu_item(row["id"], {**row, "choices": texts, "answer": labels.index(row["answer"])}))
    return [
        Task("arc", "multiple_choice", "golden", "acc_norm", tuple(arc)),
        Task("mmlu", "multiple_choice", "golden", "acc", tuple(mmlu)),
    ]


@pytest.fixture(scope="module")
def scored(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Evidence of the base in float32."""
    tokenizer = load_tokenizer(smollm2)
    tokenized = [tokenize_task(task, tokenizer, max_length=2048) for task in tasks()]
    plan = build_plan(tokenized, [], batch_tokens=2048, layers=())
    evidence = EvidenceStore(tmp_path_factory.mktemp("evidence")).open(plan, {})
    model = load_model(ModelSource("smollm2", "dense", smollm2), dtype="float32", device="cpu")
    collect(model, evidence, model_facts(model, "x"))
    model.close()
    return evidence


def test_log_likelihoods_and_answers_equal_those_of_lm_eval(scored: Any) -> None:
    likelihoods, answers = option_log_likelihoods(scored), read_answers(scored)
    for index, task in enumerate(scored.plan.tasks):
        golden = GOLDEN["samples"][task.name]
        assert [item.item_id for item in task.items] == [sample["id"] for sample in golden]
        for position, (item, sample) in enumerate(zip(task.items, golden, strict=True)):
            # float32 on both sides, other orders of addition
            assert likelihoods[index][position] == pytest.approx(sample["log_likelihoods"], abs=1e-3)
            for metric in ("acc", "acc_norm"):
                assert (answers[index].by_metric[metric][position] == item.gold) == bool(sample[metric])
