"""How honest the intervals and tests of correctness agreement are, by exact enumeration.

    python benchmarks/coverage_agreement.py [--out FILE]

Prints, and writes as JSON: coverage of Wilson's interval and of the paired bootstrap over stated grids with their
means and minima, the size of the exact McNemar test and of Tango's equivalence test (as used, and in its normal
approximation), and the power at the smallest detectable difference. Nothing is simulated except the bootstrap's own
draws, so there is no Monte Carlo error to add. Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy import stats

from hubaudit.stats.paired import mcnemar_p, minimum_detectable_difference, paired_bootstrap_interval, wilson_interval
from hubaudit.stats.tango import tango_equivalence_p

OUT = Path(__file__).parent / "results" / "coverage_agreement.json"

WILSON_N = (10, 20, 50, 100, 200, 500, 1000)
WILSON_P = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
BOOTSTRAP_N = (50, 100, 200, 400, 1000)
DISCORDANCE = (0.02, 0.05, 0.1, 0.2)
SHARE_LOST = (0.5, 0.65, 0.85, 1.0)
MCNEMAR_N = (10, 25, 50, 100, 256, 1000)
TANGO = ((25, 0.1), (50, 0.1), (60, 0.05), (100, 0.05), (133, 0.02), (200, 0.02), (223, 0.02), (256, 0.02), (975, 0.02))
MDE_N = (50, 100, 256, 975, 1319)


def wilson() -> list[dict[str, Any]]:
    rows = []
    for n in WILSON_N:
        ends = np.array([wilson_interval(k, n) for k in range(n + 1)])
        for p in WILSON_P:
            held = (ends[:, 0] <= p) & (p <= ends[:, 1])
            rows.append({"n": n, "p": p, "coverage": stats.binom.pmf(np.arange(n + 1), n, p)[held].sum()})
    return rows


def wilson_worst() -> list[dict[str, Any]]:
    """Lowest coverage over a fine grid of p, and over the part of it where at least one item is expected to be lost."""
    rows = []
    grid = np.linspace(0.5, 0.9999, 5000)
    for n in WILSON_N:
        ends = np.array([wilson_interval(k, n) for k in range(n + 1)])
        held = (ends[:, :1] <= grid) & (grid <= ends[:, 1:])
        coverage = (stats.binom.pmf(np.arange(n + 1)[:, None], n, grid) * held).sum(axis=0)
        expected = coverage[n * (1.0 - grid) >= 1.0].min()
        worst = int(coverage.argmin())
        rows.append(
            {"n": n, "p": grid[worst], "coverage": coverage[worst], "coverage_with_one_loss_expected": expected}
        )
    return rows


def tables(n: int, most: float) -> np.ndarray:
    """All (regressions, recoveries) that have a chance above 1e-7 up to the largest discordance."""
    reach = int(min(n, n * most + 6 * np.sqrt(n * most) + 8))
    lost, gained = np.meshgrid(np.arange(reach + 1), np.arange(reach + 1), indexing="ij")
    found = np.column_stack([lost.ravel(), gained.ravel()])
    return found[found.sum(axis=1) <= reach]


def chances(counts: np.ndarray, n: int, lost: float, gained: float) -> np.ndarray:
    full = np.column_stack([counts, n - counts.sum(axis=1)])
    return np.asarray(stats.multinomial.pmf(full, n, [lost, gained, 1.0 - lost - gained]))


def bootstrap() -> list[dict[str, Any]]:
    rows = []
    for n in BOOTSTRAP_N:
        for discordance in DISCORDANCE:
            counts = tables(n, discordance)
            cells = [(discordance * share, discordance * (1 - share)) for share in SHARE_LOST]
            weights = np.array([chances(counts, n, lost, gained) for lost, gained in cells])
            needed = weights.max(axis=0) > 1e-7
            ends = np.array([paired_bootstrap_interval(int(a), int(b), n) for a, b in counts[needed]])
            for (lost, gained), weight in zip(cells, weights[:, needed], strict=True):
                held = (ends[:, 0] <= gained - lost + 1e-12) & (gained - lost - 1e-12 <= ends[:, 1])
                share = lost / discordance
                rows.append({"n": n, "discordance": discordance, "share_lost": share, "coverage": weight[held].sum()})
    return rows


def mcnemar() -> list[dict[str, Any]]:
    rows = []
    for n in MCNEMAR_N:
        given = [
            stats.binom.pmf([k for k in range(d + 1) if mcnemar_p(k, d - k) <= 0.05], d, 0.5).sum()
            for d in range(n + 1)
        ]
        for discordance in (*DISCORDANCE, 0.5):
            size = stats.binom.pmf(np.arange(n + 1), n, discordance) @ given
            rows.append({"n": n, "discordance": discordance, "size": size})
    return rows


def tango() -> list[dict[str, Any]]:
    rows = []
    for n, margin in TANGO:
        counts = tables(n, 0.12 if n > 300 else 0.45)
        close = np.array([tango_equivalence_p(int(a), int(b), n, margin, exact=False) for a, b in counts])
        # Tables far above the level in the approximation reject in neither form.
        counts, close = counts[close <= 0.1], close[close <= 0.1]
        exact = np.array([tango_equivalence_p(int(a), int(b), n, margin) for a, b in counts])
        sizes = {}
        for name, p in (("size", exact), ("size_normal_approximation", close)):
            inside = counts[p <= 0.05]
            shares = np.linspace(0.0, min((1 - margin) / 2, 0.25), 400)
            sizes[name] = max((chances(inside, n, q + margin, q).sum() for q in shares), default=0.0)
        rows.append({"n": n, "margin": margin, **sizes})
    return rows


def power() -> list[dict[str, Any]]:
    rows = []
    for n in MDE_N:
        for discordance in DISCORDANCE:
            upper = wilson_interval(round(n * discordance), n)[1]
            difference = minimum_detectable_difference(n, upper)
            if difference is None:
                rows.append({"n": n, "discordance": upper, "mde": None, "power": None})
                continue
            share = max(upper, difference)
            counts = tables(n, share)
            weight = chances(counts, n, (share + difference) / 2, (share - difference) / 2)
            rejects = np.array(
                [
                    mcnemar_p(int(a), int(b)) <= 0.05 if w > 1e-9 else False
                    for (a, b), w in zip(counts, weight, strict=True)
                ]
            )
            rows.append({"n": n, "discordance": upper, "mde": difference, "power": weight[rejects].sum()})
    return rows


def show(title: str, rows: list[dict[str, Any]], figure: str) -> dict[str, Any]:
    defined = [row for row in rows if row[figure] is not None]
    lowest, highest = (pick(defined, key=lambda row: row[figure]) for pick in (min, max))
    mean = float(np.mean([row[figure] for row in defined]))
    print(f"\n{title}")
    for row in rows:
        print("  " + "  ".join(f"{key} {value:.4g}" if value is not None else f"{key} -" for key, value in row.items()))
    print(f"  mean {mean:.4f}  minimum {lowest[figure]:.4f}  maximum {highest[figure]:.4f}")
    return {"rows": rows, "mean": mean, "minimum": lowest, "maximum": highest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    results = {
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "wilson": show("Coverage of Wilson's 95 % interval", wilson(), "coverage"),
        "wilson_worst": show("Worst coverage of Wilson's interval over p", wilson_worst(), "coverage"),
        "paired_bootstrap": show("Coverage of the paired-bootstrap 95 % interval", bootstrap(), "coverage"),
        "mcnemar": show("Size of the exact McNemar test at 5 %", mcnemar(), "size"),
        "tango": show("Size of the equivalence test at 5 %", tango(), "size"),
        "mde": show("Power at the smallest detectable difference", power(), "power"),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    rounded = json.loads(json.dumps(results), parse_float=lambda text: round(float(text), 6))
    out.write_text(json.dumps(rounded, indent=1) + "\n")
    print(f"\nwritten to {out}")


if __name__ == "__main__":
    main()
