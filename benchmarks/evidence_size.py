"""What an audit keeps on disk for exact KL, beside llama.cpp's file of logits.

    python benchmarks/evidence_size.py [--items 200]

For every gold token hubaudit keeps the features at the head's input, in the model's dtype, and the predicted token;
for every option its log-likelihood. The head is kept once a model, and once for all models that share it. llama.cpp's
`--kl-divergence-base` keeps 16 bits for each entry of the vocabulary and 8 bytes of scales (its file format, from its
source). Also shown: the largest difference of the KL from stored features to the KL from the models' own logits.

Prints a table and writes benchmarks/results/evidence_size.json.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import demo_base, items, save, the_plan, write_rows

from hubaudit.collect import EvidenceStore, Plan, collect
from hubaudit.collect.run import model_facts
from hubaudit.load import BaseContext, LoadedModel, ModelSource, load_model
from hubaudit.stats.logits import row_statistics


@torch.inference_mode()
def gold_log_probabilities(model: LoadedModel, plan: Plan) -> torch.Tensor:
    """(rows, vocabulary) from the model's own logits at the gold tokens of the first items, in float64."""
    rows = []
    for item in plan.tasks[0].items[:8]:
        option = item.options[item.gold]
        logits = model.model(input_ids=torch.tensor([option.input_ids])).logits[0, -len(option.target_ids) :]
        rows.append(torch.log_softmax(logits.double(), dim=-1))
    return torch.cat(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    options = parser.parse_args()
    base = demo_base()
    context = BaseContext.from_folder(base)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plan = the_plan(base, write_rows(folder / "items.jsonl", items(options.items)))
        tokens = sum(len(plan.shard_rows(shard).label) for shard in range(len(plan.shards)))
        for dtype in ("bfloat16", "float32"):
            kept = {}
            for spec, source in {
                "base": ModelSource(str(base), "dense", base),
                "nf4": ModelSource("bnb:nf4", "bnb", base, option="nf4"),
            }.items():
                model = load_model(source, base=context, dtype=dtype, device="cpu")
                evidence = EvidenceStore(folder / dtype).open(plan, {"model": spec})
                collect(model, evidence, model_facts(model, spec))
                kept[spec] = (evidence, gold_log_probabilities(model, plan), model.head)
                model.close()
            size = sum(path.stat().st_size for path in kept["base"][0].folder.glob("*.safetensors"))
            itemsize = torch.finfo(getattr(torch, dtype)).bits // 8
            head = kept["base"][2]
            results.append(
                {
                    "dtype": dtype,
                    "gold_tokens": tokens,
                    "bytes_a_token": size / tokens,
                    "limit": itemsize * head.width + 16,
                    "llama_cpp_bytes_a_token": 2 * head.n_rows + 8,
                    "head_bytes": sum(path.stat().st_size for path in (folder / dtype / "heads").iterdir()),
                    "max_kl_difference": kl_difference(plan, kept) if dtype == "float32" else None,
                }
            )
    print(f"{'dtype':10} {'tokens':>7} {'bytes a token':>14} {'limit':>6} {'llama.cpp':>10} {'KL differs by':>14}")
    for row in results:
        differs = "" if row["max_kl_difference"] is None else f"{row['max_kl_difference']:.1e}"
        print(
            f"{row['dtype']:10} {row['gold_tokens']:7} {row['bytes_a_token']:14.1f} {row['limit']:6} "
            f"{row['llama_cpp_bytes_a_token']:10} {differs:>14}"
        )
    save("evidence_size", {"items": options.items, "rows": results})


def kl_difference(plan: Plan, kept: dict[str, Any]) -> float:
    """Largest difference, nats, over the gold tokens of the first items."""
    (base, base_logp, base_head), (variant, variant_logp, variant_head) = kept["base"], kept["nf4"]
    direct = (base_logp.exp() * (base_logp - variant_logp)).sum(dim=-1)
    found = torch.zeros_like(direct)
    first = [0]
    for item in plan.tasks[0].items[:8]:
        first.append(first[-1] + len(item.options[item.gold].target_ids))
    for shard in range(len(plan.shards)):
        rows = plan.shard_rows(shard)
        table = row_statistics(
            base.features(shard), variant.features(shard), base_head, variant_head=variant_head, labels=rows.label
        )
        seen: dict[int, int] = {}
        for row, item in enumerate(rows.item.tolist()):
            if item < 8:
                found[first[item] + seen.get(item, 0)] = float(table.kl[row])
                seen[item] = seen.get(item, 0) + 1
    return float((direct - found).abs().max())


if __name__ == "__main__":
    main()
