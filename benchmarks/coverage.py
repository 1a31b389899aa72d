"""Coverage of every interval and false alarms of every test, over the full grids.

    python benchmarks/coverage.py [--only GRID ...] [--show]

Runs the three grids, agreement, direction and translation, one script each (`coverage_GRID.py`, whose docstring says
what is drawn), writes `results/coverage_GRID.json`, and prints the summaries with the power curve of the direction
test. `--show` prints them from the committed results without running anything. About three hours on one
core; the direction grid alone can be resumed (`coverage_direction.py --partial FILE`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
GRIDS = ("agreement", "direction", "translation")


def read(grid: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / "results" / f"coverage_{grid}.json").read_text())
    return content


def agreement(results: dict[str, Any]) -> Table:
    table = Table(title="correctness_agreement: exact enumeration", title_justify="left")
    for name in ("figure", "cells", "mean", "minimum", "maximum"):
        table.add_column(name)
    figures = {
        "wilson": "coverage",
        "wilson_worst": "coverage",
        "paired_bootstrap": "coverage",
        "mcnemar": "size",
        "tango": "size",
        "mde": "power",
    }
    for name, key in figures.items():
        block = results[name]
        ends = []
        for end in ("minimum", "maximum"):
            at = ", ".join(f"{k} {v}" for k, v in block[end].items() if k in ("n", "p", "discordance", "margin"))
            ends.append(f"{block[end][key]:.3f} ({at})")
        table.add_row(f"{name} {key}", str(len(block["rows"])), f"{block['mean']:.3f}", *ends)
    return table


def simulated(grid: str, results: dict[str, Any]) -> Table:
    table = Table(title=f"{grid}: {results['audits']} simulated audits a cell", title_justify="left")
    table.add_column("figure")
    table.add_column("value")
    for name, value in results["summary"].items():
        shown = value if isinstance(value, dict) else {"": value}
        table.add_row(name, "  ".join(f"{key} {number:.3f}".strip() for key, number in shown.items()))
    return table


def power(results: dict[str, Any]) -> Table:
    table = Table(title="direction_floor: share of rotations detected, 128 prompts a class", title_justify="left")
    for name in ("noise, plane", "degrees", "calibrated test", "paper's rule"):
        table.add_column(name)
    for row in results["power"]:
        shares = (f"{row['calibrated']:.3f}", f"{row['paper_rule']:.3f}")
        table.add_row(f"{row['noise']}, {row['plane']}", f"{row['rotation_degrees']:g}", *shares)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=GRIDS, default=GRIDS)
    parser.add_argument("--show", action="store_true", help="print the committed results only")
    options = parser.parse_args()
    console = Console()
    for grid in options.only:
        if not options.show:
            subprocess.run([sys.executable, str(HERE / f"coverage_{grid}.py")], check=True)
        results = read(grid)
        console.print(agreement(results) if grid == "agreement" else simulated(grid, results))
        if grid == "direction":
            console.print(power(results))


if __name__ == "__main__":
    main()
