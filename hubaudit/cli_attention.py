"""`hubaudit attention`: which attention projections of a variant matter, each swapped alone into the base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubaudit.errors import HubAuditError, InputError
from hubaudit.terminal_progress import listener

if TYPE_CHECKING:
    from hubaudit.load import LoadedModel
    from hubaudit.load.model import ModelSource
    from hubaudit.progress import Progress
    from hubaudit.report.attention_block import AttentionSensitivity
    from hubaudit.stats.shape_drift import Estimate

__all__ = ["attention_command"]

VARIANTS_FAILED = 4
_FIGURES = ("attention_kl", "one_minus_omega", "kl")
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
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"--plot must name a .png file, but got {str(plot)!r}")
    from hubaudit.attention import compare_attention, gold_plan
    from hubaudit.hub import resolve_base, resolve_variant
    from hubaudit.report.text import clean
    from hubaudit.tasks import load_task, tokenize_task
    from hubaudit.tasks.vocabulary import load_tokenizer

    names = [name.strip() for name in tasks.split(",") if name.strip()]
    found: dict[str, AttentionSensitivity] = {}
    failures: list[HubAuditError] = []
    with listener(quiet=quiet) as progress:
        source = resolve_base(base, progress=progress)
        tokenizer = load_tokenizer(source.path)
        read = [load_task(name, limit=limit, seed=seed) for name in names]
        model = _loaded(source, dtype, device, progress)
        longest = int(getattr(model.model.config.get_text_config(), "max_position_embeddings", None) or 2**20)  # type: ignore[operator, union-attr]
        plan = gold_plan(
            [tokenize_task(task, tokenizer, max_length=longest) for task in read], batch_tokens=_BATCH_TOKENS
        )
        for spec in variants:
            try:
                variant = resolve_variant(spec, source, progress=progress)
                found[spec] = compare_attention(model, variant, plan, progress=progress)
            except HubAuditError as exc:
                failures.append(exc)
        model.close()
    if plot is not None and found:
        _draw(found, plot)
    if as_json:
        blocks = {spec: block.model_dump(mode="json") for spec, block in found.items()}
        typer.echo(json.dumps(blocks, indent=1, allow_nan=False))
    elif not quiet:
        for spec, block in found.items():
            _print(spec, block, Console())
    for failure in failures:
        typer.echo(clean(f"error: {failure}"), err=True)
    if failures:
        raise typer.Exit(VARIANTS_FAILED if found else failures[0].exit_code)


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
    from hubaudit.report.text import clean, number, short_labels

    heads = ("KL of attention", "1 - Omega", "KL of logits")
    table = Table("swapped, all blocks", *heads, title=clean(short_labels([spec])[0]))
    for row in block.overall:
        table.add_row(row.projection, *(Text(_shown(getattr(row, name))) for name in _FIGURES))
    if block.ratio:
        table.add_section()
        table.add_row("(q + k) / (v + o)", *(Text(_shown(block.ratio[name])) for name in _FIGURES))
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
