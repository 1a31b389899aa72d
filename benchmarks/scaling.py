"""How an audit's time grows with items and with variants, and how often each model runs.

    python benchmarks/scaling.py [--items 25] [--repeats 3]

Items x 1, 2, 4, 8 with one variant, then 1, 2, 4 variants with the first number of items, each from an empty cache, in
one process; then one more variant with the cache of the last run. A pass is one run of all of the plan's batches
through a model; the base's compute floor on a sample is counted apart. Writes benchmarks/results/scaling.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from common import demo_base, items, median, save, write_rows

import hubaudit.pipeline
from hubaudit.collect import collect
from hubaudit.pipeline import Pipeline
from hubaudit.progress import Silent
from hubaudit.settings import AuditSettings

VARIANTS = ("rtn:4", "bnb:nf4", "rtn:3", "rtn:8", "bnb:fp4")


def audit(base: Path, task: Path, variants: tuple[str, ...], cache: Path) -> dict[str, Any]:
    """Seconds of one audit, and which models ran."""
    ran: list[tuple[str, int]] = []

    def counted(model: Any, evidence: Any, *arguments: Any, **options: Any) -> Any:
        ran.append((model.source.spec, evidence.plan.n_tokens))
        return collect(model, evidence, *arguments, **options)

    settings = AuditSettings(
        base=str(base), variants=variants, tasks=(str(task),), contrast=None, limit=None, cache_dir=cache
    )
    with mock.patch.object(hubaudit.pipeline, "collect", counted):
        started = time.perf_counter()
        report = Pipeline(settings, Silent()).run()
        spent = time.perf_counter() - started
    assert all(variant.status == "done" for variant in report.variants)
    whole = max((tokens for _, tokens in ran), default=0)
    return {
        "seconds": spent,
        "base_passes": sum(spec == str(base) and tokens == whole for spec, tokens in ran),
        "variant_passes": sum(spec != str(base) for spec, _ in ran),
        "floor_runs": sum(spec == str(base) and tokens < whole for spec, tokens in ran),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    base = demo_base()
    rows = items(8 * options.items)
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {n: write_rows(folder / f"items{n}.jsonl", rows[: n * options.items]) for n in (1, 2, 4, 8)}
        audit(base, files[1], VARIANTS[:1], folder / "warm")  # imports and file cache
        for repeat in range(options.repeats):
            for n, file in files.items():
                with tempfile.TemporaryDirectory() as cache:
                    found.setdefault(f"items x {n}", []).append(audit(base, file, VARIANTS[:1], Path(cache)))
            for n in (1, 2, 4):
                cache = folder / f"cache-{repeat}-{n}"
                found.setdefault(f"{n} variants", []).append(audit(base, files[1], VARIANTS[:n], cache))
            found.setdefault("one more variant", []).append(audit(base, files[1], VARIANTS[:5], cache))
    print(f"{'':18} {'seconds':>8} {'base passes':>12} {'variant passes':>15} {'runs of the floor':>18}")
    medians = {name: median([run["seconds"] for run in runs]) for name, runs in found.items()}
    for name, runs in found.items():
        one = runs[0]
        print(
            f"{name:18} {medians[name]:8.2f} {one['base_passes']:12} {one['variant_passes']:15} {one['floor_runs']:18}"
        )
    ratio = medians["items x 8"] / medians["items x 1"]
    slope = (medians["items x 8"] - medians["items x 1"]) / (7 * options.items)
    a_variant = (medians["4 variants"] - medians["1 variants"]) / 3
    print(f"8 x the items take {ratio:.2f} x the time; {1000 * slope:.0f} ms an item; {a_variant:.2f} s a variant")
    save("scaling", {"items": options.items, "medians": medians, "ratio_8x": ratio, "runs": found})


if __name__ == "__main__":
    main()
