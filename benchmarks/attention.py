"""Which attention projections of SmolLM2's variants matter: each swapped alone into the base, and the time of it.

    python benchmarks/attention.py [--limit 8]

Writes results/attention.json and results/attention.png. Blocks before the swapped one are not run again; the speedup of
that is measured beside.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from common import HERE, demo_base, save

from hubaudit.attention import compare_attention, gold_plan
from hubaudit.collect.attention import collect_swaps
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.load import load_model
from hubaudit.load.swap import projection_shapes
from hubaudit.report.plots.attention import attention_heatmaps
from hubaudit.report.plots.style import png
from hubaudit.stats.sensitivity import FIGURES
from hubaudit.tasks import load_task, tokenize_task
from hubaudit.tasks.vocabulary import load_tokenizer


def main() -> None:
    """Swap, time, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=8)
    options = parser.parse_args()
    base = resolve_base(str(demo_base()))
    tokenizer = load_tokenizer(base.path)
    task = load_task("builtin", limit=options.limit, seed=0)
    plan = gold_plan([tokenize_task(task, tokenizer, max_length=2048)], batch_tokens=1024)
    model = load_model(base)
    blocks, rows = [], {}
    for spec in ("rtn:4", "bnb:nf4"):
        started = time.perf_counter()
        block = compare_attention(model, resolve_variant(spec, base), plan)
        seconds = time.perf_counter() - started
        name = Path(spec).name
        blocks.append((name, block))
        rows[name] = {"seconds": round(seconds, 1), **_figures(block)}
        print(name, {key: round(value["value"], 3) for key, value in rows[name]["ratio"].items()}, f"{seconds:.0f} s")
    result = {
        "command": " ".join(["python", "benchmarks/attention.py", *sys.argv[1:]]),
        "base": "SmolLM2-135M-Instruct",
        "dtype": model.dtype,
        "n_items": blocks[0][1].n_items,
        "n_positions": blocks[0][1].n_positions,
        "n_tokens": blocks[0][1].n_tokens,
        "swaps": 2 + len(blocks[0][1].overall) + len(blocks[0][1].rows),
        "speedup_of_not_running_earlier_blocks": round(speedup(model, plan), 2),
        "variants": rows,
    }
    save("attention", result)
    (HERE / "results" / "attention.png").write_bytes(png(attention_heatmaps(blocks)))


def _figures(block: Any) -> dict[str, Any]:
    found = block.model_dump(mode="json")
    per_block = [
        {"layer": row["layer"], "projection": row["projection"]} | {name: row[name]["value"] for name in FIGURES}
        for row in found["rows"]
    ]
    return {"overall": found["overall"], "ratio": found["ratio"], "blocks": per_block}


def speedup(model: Any, plan: Any) -> float:
    """Time of swaps in the first block, which run everything, over that of swaps spread over all blocks."""
    shapes = projection_shapes(model.model, ("v",))
    own = {layer: {(layer, "v"): model.layers[layer].self_attn.v_proj.weight.detach().clone()} for layer, _ in shapes}
    times = []
    for layers in ([0] * len(own), sorted(own)):
        started = time.perf_counter()
        collect_swaps(model, plan, [own[layer] for layer in layers])
        times.append(time.perf_counter() - started)
    return times[0] / times[1]


if __name__ == "__main__":
    main()
