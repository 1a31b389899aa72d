"""Coverage, false alarms and power of the calibrated direction test, by simulation.

    python benchmarks/coverage_direction.py [--audits 4000] [--power-audits 500] [--workers 1] [--partial FILE]
                                            [--out FILE]

Each audit draws prompts of two classes, their base activations (isotropic, or with variances 1/k), and variant
activations: the class means turned by a known angle, private noise of a fifth of the within-class SD (isotropic,
or with variances 1/k in the same axes), and a factor 1.1. The turn goes in a random plane, or towards the noise's
own large axes, the worst case. An interval covers the true cosine exactly where neither tail of the statistic at
that cosine is below .025, which is what is counted. Prints, and writes as JSON, the coverage with its two sides,
false alarms, how often there is no separation left to measure, and how often a rotation is detected beside the
paper's rule. With 128 prompts per class there are fewer rotations, and with 512, where an audit takes a third of a
second, two cells. About two hours on one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from hubaudit.stats.corrected_cosine import corrected_cosine
from hubaudit.stats.cosine_sampling import CosineSampling
from hubaudit.stats.direction_null import paper_verdict, split_null
from hubaudit.stats.paired_contrast import PairedContrast

OUT = Path(__file__).parent / "results" / "coverage_direction.json"

# (prompts of class A, of class B, width)
SAMPLES = [(32, 32, 576), (32, 96, 256), (64, 64, 256), (128, 128, 256), (512, 512, 256)]
# (covariance within the classes, kappa)
GEOMETRIES = [("isotropic", 0.8), ("isotropic", 60.0), ("power law", 8.0), ("power law", 600.0)]
ROTATIONS_DEGREES = (0.0, 2.0, 5.0, 10.0)
# (covariance of the private noise, where the rotation goes)
NOISES = [("isotropic", "random plane"), ("power law", "random plane"), ("power law", "noise axes")]
NOISE_SD = 0.2
# The largest samples take seconds to minutes a hundred audits, so they have fewer cells.
ROTATIONS_AT_128 = (0.0, 5.0)
CELLS_AT_512 = [(2, 1, 0.0), (2, 1, 5.0)]
"""(geometry, noise, rotation)"""


def axis_sds(kind: str, d: int) -> np.ndarray:
    """SD along each axis, mean variance 1."""
    variances = np.ones(d) if kind == "isotropic" else 1.0 / np.arange(1, d + 1)
    return np.sqrt(variances / variances.mean())


def draw(
    rng: np.random.Generator,
    sample: tuple[int, int, int],
    geometry: tuple[str, float],
    noise: tuple[str, str],
    degrees: float,
) -> PairedContrast:
    """One audit's prompts, as Gram blocks (float32 products: 1e-7 against noise of 1e-2)."""
    n_a, n_b, d = sample
    covariance, kappa = geometry
    rho = math.sqrt(kappa * d / (2.0 * n_a * n_b / (n_a + n_b)))
    private_sds = NOISE_SD * axis_sds(noise[0], d)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    other = rng.standard_normal(d) * (private_sds if noise[1] == "noise axes" else 1.0)
    other -= (other @ direction) * direction
    other /= np.linalg.norm(other)
    turned = math.cos(math.radians(degrees)) * direction + math.sin(math.radians(degrees)) * other
    in_a = np.arange(n_a + n_b) < n_a
    side = np.where(in_a, 0.5, -0.5)[:, None]
    within = rng.standard_normal((n_a + n_b, d)) * axis_sds(covariance, d)
    private = rng.standard_normal((n_a + n_b, d)) * private_sds
    base = (within + side * (rho * direction)).astype(np.float32)
    variant = (1.1 * (within + private + side * (rho * turned))).astype(np.float32)
    cross = (variant @ base.T).astype(np.float64)
    return PairedContrast(
        base=base,
        variant=variant,
        in_a=in_a,
        gram_base=(base @ base.T).astype(np.float64),
        gram_variant=(variant @ variant.T).astype(np.float64),
        gram_cross=(cross + cross.T) / 2.0,
    )


def simulate(
    sample: tuple[int, int, int],
    geometry: tuple[str, float],
    noise: tuple[str, str],
    degrees: float,
    audits: int,
) -> dict[str, Any]:
    """Coverage and detections of one cell."""
    cell = [SAMPLES.index(sample), GEOMETRIES.index(geometry), NOISES.index(noise), int(degrees)]
    rng = np.random.default_rng(cell)
    cosine = math.cos(math.radians(degrees))
    too_high = too_low = detected = undefined = 0
    for _ in range(audits):
        contrast = draw(rng, sample, geometry, noise, degrees)
        if corrected_cosine(contrast) is None:
            undefined += 1
            continue
        sampling = CosineSampling(contrast)
        below, above = sampling.tails(cosine)
        too_high += below < 0.025
        too_low += above < 0.025
        detected += sampling.tails(1.0)[1] < 0.025
    defined = audits - undefined
    return {
        "n_a": sample[0],
        "n_b": sample[1],
        "d": sample[2],
        "covariance": geometry[0],
        "kappa": geometry[1],
        "noise": noise[0],
        "plane": noise[1],
        "rotation_degrees": degrees,
        "audits": audits,
        "undefined": undefined / audits,
        "coverage": 1.0 - (too_high + too_low) / max(defined, 1),
        "interval_above": too_high / max(defined, 1),
        "interval_below": too_low / max(defined, 1),
        "rotation_detected": detected / max(defined, 1),
    }


def power(degrees: float, noise: tuple[str, str], audits: int) -> dict[str, Any]:
    """Detections of the calibrated test and of the paper's rule, n = 128 per class, kappa 125, power-law spectrum."""
    rng = np.random.default_rng([NOISES.index(noise), int(10 * degrees)])
    calibrated = paper = 0
    for _ in range(audits):
        contrast = draw(rng, (128, 128, 256), ("power law", 125.0), noise, degrees)
        calibrated += CosineSampling(contrast).tails(1.0)[1] < 0.025
        w = contrast.weights
        lengths = (w @ contrast.gram_base @ w) * (w @ contrast.gram_variant @ w)
        null = split_null(contrast, n_splits=200, rng=rng).variant
        assert null is not None
        plain = float(w @ contrast.gram_cross @ w / math.sqrt(lengths))
        paper += paper_verdict(plain, float(null.mean()), float(null.std(ddof=1))) == "rotation"
    return {
        "rotation_degrees": degrees,
        "noise": noise[0],
        "plane": noise[1],
        "audits": audits,
        "calibrated": calibrated / audits,
        "paper_rule": paper / audits,
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ranges of coverage and false alarms."""
    summary: dict[str, Any] = {
        "false_alarms_largest": max(row["rotation_detected"] for row in rows if row["rotation_degrees"] == 0.0),
        "coverage_at_no_rotation_smallest": min(row["coverage"] for row in rows if row["rotation_degrees"] == 0.0),
    }
    for noise, plane in NOISES:
        kept = [
            row["coverage"]
            for row in rows
            if (row["noise"], row["plane"]) == (noise, plane) and row["rotation_degrees"] > 0.0
        ]
        summary[f"coverage with {noise} noise, {plane}"] = {
            "mean": float(np.mean(kept)),
            "min": min(kept),
            "max": max(kept),
            "share in .93 to .97": float(np.mean([0.93 <= value <= 0.97 for value in kept])),
        }
    return summary


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One cell, in a worker process."""
    if job["kind"] == "power":
        return power(job["degrees"], NOISES[job["noise"]], job["audits"])
    return simulate(
        SAMPLES[job["sample"]], GEOMETRIES[job["geometry"]], NOISES[job["noise"]], job["degrees"], job["audits"]
    )


def jobs(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All cells, the quick ones first."""
    cells: list[dict[str, Any]] = [
        {"kind": "power", "noise": noise, "degrees": degrees, "audits": options.power_audits}
        for noise, degrees in itertools.product(range(3), (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 15.0))
    ]
    for sample, geometry, noise, degrees in itertools.product(range(5), range(4), range(3), ROTATIONS_DEGREES):
        if degrees == 0.0 and NOISES[noise][1] == "noise axes":
            continue  # without a rotation there is no plane
        if SAMPLES[sample][0] == 128 and degrees not in ROTATIONS_AT_128:
            continue
        if SAMPLES[sample][0] == 512 and (geometry, noise, degrees) not in CELLS_AT_512:
            continue
        names = ("kind", "sample", "geometry", "noise", "degrees", "audits")
        values = ("coverage", sample, geometry, noise, degrees, options.audits)
        cells.append(dict(zip(names, values, strict=True)))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=4000)
    parser.add_argument("--power-audits", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--partial", type=Path, help="JSON lines of finished cells: read first, then appended to")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    done: dict[str, dict[str, Any]] = {}
    if options.partial and options.partial.exists():
        for line in options.partial.read_text().splitlines():
            entry = json.loads(line)
            done[json.dumps(entry["job"])] = entry["row"]
    cells = jobs(options)
    missing = [job for job in cells if json.dumps(job) not in done]
    with ProcessPoolExecutor(options.workers) as pool:
        # The longest first, so that no worker is left with one at the end.
        futures = {pool.submit(run, job): job for job in reversed(missing)}
        for future in as_completed(futures):
            job, row = futures[future], future.result()
            done[json.dumps(job)] = row
            print(json.dumps(row), flush=True)
            if options.partial:
                with options.partial.open("a") as file:
                    file.write(json.dumps({"job": job, "row": row}) + "\n")
    rows = [done[json.dumps(job)] for job in cells if job["kind"] == "coverage"]
    results = {
        "audits": options.audits,
        "monte_carlo_se_at_95": math.sqrt(0.95 * 0.05 / options.audits),
        "noise_sd": NOISE_SD,
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "summary": summarise(rows),
        "power": [done[json.dumps(job)] for job in cells if job["kind"] == "power"],
        "rows": rows,
    }
    print(json.dumps(results["summary"], indent=1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(json.dumps(results), parse_float=lambda text: round(float(text), 5))
    options.out.write_text(json.dumps(rounded, indent=1) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
