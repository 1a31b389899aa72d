"""Which figure ranks a model's variants as their risk gaps do: PRISM's section 5, on SmolLM2 and five tasks.

    python benchmarks/ranking.py [--items 60] [--gptq FOLDER ...]

The variants: GGUF files of twelve types by llama.cpp's own quantizer (needs `pip install
'hubaudit[llamacpp]'`), with F16 as the paper's FP16 row, bitsandbytes int8, nf4 and fp4, rounding to 3,
4, 5, 6 and 8 bits, and the GPTQ folders given (`gptq_smollm2.py --save FOLDER` makes one). The base is
the demo's, itself expanded from a Q8_0 file. Tasks: ARC, MMLU, CSQA, GSM8K and forced answers; where the
developers' data are absent, the built-in questions, forced answers and three texts of this repo. Answers,
features and gaps are the dense engine's in float32.

Writes results/ranking.json (all correlations), ranking.csv (the paper's table) and ranking.png. About 25 minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from common import HERE, demo_base, five_tasks, save
from quantize_gguf import quantize_gguf

from hubaudit.demo import packaged_gguf
from hubaudit.pipeline import Pipeline
from hubaudit.report.plots import ranking_plot
from hubaudit.report.plots.style import png
from hubaudit.report.schema import Report
from hubaudit.report.table import to_csv
from hubaudit.report.terminal import print_report
from hubaudit.settings import AuditSettings, default_cache_dir
from hubaudit.terminal_progress import listener

TYPES = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_0", "IQ4_XS", "Q3_K_M", "Q3_K_S", "Q2_K")
ON_THE_SPOT = ("bnb:int8", "bnb:nf4", "bnb:fp4", "rtn:8", "rtn:6", "rtn:5", "rtn:4", "rtn:3")


def main() -> None:
    """Audit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--gptq", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    from rich.console import Console

    base = demo_base()
    folder = default_cache_dir() / "benchmarks" / "ranking"
    for name in TYPES:
        if not (target := folder / f"SmolLM2-{name}.gguf").is_file():
            quantize_gguf(packaged_gguf(), target, name)
    ggufs = [str(folder / f"SmolLM2-{name}.gguf") for name in TYPES]
    with tempfile.TemporaryDirectory() as place, listener(quiet=False) as progress:
        settings = AuditSettings(
            base=str(base),
            variants=(*ggufs, *ON_THE_SPOT, *(str(path) for path in options.gptq)),
            tasks=five_tasks(Path(place)),
            contrast=None,
            limit=options.items,
            dtype="float32",
        )
        report = Pipeline(settings, progress).run()
    print_report(report, Console())
    _write(report)


def _write(report: Report) -> None:
    assert report.ranking_pooled is not None
    failed = {variant.spec: variant.error.message for variant in report.variants if variant.error is not None}
    save(
        "ranking",
        {
            "command": " ".join(["python", "benchmarks/ranking.py", *(Path(arg).name for arg in sys.argv[1:])]),
            "dtype": report.base.dtype,
            "engine": report.base.engine,
            "variants": [Path(variant.spec).name for variant in report.variants],
            "failed": failed,
            "tasks": {task.name: {"n_items": task.n_items, "n_tokens": task.n_tokens} for task in report.tasks},
            "by_task": {task: block.to_dict() for task, block in report.ranking.items()},
            "pooled": report.ranking_pooled.to_dict(),
        },
    )
    for variant in report.variants:
        variant.spec = Path(variant.spec).name
    report.base.spec = Path(report.base.spec).name
    (HERE / "results" / "ranking.csv").write_text(to_csv(report), newline="")
    (HERE / "results" / "ranking.png").write_bytes(png(ranking_plot(report)))


if __name__ == "__main__":
    main()
