"""An audit of a base and its NF4 variant beside modeldiffr's, on the same items.

    python benchmarks/vs_modeldiffr.py [--items 200] [--repeats 3] [--slow-repeats 1]

modeldiffr is installed into an environment of its own and runs its ARC task on the same rows. Both tools start from
nothing in each repeat and are timed from start to exit; hubaudit computes all four diagnostics and KL, modeldiffr
accuracy and calibration. Rows: both in float32, and both as they come (modeldiffr in the checkpoint's bfloat16).

Prints a table and writes benchmarks/results/vs_modeldiffr.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from common import audit_seconds, demo_base, items, median, save, save_nf4, seconds, tool, write_rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow-repeats", type=int, default=1, help="of the row without options")
    options = parser.parse_args()
    bin_ = tool("modeldiffr", ("torch==2.13.0", "modeldiffr[hf]==0.9.3", "bitsandbytes", "accelerate"))
    base = demo_base()
    result: dict[str, Any] = {"items": options.items, "rows": {}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = items(options.items)
        data = write_rows(folder / "items.jsonl", rows)
        (folder / "theirs").mkdir()
        write_rows(folder / "theirs" / "arc_challenge.jsonl", [_arc(n, row) for n, row in enumerate(rows)])
        saved = {dtype: save_nf4(bin_ / "python", base, folder / dtype, dtype) for dtype in ("float32", "auto")}
        print(f"{'':16} {'modeldiffr, s':>14} {'hubaudit, s':>12} {'ratio':>6}")
        for name, dtype in {"float32": "float32", "as they come": "auto"}.items():
            runs: dict[str, list[float]] = {"modeldiffr": [], "hubaudit": []}
            for _ in range(options.slow_repeats if dtype == "auto" else options.repeats):
                command = [bin_ / "modeldiffr", "audit", base, saved[dtype]]
                command += ["--suite", "full", "--tasks", "arc_challenge"]
                command += ["--limit", str(options.items), "--data-dir", folder / "theirs", "--dtype", dtype]
                command += ["--device", "cpu", "--out", folder / "modeldiffr"]
                runs["modeldiffr"].append(seconds(command, HF_HUB_OFFLINE="1"))
                runs["hubaudit"].append(audit_seconds(base, data, dtype, folder / "report"))
            medians = {key: median(values) for key, values in runs.items()}
            ratio = medians["modeldiffr"] / medians["hubaudit"]
            result["rows"][name] = {"runs": runs, "medians": medians, "ratio": ratio, "accuracies": _accuracies(folder)}
            print(f"{name:16} {medians['modeldiffr']:14.1f} {medians['hubaudit']:12.1f} {ratio:5.1f}x", flush=True)
    for which, (ours, theirs) in result["rows"]["float32"]["accuracies"].items():
        print(f"accuracy of the {which}: hubaudit {ours:.4f}, modeldiffr {theirs:.4f}")
    save("vs_modeldiffr", result)


def _arc(number: int, row: dict[str, Any]) -> dict[str, Any]:
    """A row as `allenai/ai2_arc` has it."""
    choices = {"text": list(row["options"].values()), "label": list(row["options"])}
    return {"id": str(number), "question": row["question"], "choices": choices, "answerKey": row["answer"]}


def _accuracies(folder: Path) -> dict[str, tuple[float, float]]:
    """Accuracy by both: that they scored the same items in the same way."""
    cell = json.loads((folder / "report" / "report.json").read_text())["variants"][0]["agreement_by_metric"]["items"]
    metrics = json.loads((folder / "modeldiffr" / "report.json").read_text())["metrics"]
    theirs = next(metric for metric in metrics if metric["name"] == "arc_challenge_accuracy")
    return {
        "base": (cell["acc"]["base_accuracy"], theirs["base_mean"]),
        "nf4": (cell["acc"]["variant_accuracy"], theirs["derivative_mean"]),
    }


if __name__ == "__main__":
    main()
