"""The llama.cpp engine beside the dense one on the same files: time at equal threads, where it goes, and agreement.

    python benchmarks/llamacpp_engine.py [--items 64] [--repeats 2]

Needs `pip install 'hubaudit[llamacpp]'`. SmolLM2-135M as F32, F16, Q8_0 and Q4_K_M by llama.cpp's own quantizer. Both
engines run the same plan in turn in this process; loading is timed apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from common import demo_base, items, median, save, the_plan, write_rows
from quantize_gguf import quantize_gguf

from hubaudit.collect import Evidence, EvidenceStore, Plan, collect
from hubaudit.collect.llamacpp_context import Context
from hubaudit.collect.llamacpp_run import collect_llamacpp
from hubaudit.collect.run import model_facts
from hubaudit.compare import compare_features
from hubaudit.demo import packaged_gguf
from hubaudit.load import BaseContext, ModelSource, load_model
from hubaudit.load.llamacpp import load_llamacpp
from hubaudit.load.llamacpp_library import library, library_version
from hubaudit.load.placement import cpu_multiplies_bfloat16

TYPES = ("F32", "F16", "Q8_0", "Q4_K_M")
DTYPES = ("float32", "bfloat16")
CPU = torch.device("cpu")


class InDecode:
    """Seconds and tokens inside llama.cpp's own call."""

    def __init__(self) -> None:
        self.seconds, self.tokens = 0.0, 0
        call = Context._decode

        def timed(context: Context, ids: Any, *rest: Any, **more: Any) -> None:
            started = time.perf_counter()
            call(context, ids, *rest, **more)
            # Reading the outputs would wait for them anyway.
            context._llama.llama_synchronize(context._handle)
            self.seconds += time.perf_counter() - started
            self.tokens += len(ids)

        Context._decode = timed  # type: ignore[method-assign]


def dense(source: ModelSource, base: Path, dtype: str, entry: Evidence) -> dict[str, float]:
    started = time.perf_counter()
    model = load_model(source, base=BaseContext.from_folder(base), dtype=dtype, device="cpu")
    loaded = time.perf_counter()
    collect(model, entry, model_facts(model, source.spec))
    done = time.perf_counter()
    model.close()
    return {"load_seconds": loaded - started, "run_seconds": done - loaded}


def engine(source: ModelSource, expanded: Evidence, entry: Evidence, inside: InDecode) -> dict[str, float]:
    inside.seconds, inside.tokens = 0.0, 0
    head = expanded.head()
    started = time.perf_counter()
    model = load_llamacpp(source, head, device=CPU)
    loaded = time.perf_counter()
    collect_llamacpp(model, entry, expanded.facts, batch_tokens=1024)
    done = time.perf_counter()
    model.close()
    return {
        "load_seconds": loaded - started,
        "run_seconds": done - loaded,
        "decode_seconds": inside.seconds,
        "decode_tokens": inside.tokens,
    }


def agreement(one: Evidence, other: Evidence) -> dict[str, Any]:
    (drift,) = compare_features(one, other, weights="item").values()
    bound, block = drift.bound, drift.divergence
    return {
        "omega": bound.omega,
        "d_mean_square": bound.d_mean_square,
        "bound": bound.bound,
        "kl": block.kl,
        "kl_se": block.kl_se,
        "top1_agreement": block.top1_agreement,
        "risk_gap": bound.risk_gap,
        "n_tokens": bound.n_tokens,
    }


def measure(source: ModelSource, base: Path, plan: Plan, folder: Path, repeats: int, inside: InDecode) -> Any:
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    kept: dict[str, Evidence] = {}
    for repeat in range(repeats):
        store = EvidenceStore(folder / f"{source.path.stem}-{repeat}")
        for dtype in DTYPES:
            kept[dtype] = store.open(plan, {"dtype": dtype})
            runs[dtype].append(dense(source, base, dtype, kept[dtype]))
        kept["llamacpp"] = store.open(plan, {"engine": "llamacpp"})
        runs["llamacpp"].append(engine(source, kept["float32"], kept["llamacpp"], inside))
        print(source.path.stem, {name: round(of[-1]["run_seconds"], 2) for name, of in runs.items()}, flush=True)
    medians = {name: {key: median([run[key] for run in of]) for key in of[0]} for name, of in runs.items()}
    own = medians["llamacpp"]
    facts = kept["llamacpp"].facts
    return {
        "medians": medians,
        "dense_over_llamacpp": {dtype: medians[dtype]["run_seconds"] / own["run_seconds"] for dtype in DTYPES},
        "share_inside_llama_decode": own["decode_seconds"] / own["run_seconds"],
        "decode_tokens_a_second": own["decode_tokens"] / own["decode_seconds"],
        "agreement": {dtype: agreement(kept[dtype], kept["llamacpp"]) for dtype in DTYPES},
        "head_difference": facts.check_max_difference,
        "head_tolerance": facts.check_tolerance,
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    llama, inside, base = library(), InDecode(), demo_base()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = the_plan(base, write_rows(folder / "items.jsonl", items(options.items)))
        for kind in TYPES:
            path = quantize_gguf(packaged_gguf(), folder / f"{kind}.gguf", kind)
            source = ModelSource(path.name, "gguf", path)
            found[kind] = measure(source, base, plan, folder, options.repeats, inside)
            path.unlink()
    print(f"{'file':8}{'dense f32':>11}{'dense bf16':>11}{'llama.cpp':>11}  omega and KL of the engine (from float32)")
    for kind, one in found.items():
        times = [one["medians"][name]["run_seconds"] for name in (*DTYPES, "llamacpp")]
        same = one["agreement"]["float32"]
        print(f"{kind:8}" + "".join(f"{value:9.2f} s" for value in times) + f"  {same['omega']:.7f} {same['kl']:.2e}")
    result = {
        "items": options.items,
        "n_tokens": plan.n_tokens,
        "llama_cpp_python": library_version(),
        "llama_cpp_system": llama.llama_print_system_info().decode(),
        "torch_multiplies_bfloat16": cpu_multiplies_bfloat16(),
        "types": found,
    }
    save("llamacpp_engine", result)


if __name__ == "__main__":
    main()
