"""`hubaudit attention`: which attention projections of a variant matter, each swapped alone into the base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubaudit.cli_each_variant import check_plot, each_variant, finish
from hubaudit.terminal_progress import listener

if TYPE_CHECKING:
    from hubaudit.load import LoadedModel
    from hubaudit.load.model import ModelSource
    from hubaudit.progress import Progress
    from hubaudit.report.attention_block import AttentionSensitivity
    from hubaudit.stats.shape_drift import Estimate

__all__ = ["attention_command"]

_BATCH_TOKENS = 1024


def attention_command(
    base: Annotated[str, typer.Argument(help="Hub id, id@revision, or a local folder with plain weights.")],
    variants: Annotated[list[str], typer.Argument(help="As `hubaudit audit` takes them.")],
    tasks: Annotated[str, typer.Option(help="Names or paths of tasks, joined by commas.")] = "builtin",
    limit: Annotated[int, typer.Option(help="Items a task, a seeded sample.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure of every swap as JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write heatmaps, blocks by projections, as PNG.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no table; errors still appear.")] = False,
) -> None:
    """Swap q, k, v and o of a variant into its base, one at a time: attention, features and logits."""
    check_plot(plot)
    from hubaudit.attention import compare_attention, gold_plan
    from hubaudit.hub import resolve_base, resolve_variant
    from hubaudit.load.structure import text_config
    from hubaudit.tasks import load_task, max_length, tokenize_task
    from hubaudit.tasks.vocabulary import load_tokenizer

    names = [name.strip() for name in tasks.split(",") if name.strip()]
    with listener(quiet=quiet) as progress:
        source = resolve_base(base, progress=progress)
        tokenizer = load_tokenizer(source.path)
        read = [load_task(name, limit=limit, seed=seed) for name in names]
        model = _loaded(source, dtype, device, progress)
        longest = max_length(text_config(model.model))
        plan = gold_plan(
            [tokenize_task(task, tokenizer, max_length=longest) for task in read], batch_tokens=_BATCH_TOKENS
        )
        found, failures = each_variant(
            variants,
            lambda spec: compare_attention(
                model, resolve_variant(spec, source, progress=progress), plan, progress=progress
            ),
        )
        model.close()
    if plot is not None and found:
        _draw(found, plot)
    finish(found, failures, _print, as_json=as_json, quiet=quiet)


def _loaded(source: ModelSource, dtype: str, device: str, progress: Progress) -> LoadedModel:
    from hubaudit.load import load_model
    from hubaudit.progress import short_spec

    progress.begin(f"loading {short_spec(source.spec)}", 0)
    try:
        return load_model(source, dtype=dtype, device=device)
    finally:
        progress.end()


def _draw(found: dict[str, AttentionSensitivity], plot: Path) -> None:
    from hubaudit.files import write_file
    from hubaudit.report.plots.attention import attention_heatmaps
    from hubaudit.report.plots.style import png
    from hubaudit.report.text import short_labels

    write_file(plot, png(attention_heatmaps(list(zip(short_labels(list(found)), found.values(), strict=True)))))


def _print(spec: str, block: AttentionSensitivity, console: Console) -> None:
    from hubaudit.report.attention_block import FIGURE_LABELS
    from hubaudit.report.text import clean, number, short_labels

    table = Table("swapped, all blocks", *FIGURE_LABELS.values(), title=clean(short_labels([spec])[0]))
    for row in block.overall:
        table.add_row(row.projection, *(Text(_shown(getattr(row, name))) for name in FIGURE_LABELS))
    if block.ratio:
        table.add_section()
        table.add_row("(q + k) / (v + o)", *(Text(_shown(block.ratio[name])) for name in FIGURE_LABELS))
    console.print(table)
    worst = max(block.rows, key=lambda row: row.kl.value or 0.0)
    console.print(
        f"{block.n_items} items, {block.n_tokens} scored tokens, {block.dtype}; base swapped into itself: exactly 0. "
        f"Largest KL of logits by one matrix: {worst.projection} of block {worst.layer}, {number(worst.kl.value)}. "
        "Intervals are 95 % over items; --json has every block.",
        highlight=False,
        soft_wrap=True,
    )
    for note in block.notes:
        console.print(clean(note), markup=False, highlight=False, soft_wrap=True)
    for name, reason in list(block.not_swapped.items())[:10]:
        console.print(clean(f"not swapped: {name}: {reason}"), markup=False, highlight=False, soft_wrap=True)


def _shown(figure: Estimate) -> str:
    from hubaudit.report.text import number

    if figure.ci_low is None:
        return number(figure.value)
    return f"{number(figure.value)} ({number(figure.ci_low)} to {number(figure.ci_high)})"
