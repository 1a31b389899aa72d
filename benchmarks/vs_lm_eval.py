"""An audit of a base and its NF4 variant beside lm-eval run twice, on the same items.

    python benchmarks/vs_lm_eval.py [--items 200] [--repeats 3] [--slow-repeats 1]

lm-eval is installed into an environment of its own. Both tools start from nothing in each repeat and are timed from
start to exit, loading included; hubaudit computes all four diagnostics and KL, lm-eval accuracies. Rows:

- lm-eval in float32 with batches of 16 (its fastest on a CPU without bfloat16 units) and of 1, hubaudit in float32;
- both as they come, without options: lm-eval takes batches of 1 in the checkpoint's bfloat16.

Prints a table and writes benchmarks/results/vs_lm_eval.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from common import audit_seconds, demo_base, items, median, save, save_nf4, seconds, tool, write_rows

TASK = """task: arc_items
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{texts}}}}"
doc_to_target: gold
metric_list:
  - metric: acc
  - metric: acc_norm
"""
WAYS = {
    "float32, batches of 16": (",dtype=float32", "16", "float32"),
    "float32, batches of 1": (",dtype=float32", "1", "float32"),
    "as they come": ("", None, "auto"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow-repeats", type=int, default=1, help="of the rows with batches of 1")
    options = parser.parse_args()
    bin_ = tool("lm_eval", ("torch==2.13.0", "lm-eval[hf]==0.4.13", "bitsandbytes", "accelerate"))
    base = demo_base()
    result: dict[str, Any] = {"items": options.items, "rows": {}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = items(options.items)
        data = write_rows(folder / "items.jsonl", rows)
        theirs = [
            {"id": n, "question": row["question"], "texts": list(row["options"].values()), "gold": _gold(row)}
            for n, row in enumerate(rows)
        ]
        (folder / "tasks").mkdir()
        text = TASK.format(data=write_rows(folder / "lm_eval.jsonl", theirs))
        (folder / "tasks" / "arc_items.yaml").write_text(text)
        saved = {dtype: save_nf4(bin_ / "python", base, folder / dtype, dtype) for dtype in ("float32", "auto")}
        print(f"{'':26} {'lm-eval, s':>22} {'hubaudit, s':>12} {'ratio':>6}")
        for name, (model_options, batch, dtype) in WAYS.items():
            repeats = options.repeats if batch == "16" else options.slow_repeats
            runs: dict[str, list[float]] = {"base": [], "nf4": [], "hubaudit": []}
            for _ in range(repeats):
                for which, model in (("base", base), ("nf4", saved[dtype])):
                    command = [bin_ / "lm_eval", "run", "--model", "hf", "--tasks", "arc_items", "--device", "cpu"]
                    command += ["--model_args", f"pretrained={model}{model_options}"]
                    command += ["--include_path", folder / "tasks", "--output_path", folder / "lm" / which]
                    command += ["--batch_size", batch] if batch else []
                    runs[which].append(seconds(command, HF_HUB_OFFLINE="1"))
                runs["hubaudit"].append(audit_seconds(base, data, dtype, folder / "report"))
            medians = {key: median(values) for key, values in runs.items()}
            ratio = (medians["base"] + medians["nf4"]) / medians["hubaudit"]
            accuracies = _accuracies(folder)
            result["rows"][name] = {"runs": runs, "medians": medians, "ratio": ratio, "accuracies": accuracies}
            both = f"{medians['base']:.1f} + {medians['nf4']:.1f}"
            print(f"{name:26} {both:>22} {medians['hubaudit']:12.1f} {ratio:5.1f}x", flush=True)
    for which, (ours, lm_eval) in result["rows"]["float32, batches of 16"]["accuracies"].items():
        print(f"acc_norm of the {which}: hubaudit {ours:.4f}, lm-eval {lm_eval:.4f}")
    save("vs_lm_eval", result)


def _gold(row: dict[str, Any]) -> int:
    labels = list(row["options"])
    return labels.index(row["answer"])


def _accuracies(folder: Path) -> dict[str, tuple[float, float]]:
    """acc_norm by hubaudit and by lm-eval: that both scored the same items in the same way."""
    report = json.loads((folder / "report" / "report.json").read_text())
    cell = report["variants"][0]["agreement_by_metric"]["items"]["acc_norm"]
    ours = {"base": cell["base_accuracy"], "nf4": cell["variant_accuracy"]}
    found = {}
    for which, value in ours.items():
        newest = max((folder / "lm" / which).rglob("results_*.json"), key=lambda file: file.stat().st_mtime)
        found[which] = (value, json.loads(newest.read_text())["results"]["arc_items"]["acc_norm,none"])
    return found


if __name__ == "__main__":
    main()
