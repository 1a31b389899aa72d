"""Whether more bits for the projections that the swaps point at pay at equal size: SmolLM2, five tasks.

    python benchmarks/mixed_bits.py [--limit 60]

`results/attention.json` says which attention projection matters most. Here one projection gets more bits in a 4-bit
rounding, and is compared with 4 bits everywhere in groups small enough to be as large: the bits went elsewhere. Writes
results/mixed_bits.json.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import demo_base, five_tasks, save
from scipy import stats

from hubaudit.pipeline import Pipeline
from hubaudit.settings import AuditSettings
from hubaudit.terminal_progress import listener

# q and o have 9 heads of 64, k and v 3: k and v get 8 bits, q and o 5, whose cost is about the same.
SPECS = ("rtn:4@g128", "rtn:4@g128,v=8", "rtn:4@g128,k=8", "rtn:4@g128,q=5", "rtn:4@g128,o=5", "rtn:4@g85")


def main() -> None:
    """Audit, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, listener(quiet=False) as progress:
        settings = AuditSettings(
            base=str(demo_base()),
            variants=SPECS,
            tasks=five_tasks(Path(place)),
            contrast=None,
            limit=options.limit,
        )
        report = Pipeline(settings, progress).run()
    found = {}
    for variant in report.variants:
        if variant.error or variant.model is None:
            raise SystemExit(f"{variant.spec}: {variant.error}")
        found[variant.spec] = {
            "bits_per_weight": round(variant.model.bits_per_weight, 4),
            "kl": {task: _figure(block.kl, block.kl_se) for task, block in variant.divergence.items()},
            "one_minus_omega": {task: 1 - (block.omega or 0.0) for task, block in variant.prism_bound.items()},
            "absolute_risk_gap": {task: abs(block.risk_gap or 0.0) for task, block in variant.prism_bound.items()},
        }
    tasks = [task.name for task in report.tasks]
    print(f"{'variant':20} {'bits':>7} {'KL, mean of tasks':>18}")
    for entry in found.values():
        values = [entry["kl"][task] for task in tasks]
        mean, error = (
            np.mean([v["value"] for v in values]),
            np.sqrt(np.sum([v["se"] ** 2 for v in values])) / len(tasks),
        )
        entry["kl_mean_of_tasks"] = {"value": float(mean), "se": float(error)}
    for spec, entry in found.items():
        mean = entry["kl_mean_of_tasks"]
        half = stats.norm.ppf(0.975) * mean["se"]
        print(f"{spec:20} {entry['bits_per_weight']:7.3f} {mean['value']:9.4f} +- {half:.4f}")
    save(
        "mixed_bits",
        {
            "command": " ".join(["python", "benchmarks/mixed_bits.py", *sys.argv[1:]]),
            "base": "SmolLM2-135M-Instruct",
            "tasks": {task.name: {"n_items": task.n_items, "n_tokens": task.n_tokens} for task in report.tasks},
            "dtype": report.base.dtype,
            "variants": found,
        },
    )


def _figure(value: float | None, error: float | None) -> dict[str, Any]:
    if value is None or error is None:
        raise SystemExit("a KL is undefined; run with more items")
    return {"value": value, "se": error}


if __name__ == "__main__":
    main()
