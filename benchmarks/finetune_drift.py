"""Fine-tuning drift on SmolLM2: no regularizer, replay and the shape regularizer, three seeds each.

    python benchmarks/finetune_drift.py [--out FOLDER] [--steps 100] [--seeds 3]

Rank-32 adapters on the attention's projections, frozen head, AdamW, steps of 512 tokens of the docstrings of Python's
own library, which are not like what the model was tuned for last. The reference set, 8 sequences of 64 tokens, is
sampled from the base itself, as is a held-out set. The weights are the paper's best, 1 for shape and 0.01 for replay.
A run that was cut goes on from its last checkpoint; a finished one is not repeated.

What was forgotten is measured by an audit of the final adapters on five tasks that were not trained on, and of the
checkpoints of one run as a series. Writes results/finetune_drift.json and .png. Needs `pip install 'hubaudit[train]'`.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import math
import random
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import HERE, demo_base, five_tasks, save
from scipy import stats

from hubaudit.files import write_file
from hubaudit.pipeline import Pipeline
from hubaudit.report.plots.style import figure, png, style, tidy
from hubaudit.report.schema import Report
from hubaudit.settings import AuditSettings, default_cache_dir
from hubaudit.terminal_progress import listener

LENGTH, N_REFERENCE, REFERENCE_LENGTH, HELD_OUT = 512, 8, 64, 32
ARMS = {
    "none": ("shape", 0.0),
    "replay 0.01": ("replay", 0.01),
    "shape 1": ("shape", 1.0),
}
LEARNING_RATE = 3e-4


def main() -> None:
    """Train, audit, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=default_cache_dir() / "benchmarks" / "finetune_drift")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, default=60)
    options = parser.parse_args()
    base = demo_base()
    runs = {}
    for seed in range(options.seeds):
        for arm in ARMS:
            runs[arm, seed] = train(base, options.out, arm, seed, options.steps)
    report = audit(base, options.out, list(runs), options.steps, options.items)
    write_file(options.out / "report.json", report.model_dump_json(indent=1).encode())
    result = summary(report, runs, options)
    save("finetune_drift", result)
    draw(report, result, HERE / "results" / "finetune_drift.png")


def folder_of(out: Path, arm: str, seed: int) -> Path:
    """Where a run's checkpoints lie."""
    return out / f"{arm.replace(' ', '-')}-seed{seed}"


def train(base: Path, out: Path, arm: str, seed: int, steps: int) -> dict[str, Any]:
    """One run, or what it left."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments, set_seed
    from transformers.trainer_utils import get_last_checkpoint

    from hubaudit.train import ReplayTrainer, ShapeTrainer

    folder = folder_of(out, arm, seed)
    if (done := folder / "run.json").is_file():
        found: dict[str, Any] = json.loads(done.read_text())
        return found
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    own = own_texts(model, tokenizer, out)
    texts = docstring_tokens(tokenizer, steps + HELD_OUT, LENGTH)
    held_out, texts = texts[:HELD_OUT], texts[HELD_OUT:]
    random.Random(seed).shuffle(texts)
    set_seed(seed)
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    model = get_peft_model(model, LoraConfig(r=32, lora_alpha=64, target_modules=names, task_type="CAUSAL_LM"))
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=LEARNING_RATE,
        warmup_steps=5,
        lr_scheduler_type="constant_with_warmup",
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        logging_steps=5,
        save_strategy="steps",
        save_steps=max(1, steps // 4),
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )
    kind, strength = ARMS[arm]
    options = {"shape_lambda": strength} if kind == "shape" else {"replay_lambda": strength}
    trainer = (ShapeTrainer if kind == "shape" else ReplayTrainer)(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": ids, "labels": ids, "attention_mask": [1] * len(ids)} for ids in texts],
        processing_class=tokenizer,
        reference=own[:N_REFERENCE],
        **options,
    )
    started = time.perf_counter()
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.is_dir() else None)
    seconds = time.perf_counter() - started
    signals = trainer.gating_signals(
        {"reference": own[:N_REFERENCE], "own text": own[N_REFERENCE:], "docstrings, held out": held_out}
    )
    print(f"{arm}, seed {seed}: {seconds:.0f} s\n{signals}", flush=True)
    found = {"seconds": round(seconds, 1), "signals": dataclasses.asdict(signals)}
    write_file(done, json.dumps(found).encode())
    return found


def own_texts(model: Any, tokenizer: Any, out: Path) -> list[list[int]]:
    """What the base writes on its own: the reference set, then as many times four held out."""
    path = out / "own_texts.json"
    if not path.is_file():
        torch.manual_seed(0)
        start = torch.full((5 * N_REFERENCE, 1), tokenizer.bos_token_id)
        made = model.generate(
            start,
            attention_mask=torch.ones_like(start),
            do_sample=True,
            top_k=0,
            min_new_tokens=REFERENCE_LENGTH - 1,
            max_new_tokens=REFERENCE_LENGTH - 1,
            pad_token_id=tokenizer.eos_token_id,
        )
        write_file(path, json.dumps(made.tolist()).encode())
    found: list[list[int]] = json.loads(path.read_text())
    return found


def docstring_tokens(tokenizer: Any, n: int, length: int) -> list[list[int]]:
    """Docstrings of Python's library, cut into sequences of one length, in the order of a fixed shuffle."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    files += sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*/[a-z]*.py"))
    found: list[int] = []
    random.Random(0).shuffle(files)
    for file in (file for file in files if "site-packages" not in file.parts and "test" not in str(file)):
        if len(found) >= n * length:
            break
        try:
            tree = ast.parse(file.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
        texts = [text for node in ast.walk(tree) if isinstance(node, nodes) and (text := ast.get_docstring(node))]
        for text in texts:
            found += [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    if len(found) < n * length:
        raise SystemExit(f"expected {n * length} tokens of docstrings, found {len(found)}; run with fewer --steps")
    return [found[start : start + length] for start in range(0, n * length, length)]


def audit(base: Path, out: Path, runs: list[tuple[str, int]], steps: int, items: int) -> Report:
    """The last checkpoint of every run, and all of the first unregularized one."""
    series = [str(path) for path in sorted(folder_of(out, "none", 0).glob("checkpoint-*"), key=step_of)]
    last = [str(folder_of(out, arm, seed) / f"checkpoint-{steps}") for arm, seed in runs]
    with tempfile.TemporaryDirectory() as place, listener(quiet=False) as progress:
        settings = AuditSettings(
            base=str(base),
            variants=tuple(dict.fromkeys([*series, *last])),
            tasks=five_tasks(Path(place)),
            contrast=None,
            limit=items,
            dtype="float32",
        )
        return Pipeline(settings, progress).run()


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.name.rpartition("-")[2])


def summary(report: Report, runs: dict[tuple[str, int], dict[str, Any]], options: Any) -> dict[str, Any]:
    """Means over seeds, with Student's intervals over seeds, and differences from no regularizer by seed."""
    by_spec = {variant.spec: variant for variant in report.variants}
    failed = [f"{variant.spec}: {variant.error.message}" for variant in report.variants if variant.error]
    if failed:
        raise SystemExit("\n".join(failed))
    tasks = [task.name for task in report.tasks]
    figures: dict[str, dict[str, list[float]]] = {}
    by_task: dict[str, dict[str, dict[str, float]]] = {}
    for arm in ARMS:
        rows = []
        for seed in range(options.seeds):
            blocks = by_spec[str(folder_of(options.out, arm, seed) / f"checkpoint-{options.steps}")].prism_bound
            sets = {entry["name"]: entry for entry in runs[arm, seed]["signals"]["sets"]}
            rows.append(
                {
                    "one_minus_omega": np.mean([1 - blocks[task].omega for task in tasks]),
                    "absolute_risk_gap": np.mean([abs(blocks[task].risk_gap) for task in tasks]),
                    "kl": np.mean([blocks[task].kl for task in tasks]),
                    "one_minus_omega_own_text": sets["own text"]["shape_drift"]["value"],
                    "forgetting_own_text": sets["own text"]["forgetting"]["value"],
                    "learned_docstrings": -sets["docstrings, held out"]["forgetting"]["value"],
                    "seconds": runs[arm, seed]["seconds"],
                }
            )
        figures[arm] = {name: [float(row[name]) for row in rows] for name in rows[0]}
        last = f"checkpoint-{options.steps}"
        blocks_by_seed = [
            by_spec[str(folder_of(options.out, arm, seed) / last)].prism_bound for seed in range(options.seeds)
        ]
        by_task[arm] = {
            task: {
                "one_minus_omega": float(np.mean([1 - blocks[task].omega for blocks in blocks_by_seed])),
                "risk_gap": float(np.mean([blocks[task].risk_gap for blocks in blocks_by_seed])),
            }
            for task in tasks
        }
    arms = {
        arm: {
            name: interval(values)
            | ({} if arm == "none" else {"minus_none": interval(list(np.subtract(values, figures["none"][name])))})
            for name, values in entries.items()
        }
        for arm, entries in figures.items()
    }
    for name in ("one_minus_omega", "absolute_risk_gap", "forgetting_own_text", "learned_docstrings", "seconds"):
        print(f"\n{name}")
        for arm, entry in arms.items():
            difference = entry[name].get("minus_none")
            text = f"   minus none {show(difference)}" if difference else ""
            print(f"  {arm:12} {show(entry[name])}{text}")
    return {
        "command": " ".join(["python", "benchmarks/finetune_drift.py", *(Path(arg).name for arg in sys.argv[1:])]),
        "base": "SmolLM2-135M-Instruct",
        "steps": options.steps,
        "tokens_a_step": LENGTH,
        "reference": f"{N_REFERENCE} x {REFERENCE_LENGTH} tokens sampled from the base",
        "learning_rate": LEARNING_RATE,
        "tasks": {task.name: {"n_items": task.n_items, "n_tokens": task.n_tokens} for task in report.tasks},
        "interval": f"Student's t over {options.seeds} seeds, 95 %",
        "arms": arms,
        "by_task": by_task,
        "gating_signals_of_none_seed_0": runs["none", 0]["signals"],
        "series": [{**block.model_dump(mode="json"), "name": Path(block.name).name} for block in report.series],
    }


def interval(values: list[float]) -> dict[str, Any]:
    """Mean and Student's interval over seeds."""
    mean, n = float(np.mean(values)), len(values)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    ends = {"ci_low": mean - half, "ci_high": mean + half} if n > 1 else {"ci_low": None, "ci_high": None}
    return {"mean": mean, **ends, "seeds": values}


def show(entry: dict[str, Any]) -> str:
    """Mean and interval."""
    if entry["ci_low"] is None:
        return f"{entry['mean']:.4g}"
    return f"{entry['mean']:.4g} ({entry['ci_low']:.4g} to {entry['ci_high']:.4g})"


def draw(report: Report, result: dict[str, Any], path: Path) -> None:
    """Shape drift and forgetting of each arm, and bound against forgetting by step."""
    colors = {"none": "0.35", "replay": "tab:orange", "shape": "tab:blue"}
    with style():
        made = figure(9.0, 3.4)
        left, middle, right = made.subplots(1, 3)
        for panel, name, title in (
            (left, "one_minus_omega", "1 - Omega, mean of tasks"),
            (middle, "absolute_risk_gap", "|risk gap|, mean of tasks, nats"),
        ):
            for place, (arm, entry) in enumerate(result["arms"].items()):
                values, color = entry[name]["seeds"], colors[arm.partition(" ")[0]]
                panel.plot(values, [place] * len(values), "o", color=color, alpha=0.6, markersize=4)
                panel.plot([entry[name]["mean"]], [place], "|", color=color, markersize=14, markeredgewidth=2)
            panel.set_yticks(range(len(ARMS)), list(ARMS))
            panel.invert_yaxis()
            panel.set_xlim(left=0)
            tidy(panel, title)
        for block in result["series"]:
            if block["task"] not in {task.name for task in report.tasks}:
                continue
            points = [point for point in block["points"] if point["bound"] and point["risk_gap"]]
            if len(points) > 1:
                xs, ys = [point["bound"] for point in points], [abs(point["risk_gap"]) for point in points]
                right.plot(xs, ys, "o-", markersize=3, linewidth=1, label=Path(block["task"]).stem)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("bound")
        right.set_ylabel("|risk gap|, nats")
        right.legend(fontsize=6)
        tidy(right, "checkpoints of 'none', seed 0")
    path.write_bytes(png(made))


if __name__ == "__main__":
    main()
