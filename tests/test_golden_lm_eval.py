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


def tasks(rows: list[dict[str, Any]]) -> list[Task]:
    """Items with four options in ARC's and in MMLU's columns."""
    arc, mmlu = [], []
    for row in rows:
        choices = {"text": row["texts"], "label": list("ABCD")}
        arc.append(arc_item(row["id"], {**row, "choices": choices, "answerKey": "ABCD"[row["gold"]]}))
        mmlu.append(mmlu_item(row["id"], {**row, "choices": row["texts"], "answer": row["gold"]}))
    return [
        Task("arc", "multiple_choice", "golden", "acc_norm", tuple(arc)),
        Task("mmlu", "multiple_choice", "golden", "acc", tuple(mmlu)),
    ]


def score(rows: list[dict[str, Any]], folder: Path, store: Path) -> Any:
    """Evidence of a model in float32."""
    tokenizer = load_tokenizer(folder)
    tokenized = [tokenize_task(task, tokenizer, max_length=2048) for task in tasks(rows)]
    plan = build_plan(tokenized, [], batch_tokens=2048, layers=())
    evidence = EvidenceStore(store).open(plan, {})
    model = load_model(ModelSource("smollm2", "dense", folder), dtype="float32", device="cpu")
    collect(model, evidence, model_facts(model, "x"))
    model.close()
    return evidence


def compare(evidence: Any, samples: dict[str, list[dict[str, Any]]]) -> int:
    """Check every item against lm-eval's; returns how many there were."""
    likelihoods, answers = option_log_likelihoods(evidence), read_answers(evidence)
    n = 0
    for index, task in enumerate(evidence.plan.tasks):
        assert [item.item_id for item in task.items] == [sample["id"] for sample in samples[task.name]]
        for position, (item, sample) in enumerate(zip(task.items, samples[task.name], strict=True)):
            # float32 on both sides, other orders of addition
            assert likelihoods[index][position] == pytest.approx(sample["log_likelihoods"], abs=1e-3)
            for metric in ("acc", "acc_norm"):
                assert (answers[index].by_metric[metric][position] == item.gold) == bool(sample[metric])
            n += 1
    return n


def test_log_likelihoods_and_answers_equal_those_of_lm_eval(smollm2: Path, tmp_path: Path) -> None:
    lines = (BUILTIN_FOLDER / "multiple_choice.jsonl").read_text().splitlines()[:: GOLDEN["every"]]
    rows = []
    for item in map(json.loads, lines):
        texts = list(item["options"].values())
        gold = list(item["options"]).index(item["answer"])
        rows.append({**item, "texts": texts, "gold": gold})
    assert compare(score(rows, smollm2, tmp_path), GOLDEN["samples"]) == 2 * len(rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_real_arc_and_mmlu_items_equal_lm_eval_run_here(shared: Path, smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="needs lm-eval 0.4.13, which is not installed with the tests")
    from golden.make_lm_eval import evaluate

    rows = []
    for name in ("arc", "mmlu"):
        items = [json.loads(line) for line in (shared / "data" / f"{name}.jsonl").read_text().splitlines()]
        for item in [item for item in items if len(item["options"]) == 4][:20]:
            texts, labels = list(item["options"].values()), list(item["options"])
            gold = labels.index(item["answer"])
            row = {"id": item["id"], "question": item["question"], "texts": texts, "gold": gold, "subject": "things"}
            rows.append(row)
    assert compare(score(rows, smollm2, tmp_path), evaluate(rows, str(smollm2))) == 80
