"""`hubaudit structure`: what happened to the weights, by layer and projection; no model is built."""

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
    from hubaudit.report.structure_block import Structure

__all__ = ["structure_command"]

_FIGURES = ("relative_error", "sqnr_db", "max_error", "wasserstein", "kl")


def structure_command(
    base: Annotated[str, typer.Argument(help="Hub id, id@revision, or a local folder.")],
    variants: Annotated[list[str], typer.Argument(help="As `hubaudit audit` takes them.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure of every matrix as JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the heatmaps of the relative errors as PNG.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no table; errors still appear.")] = False,
) -> None:
    """Compare weights tensor by tensor: errors, noise ratio and distributions by layer and projection."""
    check_plot(plot)
    from hubaudit.hub import resolve_base, resolve_variant
    from hubaudit.structure import compare_structure

    with listener(quiet=quiet) as progress:
        source = resolve_base(base, progress=progress)
        found, failures = each_variant(
            variants,
            lambda spec: compare_structure(source, resolve_variant(spec, source, progress=progress), progress),
        )
    if plot is not None:
        _draw(found, plot)
    finish(found, failures, _print, as_json=as_json, quiet=quiet)


def _draw(found: dict[str, Structure], plot: Path) -> None:
    from hubaudit.files import write_file
    from hubaudit.report.plots.structure import is_drawable, structure_heatmaps
    from hubaudit.report.plots.style import png
    from hubaudit.report.text import short_labels

    shown = {spec: block for spec, block in found.items() if is_drawable(block)}
    if not shown:
        typer.echo(f"nothing to draw in {plot}: no weight differs", err=True)
        return
    blocks = list(zip(short_labels(list(shown)), shown.values(), strict=True))
    write_file(plot, png(structure_heatmaps(blocks, 8.0)))


def _print(spec: str, block: Structure, console: Console) -> None:
    from hubaudit.report.structure import place_label, projections_of
    from hubaudit.report.text import clean, number, short_labels

    table = Table("projection", "matrices", *_FIGURES, "largest error in", title=clean(short_labels([spec])[0]))
    for projection in projections_of(block):
        rows = [row for row in block.rows if row.projection == projection]
        worst = max(rows, key=lambda row: row.difference.relative_error or 0.0)
        cells = [number(getattr(worst.difference, key)) for key in _FIGURES]
        where = place_label(worst).partition(" of ")[2]
        table.add_row(*(Text(cell) for cell in (clean(projection), str(len(rows)), *cells, where)))
    console.print(table)
    console.print(
        f"relative error of all {block.n_weights:,} weights {number(block.relative_error)}; a row shows its worst "
        "matrix, --json every one",
        highlight=False,
        soft_wrap=True,
    )
    for name, reason in list(block.not_compared.items())[:10]:
        console.print(clean(f"not compared: {name}: {reason}"), markup=False, highlight=False, soft_wrap=True)
    if len(block.not_compared) > 10:
        console.print(f"and {len(block.not_compared) - 10} more; --json names them", highlight=False)
