"""Coverage, false alarms and power of the translation and attenuation audit, by simulation.

    python benchmarks/coverage_translation.py [--audits 4000] [--workers 1] [--out FILE]

Each cell simulates whole audits: base scores of two classes, variant scores with a shift, a gain of the class
distance and private noise. Scores are Gaussian, heavy-tailed (Student's t with 5 degrees) or skewed (gamma of shape 2),
each with within-class SD 1; projections of Gaussian features of any covariance are the Gaussian case. Prints, and
writes as JSON, the coverage of both intervals, the share of each verdict, how often the attenuation interval is
unbounded, and the rejections of DeLong's test at its null. About 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from hubaudit.stats.auroc import paired_auroc
from hubaudit.stats.translation_attenuation import translation_attenuation

OUT = Path(__file__).parent / "results" / "coverage_translation.json"

# (distribution, class distance in SDs, items of class 0, items of class 1)
SAMPLES = [
    ("normal", 1.25, 32, 32),
    ("normal", 1.25, 64, 64),
    ("normal", 1.25, 32, 128),
    ("normal", 1.25, 128, 128),
    ("normal", 1.25, 512, 512),
    ("normal", 6.0, 32, 32),
    ("normal", 6.0, 128, 128),
    ("heavy-tailed", 2.5, 32, 32),
    ("heavy-tailed", 2.5, 128, 128),
    ("skewed", 2.5, 32, 32),
    ("skewed", 2.5, 128, 128),
]

# name: (shift in SDs, attenuation of d', private noise in SDs); the gain follows from the last two.
EFFECTS = {
    "private noise .1": (0.0, 1 - 1 / math.hypot(1, 0.1), 0.1),
    "private noise .3": (0.0, 1 - 1 / math.hypot(1, 0.3), 0.3),
    "shift at the margin": (0.1, 1 - 1 / math.hypot(1, 0.1), 0.1),
    "attenuation at the margin": (0.0, 0.05, 0.1),
    "shift .5": (0.5, 0.0, 0.2),
    "attenuation .3": (0.0, 0.3, 0.1),
    "shift 1.9, attenuation .5": (1.9, 0.5, 0.1),
}


def draw(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "normal":
        return rng.standard_normal(n)
    if kind == "heavy-tailed":
        return rng.standard_t(5, n) / math.sqrt(5 / 3)
    return (rng.gamma(2.0, size=n) - 2.0) / math.sqrt(2)


def simulate(kind: str, distance: float, n_neg: int, n_pos: int, effect: str, audits: int) -> dict[str, Any]:
    shift, lost, noise = EFFECTS[effect]
    labels = np.repeat([0, 1], [n_neg, n_pos])
    gain = (1 - lost) * math.hypot(1, noise)
    held, unbounded, verdicts = np.zeros(2), 0, Counter[str]()
    rng = np.random.default_rng([n_neg, n_pos, int(100 * distance), list(EFFECTS).index(effect), len(kind)])
    for seed in range(audits):
        unit = draw(kind, len(labels), rng)
        base = unit + distance * labels
        variant = unit + shift + gain * distance * labels + noise * draw(kind, len(labels), rng)
        result = translation_attenuation(variant, base, labels, threshold=distance / 2, seed=seed)
        verdicts[str(result.verdict)] += 1
        assert result.translation_ci_low is not None
        assert result.translation_ci_high is not None
        held[0] += result.translation_ci_low <= shift <= result.translation_ci_high
        if result.attenuation_ci_low is None or result.attenuation_ci_high is None:
            unbounded += 1  # no interval is given, so none can miss
        else:
            held[1] += result.attenuation_ci_low <= lost <= result.attenuation_ci_high
    return {
        "distribution": kind,
        "distance": distance,
        "n_negative": n_neg,
        "n_positive": n_pos,
        "effect": effect,
        "translation_coverage": held[0] / audits,
        "attenuation_coverage": held[1] / (audits - unbounded),
        "unbounded": unbounded / audits,
        "verdicts": {name: verdicts[name] / audits for name in ("none", "translation", "attenuation", "both", "None")},
    }


def simulate_cell(cell: tuple[str, float, int, int, str, int]) -> dict[str, Any]:
    return simulate(*cell)


def delong(n: int, audits: int) -> dict[str, Any]:
    """Rejections where both scores are the same signal with private noise of the same size."""
    rng, labels = np.random.default_rng(n), np.repeat([0, 1], n)
    p_values = []
    for _ in range(audits):
        signal = rng.standard_normal(2 * n) + 1.2 * labels
        base, variant = (signal + 0.5 * rng.standard_normal(2 * n) for _ in range(2))
        p_values.append(paired_auroc(variant, base, labels).p)
    return {"n_per_class": n, "rejected": float(np.mean([p is not None and p <= 0.05 for p in p_values]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    cells = [(*sample, effect, options.audits) for sample in SAMPLES for effect in EFFECTS]
    rows = []
    # Every cell has its own seed, so the number of workers changes nothing but the time.
    with multiprocessing.Pool(options.workers) as pool:
        for row in pool.imap(simulate_cell, cells):
            rows.append(row)
            shares = "  ".join(f"{name} {share:.3f}" for name, share in row["verdicts"].items() if share)
            print(
                f"{row['distribution']:12} distance {row['distance']:<4} n {row['n_negative']}+{row['n_positive']}  "
                f"{row['effect']:26} coverage {row['translation_coverage']:.3f} {row['attenuation_coverage']:.3f}  "
                f"{shares}",
                flush=True,
            )
    tests = [delong(n, 5 * options.audits) for n in (32, 64, 128, 512)]
    summary: dict[str, Any] = {"delong_largest_rejection": max(test["rejected"] for test in tests)}
    for kind in dict.fromkeys(sample[0] for sample in SAMPLES):
        for figure in ("translation_coverage", "attenuation_coverage"):
            values = [row[figure] for row in rows if row["distribution"] == kind]
            summary[f"{kind} {figure}"] = {"mean": float(np.mean(values)), "min": min(values), "max": max(values)}
    for effect in EFFECTS:
        alarms = [1 - row["verdicts"]["none"] - row["verdicts"]["None"] for row in rows if row["effect"] == effect]
        summary[f"called something at {effect}"] = {"min": min(alarms), "max": max(alarms)}
    for name, value in summary.items():
        print(name, value)
    results = {
        "audits": options.audits,
        "monte_carlo_se_at_95": math.sqrt(0.95 * 0.05 / options.audits),
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "summary": summary,
        "delong": tests,
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(json.dumps(results), parse_float=lambda text: round(float(text), 5))
    options.out.write_text(json.dumps(rounded, indent=1) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
