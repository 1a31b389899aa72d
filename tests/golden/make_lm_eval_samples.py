"""Write `lm_eval_samples/`: what lm-eval 0.4.13 itself logs of two made-up models.

    pip install lm-eval==0.4.13
    HF_DATASETS_OFFLINE=1 HF_HUB_OFFLINE=1 python tests/golden/make_lm_eval_samples.py

The tasks, the scoring, the hashes and the files are lm-eval's; only the log-likelihoods and texts are drawn.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import lm_eval
import yaml
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

TARGET = Path(__file__).parent / "lm_eval_samples"
# Question, options, right ones (only the first where one counts), subject, right number.
# U+2028 is a line end for Python's splitlines; umlauts make characters and bytes differ.
ITEMS = [
    ("Which gas do plants take in?", ["carbon dioxide", "neon", "helium", "argon from the air"], [0, 2], "biology", 12),
    ("Which planet is the largest?", ["Mars", "Jupiter", "the planet Venus", "Earth"], [1], "astronomy", 7),
    ("Was frißt\u2028eine Kuh?", ["Gras", "Käsebrötchen mit Öl", "Eisen", "Glas"], [0, 1], "biology", 31),
    ("Which metal is liquid?", ["iron", "gold", "mercury", "a copper coin"], [2], "chemistry", 80),
    ("How many moons has Mars?", ["none at all", "one", "two", "three"], [2, 3], "astronomy", 2),
    ("Which is an acid?", ["vinegar", "soap", "salt", "chalk powder"], [0], "chemistry", 5),
    ("What is ice?", ["frozen water", "sand", "a kind of glass", "air"], [0], "chemistry", 18),
    ("What do bees make?", ["milk", "honey", "bread and butter", "wine"], [1], "biology", 44),
]
GOLDS = {options[place] for _, options, places, _, _ in ITEMS for place in places}


def metrics(*names: str) -> list[dict[str, Any]]:
    return [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in names]


def regex(name: str, pattern: str, **options: Any) -> dict[str, Any]:
    steps = [{"function": "regex", "regex_pattern": pattern, **options}, {"function": "take_first"}]
    return {"name": name, "filter": steps}


CHOICES = {"output_type": "multiple_choice", "doc_to_choice": "choices"}
TASKS: dict[str, dict[str, Any]] = {
    "options": CHOICES | {"doc_to_target": "gold", "metric_list": metrics("acc", "acc_norm", "acc_bytes")},
    "several_targets": CHOICES | {"doc_to_target": "golds", "metric_list": metrics("acc")},
    "mutual": CHOICES | {"doc_to_target": "gold", "metric_list": metrics("acc", "acc_mutual_info")},
    "numbers": {
        "output_type": "generate_until",
        "doc_to_target": "{{number}}",
        "generation_kwargs": {"until": ["\n"]},
        "filter_list": [
            regex("strict-match", r"The answer is (\d+)"),
            regex("flexible-extract", r"(\d+)", group_select=-1),
        ],
        "metric_list": metrics("exact_match"),
    },
}


class MadeUp(LM):
    """Log-likelihoods that mostly agree between models of different names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def loglikelihood(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
        found = []
        for request in requests:
            length = len(request.args[1])
            shared, own = random.Random(repr(request.args)), random.Random(repr((self.name, *request.args)))
            ease = 0.7 if request.args[1].strip() in GOLDS else 1.0
            found.append((-ease * length * (0.3 + 0.6 * shared.random()) - 2 * own.random() * length**0.5, False))
        return found

    def loglikelihood_rolling(self, requests: Any, **_: Any) -> list[float]:
        return [-1.0 for _ in requests]

    def generate_until(self, requests: Any, **_: Any) -> list[str]:
        found = []
        for request in requests:
            own = random.Random(repr((self.name, request.args[0])))
            right = next(number for question, _, _, _, number in ITEMS if question in request.args[0])
            texts = [f"The answer is {right}", f"about {right}", "The answer is 3", "no idea"]
            found.append(own.choice([*texts, f"The answer is {own.randint(50, 60)}"]))
        return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"question": q, "choices": c, "gold": g[0], "golds": g, "subject": s, "number": n}
            for q, c, g, s, n in ITEMS
        ]
        data = Path(folder, "items.jsonl")
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, task in TASKS.items():
            source = {"dataset_path": "json", "dataset_kwargs": {"data_files": str(data)}, "test_split": "train"}
            common = {"task": name, "doc_to_text": "Question: {{question}}\nAnswer:"}
            Path(folder, f"{name}.yaml").write_text(yaml.safe_dump(common | source | task))
        for model in ("base", "variant"):
            made = lm_eval.simple_evaluate(
                model=MadeUp(model),
                tasks=list(TASKS),
                task_manager=TaskManager(include_path=folder),
                log_samples=True,
                bootstrap_iters=0,
            )
            tracker = EvaluationTracker(output_path=str(TARGET))
            tracker.general_config_tracker.model_name_sanitized = model
            tracker.date_id = "golden"
            for name, samples in made["samples"].items():
                Path(TARGET, model, f"samples_{name}_golden.jsonl").unlink(missing_ok=True)
                tracker.save_results_samples(name, samples)


if __name__ == "__main__":
    main()
