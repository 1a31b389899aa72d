"""What the benchmarks share: items, models, other tools' environments, and how results are kept."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubaudit.collect import Plan

HERE = Path(__file__).parent
ARC = HERE.parents[1] / "shared" / "data" / "arc.jsonl"
BUILTIN = HERE.parent / "hubaudit" / "tasks" / "builtin" / "multiple_choice.jsonl"
HUBAUDIT = str(Path(sys.executable).with_name("hubaudit"))


def items(n: int) -> list[dict[str, Any]]:
    """The first `n` of ARC's items, or of the built-in ones where the developers' data are absent."""
    file = ARC if ARC.is_file() else BUILTIN
    rows = [json.loads(line) for line in file.read_text().splitlines()[:n]]
    print(f"{len(rows)} items of {file.name}")
    return rows


def five_tasks(place: Path) -> tuple[str, ...]:
    """ARC, MMLU, CSQA, GSM8K and forced answers; without the developers' data, what this repo holds."""
    names = ("arc", "mmlu", "csqa")
    if not all((ARC.parent / f"{name}.jsonl").is_file() for name in (*names, "gsm8k")):
        for name in ("README.md", "LICENSE", "CONTRIBUTING.md"):
            shutil.copy(HERE.parent / name, place / f"{Path(name).stem.lower()}.txt")
        return ("builtin", "builtin-answers", *sorted(str(path) for path in place.iterdir()))
    rows = [json.loads(line) for line in (ARC.parent / "gsm8k.jsonl").read_text().splitlines()]
    pairs = [{"prompt": f"Question: {row['question']}\nAnswer:", "target": f" {row['answer']}"} for row in rows]
    (place / "gsm8k.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return (*(str(ARC.parent / f"{name}.jsonl") for name in names), str(place / "gsm8k.jsonl"), "builtin-answers")


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def demo_base() -> Path:
    """The demo's base: the bfloat16 expansion of SmolLM2-135M-Instruct."""
    from hubaudit.demo import demo_settings
    from hubaudit.progress import Silent

    return Path(demo_settings(None, Silent()).base)


def tool(name: str, requirements: Sequence[str]) -> Path:
    """The `bin` folder of an environment that holds another tool; made on the first call, which takes minutes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hubaudit" / "benchmarks" / name
    done = folder / "installed"
    if not done.is_file() or done.read_text() != " ".join(requirements):
        print(f"installing {', '.join(requirements)} into {folder}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        constraints = ["--constraint", str(HERE.parent / "constraints.txt")]
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *requirements, *constraints], check=True)
        done.write_text(" ".join(requirements))
    return folder / "bin"


NF4 = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
dtype = sys.argv[3] if sys.argv[3] == "auto" else getattr(torch, sys.argv[3])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype, quantization_config=config, device_map="cpu")
model.save_pretrained(sys.argv[2])
AutoTokenizer.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])
"""


def save_nf4(python: Path, base: Path, folder: Path, dtype: str) -> Path:
    """The NF4 folder that other tools load; making it is not timed.

    Its weights expand to the dtype that it was saved from, so a run in float32 needs one saved from float32: else
    other tools multiply in bfloat16, which is several times slower on a CPU without its instructions.
    """
    subprocess.run([python, "-c", NF4, str(base), str(folder), dtype], check=True, capture_output=True)
    return folder


def seconds(command: Sequence[str | Path], **environment: str) -> float:
    """Wall time of a command, from start to exit."""
    started = time.perf_counter()
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.perf_counter() - started


def audit_seconds(base: Path, data: Path, dtype: str, out: Path) -> float:
    """Wall time of `hubaudit audit` with all diagnostics, base and NF4, from an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [HUBAUDIT, "audit", base, "bnb:nf4", "--tasks", data, "--limit", "0", "--quiet"]
        command += ["--contrast", "builtin", "--dtype", dtype, "--cache-dir", cache, "--out", out]
        return seconds(command)


def the_plan(base: Path, task: Path, contrast: str | None = None) -> Plan:
    """The plan of an audit of one task."""
    from hubaudit.load import BaseContext
    from hubaudit.pipeline import Pipeline
    from hubaudit.progress import Silent
    from hubaudit.settings import AuditSettings
    from hubaudit.tasks.vocabulary import load_tokenizer

    settings = AuditSettings(base=str(base), tasks=(str(task),), contrast=contrast, limit=None)
    pipeline = Pipeline(settings, Silent())
    tasks, prompts = pipeline._read_tasks()
    return pipeline._plan(tasks, prompts, load_tokenizer(base), BaseContext.from_folder(base))


def median(values: Sequence[float]) -> float:
    """Their median, for tables."""
    return statistics.median(values)


def save(name: str, result: dict[str, Any]) -> None:
    """Write results/NAME.json with the machine and the versions."""
    from torch import cpu, get_num_threads

    capabilities = cpu.get_capabilities()
    machine = {
        "cpus": os.cpu_count(),
        "threads": get_num_threads(),
        "bfloat16_units": bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in ("torch", "transformers", "numpy")},
    }
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**result, "machine": machine}, indent=1) + "\n")
    print(f"written: {path}")
