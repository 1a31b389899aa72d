"""What an audit adds to bare forward passes, and what sharing prefixes saves.

    python benchmarks/overhead.py [--items 200] [--repeats 3]

In one process, on SmolLM2 and its NF4 variant, loads excluded:

- `audit`: everything that an audit does after loading: check of shared prefixes, passes, scoring, evidence on disk,
  compute floor, K_feat, all diagnostics;
- `bare`: both models called on the same batches, their logits thrown away. `with logits` is the plain call, which
  multiplies every token by the head; `without` stops before the head, which an audit uses at scored tokens only.

Each with shared prefixes (packed tokens) and without (every text in full), with and without the compute floor, whose
sample of 8 items a task and 32 prompts costs the same for any number of items. Then options alone are scored with and
without shared prefixes: time, answers, log-likelihoods. Writes benchmarks/results/overhead.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from common import demo_base, items, median, save, the_plan, write_rows

import hubaudit.collect.run as collect_run
from hubaudit.collect import EvidenceStore, Plan, collect
from hubaudit.collect.pack import packed_inputs, plain_paths
from hubaudit.collect.plan import PlannedSequence, cut_batches
from hubaudit.collect.run import model_facts
from hubaudit.collect.shared_prefix import SharedPrefixCheck
from hubaudit.compare import Answers, option_log_likelihoods, read_answers
from hubaudit.load import BaseContext, LoadedModel, ModelSource, load_model
from hubaudit.pipeline import Pipeline
from hubaudit.progress import Silent
from hubaudit.settings import AuditSettings

PLAIN = SharedPrefixCheck(False, 0.0, "")


def batches(plan: Plan, *, shared: bool) -> list[list[PlannedSequence]]:
    """The plan's batches, or all of its texts in full in batches of the same budget."""
    if shared:
        return [list(batch) for shard in range(len(plan.shards)) for batch in plan.shard_batches(shard)]
    texts = [text for sequence in plan.sequences for text in plain_paths(sequence)[0]]
    texts.sort(key=lambda text: -len(text.input_ids))
    return [texts[start:stop] for start, stop in cut_batches([len(text.input_ids) for text in texts], 1024)]


@torch.inference_mode()
def bare(model: LoadedModel, work: list[list[PlannedSequence]], *, logits: bool) -> float:
    """Seconds of calling the model on every batch."""
    started = time.perf_counter()
    for batch in work:
        inputs = packed_inputs(batch, dtype=getattr(torch, model.dtype), device=model.device)
        kept: dict[str, Any] = {} if logits else {"logits_to_keep": 1}
        if inputs.position_ids is not None:
            kept |= {"position_ids": inputs.position_ids, "attention_mask": inputs.attention_mask}
        model.model(input_ids=inputs.input_ids, use_cache=False, **kept)
    return time.perf_counter() - started


@contextmanager
def sharing(shared: bool) -> Iterator[None]:
    """Audits inside share prefixes, or run every text in full as for a model that does not take the mask."""
    if shared:
        yield
    else:
        with mock.patch.object(collect_run, "check_shared_prefix", return_value=PLAIN):
            yield


def audit(base: Path, task: Path, *, shared: bool) -> tuple[float, float]:
    """Seconds of one audit without its loads, and of its compute floor."""
    with tempfile.TemporaryDirectory() as cache, sharing(shared):
        settings = AuditSettings(
            base=str(base),
            variants=("bnb:nf4",),
            tasks=(str(task),),
            contrast="builtin",
            limit=None,
            dtype="float32",
            cache_dir=Path(cache),
        )
        started = time.perf_counter()
        report = Pipeline(settings, Silent()).run()
        total = time.perf_counter() - started
    assert report.variants[0].status == "done", report.variants[0].error
    loads = sum(spent for name, spent in report.seconds.items() if name.startswith(("load", "tasks", "wait")))
    return total - loads, report.seconds["floor"]


def score(model: LoadedModel, plan: Plan, *, shared: bool) -> tuple[float, Answers, Any]:
    """Seconds of scoring a plan, the answers, and the log-likelihood of every option."""
    with tempfile.TemporaryDirectory() as folder, sharing(shared):
        evidence = EvidenceStore(Path(folder)).open(plan, {})
        started = time.perf_counter()
        collect(model, evidence, model_facts(model, "x"))
        spent = time.perf_counter() - started
        return spent, read_answers(evidence)[0], np.concatenate(option_log_likelihoods(evidence)[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    base = demo_base()
    with tempfile.TemporaryDirectory() as folder:
        task = write_rows(Path(folder) / "items.jsonl", items(options.items))
        plan, options_only = the_plan(base, task, "builtin"), the_plan(base, task, None)
        sources = (ModelSource(str(base), "dense", base), ModelSource("bnb:nf4", "bnb", base, option="nf4"))
        context = BaseContext.from_folder(base)
        runs: dict[str, list[float]] = {}

        def add(name: str, value: float) -> None:
            runs.setdefault(name, []).append(value)

        for repeat in range(options.repeats):
            for source in sources:
                model = load_model(source, base=context, dtype="float32", device="cpu")
                for shared, way in ((True, "packed"), (False, "in full")):
                    work = batches(plan, shared=shared)
                    for logits, what in ((True, "with logits"), (False, "without")):
                        add(f"bare, {way}, {what}, {source.spec[-7:]}", bare(model, work, logits=logits))
                if source is sources[0]:
                    packed = score(model, options_only, shared=True)
                    full = score(model, options_only, shared=False)
                    add("options, packed", packed[0])
                    add("options, in full", full[0])
                    same = packed[1] == full[1]
                    difference = float(np.abs(packed[2] - full[2]).max())
                model.close()
            for shared, way in ((True, "packed"), (False, "in full")):
                spent, floor = audit(base, task, shared=shared)
                add(f"audit, {way}", spent)
                add(f"floor, {way}", floor)
            print(f"repeat {repeat + 1} done", flush=True)
    medians = {name: median(values) for name, values in runs.items()}
    ratios: dict[str, float] = {}
    print(f"\n{'':8} {'audit, s':>9} {'floor':>6} {'bare with logits':>17} {'without':>8} {'ratio':>6} {'no floor':>9}")
    for way in ("packed", "in full"):
        total = {
            what: sum(value for name, value in medians.items() if name.startswith(f"bare, {way}, {what}"))
            for what in ("with logits", "without")
        }
        spent, floor = medians[f"audit, {way}"], medians[f"floor, {way}"]
        ratios[f"{way}, over with logits"] = spent / total["with logits"]
        ratios[f"{way}, over without"] = spent / total["without"]
        ratios[f"{way}, floor left out, over with logits"] = (spent - floor) / total["with logits"]
        ratios[f"{way}, floor left out, over without"] = (spent - floor) / total["without"]
        print(
            f"{way:8} {spent:9.1f} {floor:6.1f} {total['with logits']:17.1f} {total['without']:8.1f} "
            f"{spent / total['with logits']:6.2f} {(spent - floor) / total['with logits']:9.2f}"
        )
    ratios["options in full over packed"] = medians["options, in full"] / medians["options, packed"]
    print(f"options: {ratios['options in full over packed']:.2f} x faster with shared prefixes, same answers: {same}")
    save(
        "overhead",
        {
            "items": options.items,
            "tokens": {
                "packed": plan.n_tokens,
                "in full": sum(len(text.input_ids) for batch in batches(plan, shared=False) for text in batch),
            },
            "medians": medians,
            "ratios": ratios,
            "same_answers": same,
            "max_log_likelihood_difference": difference,
            "runs": runs,
        },
    )


if __name__ == "__main__":
    main()
