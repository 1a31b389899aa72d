"""Make lm_eval_0.4.13.json: lm-eval's own log-likelihoods of built-in items in ARC's and in MMLU's format.

Run in an environment with lm-eval 0.4.13:  python tests/golden/make_lm_eval.py FOLDER_OF_THE_DEMO_BASE
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ITEMS = HERE.parents[1] / "hubaudit" / "tasks" / "builtin" / "multiple_choice.jsonl"
EVERY = 8


def rows() -> list[dict[str, object]]:
    """Every eighth built-in item in the columns that ARC and MMLU have."""
    found = []
    for line in ITEMS.read_text().splitlines()[::EVERY]:
        item = json.loads(line)
        labels = list(item["options"])
        found.append(
            {
                "id": item["id"],
                "question": item["question"],
                "texts": list(item["options"].values()),
                "gold": labels.index(item["answer"]),
                "subject": item["subject"],
            }
        )
    return found


def task(name: str, data: Path, **fields: object) -> dict[str, object]:
    """An lm-eval task over a JSONL file."""
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_target": "gold",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        **fields,
    }


def evaluate(items: list[dict[str, object]], folder: str) -> dict[str, list[dict[str, object]]]:
    """lm-eval's own log-likelihoods and answers, in float32, by task.

    Args:
        items: Rows with `id, question, texts, gold, subject`.
        folder: The model.
    """
    import lm_eval

    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "items.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in items))
        mmlu_text = (
            "The following are multiple choice questions (with answers) about {{subject|replace('_', ' ')}}.\n\n"
            "{{question.strip()}}\nA. {{texts[0]}}\nB. {{texts[1]}}\nC. {{texts[2]}}\nD. {{texts[3]}}\nAnswer:"
        )
        tasks = [
            task("arc", data, doc_to_text="Question: {{question}}\nAnswer:", doc_to_choice="{{texts}}"),
            task("mmlu", data, doc_to_text=mmlu_text, doc_to_choice=["A", "B", "C", "D"]),
        ]
        result = lm_eval.simple_evaluate(
            model="hf", model_args=f"pretrained={folder},dtype=float32", tasks=tasks, device="cpu", batch_size=4
        )
    return {
        name: [
            {
                "id": sample["doc"]["id"],
                "log_likelihoods": [round(float(response[0][0]), 5) for response in sample["resps"]],
                "acc": sample["acc"],
                "acc_norm": sample["acc_norm"],
            }
            for sample in sorted(samples, key=lambda one: one["doc_id"])
        ]
        for name, samples in result["samples"].items()
    }


def main() -> None:
    """Run lm-eval and write its samples."""
    import lm_eval

    golden = {"lm_eval": lm_eval.__version__, "dtype": "float32", "every": EVERY}
    golden["samples"] = evaluate(rows(), sys.argv[1])
    (HERE / "lm_eval_0.4.13.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
