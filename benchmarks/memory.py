"""Peak memory of one audit above the imports, for 100 and for 1000 items: it must not grow with the items.

    python benchmarks/memory.py FOLDER_OF_A_BASE [--variant rtn:4] [--items 100 1000]

Prints a table and writes benchmarks/results/memory.json. The limit is 1.3 models in the dtype that they run in plus
500 MB; file pages that a loader maps count as resident. Each audit runs in a process of its own; its peak is the
kernel's own count (VmHWM), reset after the imports. Without a folder, the demo's base is used.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results"

CHILD = """
import json, sys
from pathlib import Path
import torch, transformers, hubaudit.pipeline
from hubaudit.progress import Silent
from hubaudit.settings import AuditSettings

def status(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return int(line.split()[1]) * 1024

base, variant, task, cache, dtype = sys.argv[1:]
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
options = {"contrast": None, "limit": None, "cache_dir": Path(cache), "dtype": dtype}
settings = AuditSettings(base=base, variants=(variant,), tasks=(task,), **options)
report = hubaudit.pipeline.Pipeline(settings, Silent()).run()
assert report.variants[0].status == "done", report.variants[0].error
print(json.dumps({"before": before, "peak": status("VmHWM"), "parameters": report.base.n_parameters,
                  "dtype": report.base.dtype}))
"""


def measure(base: Path, variant: str, n_items: int, dtype: str) -> dict[str, float]:
    """One audit of `n_items` short items in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "items.jsonl"
        rows = (
            {"question": f"What is {n} plus {n + 3}?", "options": [str(2 * n + k) for k in range(4)], "answer": 3}
            for n in range(n_items)
        )
        task.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [sys.executable, "-c", CHILD, str(base), variant, str(task), folder, dtype]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(output.splitlines()[-1])
    model = {"float32": 4, "bfloat16": 2, "float16": 2}[found["dtype"]] * found["parameters"]
    extra = found["peak"] - found["before"]
    return {
        "items": n_items,
        "peak_mb": extra / 1e6,
        "model_mb": model / 1e6,
        "limit_mb": (1.3 * model + 500e6) / 1e6,
        "dtype": found["dtype"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", type=Path)
    parser.add_argument("--variant", nargs="+", default=["rtn:4", "bnb:nf4"])
    parser.add_argument("--items", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--dtype", nargs="+", default=["auto"])
    arguments = parser.parse_args()
    base = arguments.base
    if base is None:
        from hubaudit.demo import demo_settings
        from hubaudit.progress import Silent

        base = Path(demo_settings(None, Silent()).base)
    rows = []
    print(f"{'variant':10} {'items':>6} {'peak MB':>9} {'limit MB':>9}  dtype")
    for dtype, variant in itertools.product(arguments.dtype, arguments.variant):
        for n_items in arguments.items:
            row = {"variant": variant, **measure(base, variant, n_items, dtype)}
            rows.append(row)
            print(f"{variant:10} {n_items:6} {row['peak_mb']:9.0f} {row['limit_mb']:9.0f}  {row['dtype']}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
