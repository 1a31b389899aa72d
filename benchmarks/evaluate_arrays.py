"""Time that 2 x 20,000 x 576 float32 numbers take on their way through a metric: here, in plain numpy, in evaluate.

    OMP_NUM_THREADS=1 python benchmarks/evaluate_arrays.py [--arrow]

What is timed of the metric is what it adds to its estimator and the estimator's accumulation: storing the batches,
joining them, checking every number, and the moments of both models in float64. Plain numpy does the same products
(Z_T'Z_T, Z_P'Z_P, Z_P'Z_T, the drift) on float64 copies, at once, without a check. `--arrow` adds evaluate's own path
of storing and reading the same arrays. Times are processor times; the smallest of `--repeats`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import datasets
import evaluate
import numpy as np

from hubaudit.modules.columns import StoredRows
from hubaudit.modules.prism_bound import COLUMNS
from hubaudit.stats.moments import PrismMoments

N, D, BATCH = 20_000, 576, 512


class Stock(evaluate.Metric):
    """evaluate's own path, to an empty computation."""

    def _info(self) -> evaluate.MetricInfo:
        row = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description="", citation="", features=datasets.Features({"predictions": row, "references": row})
        )

    def _compute(self, predictions: list[list[float]], references: list[list[float]]) -> dict[str, int]:
        return {"n": len(np.asarray(predictions)) + len(np.asarray(references))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrow", action="store_true", help="also time evaluate's own path")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    base = rng.standard_normal((N, D), dtype=np.float32)
    variant = base + np.float32(0.05) * rng.standard_normal((N, D), dtype=np.float32)

    def plain() -> float:
        t, p = base.astype(np.float64), variant.astype(np.float64)
        grams = t.T @ t / N, p.T @ p / N, p.T @ t / N
        drift = t - p
        return float(np.vdot(drift, drift) / N + sum(gram[0, 0] for gram in grams))

    def moments(stored: StoredRows) -> float:
        rows = stored.joined()
        accumulated = PrismMoments(D)
        accumulated.update(rows["references"], rows["predictions"])
        return accumulated.d_mean_square

    def one_call() -> float:
        stored = StoredRows(COLUMNS)
        stored.add({"predictions": variant, "references": base}, copy=False)
        return moments(stored)

    def in_batches() -> float:
        stored = StoredRows(COLUMNS)
        for start in range(0, N, BATCH):
            rows = slice(start, start + BATCH)
            stored.add({"predictions": variant[rows], "references": base[rows]}, copy=True)
        return moments(stored)

    seconds = {
        function.__name__: min(_seconds(function) for _ in range(arguments.repeats))
        for function in (plain, one_call, in_batches)
    }
    if arguments.arrow:
        with tempfile.TemporaryDirectory() as cache:
            metric = Stock(cache_dir=str(Path(cache)))
            seconds["arrow"] = _seconds(lambda: metric.compute(predictions=variant, references=base))
    ratios = {name: round(value / seconds["plain"], 2) for name, value in seconds.items() if name != "plain"}
    print(json.dumps({"n": N, "d": D, "seconds": {k: round(v, 3) for k, v in seconds.items()}, "ratio": ratios}))


def _seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


if __name__ == "__main__":
    main()
