"""`hubaudit agree`: correctness agreement from prediction files, without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hubaudit.errors import InputError

__all__ = ["agree_command"]


def agree_command(
    base: Annotated[
        Path,
        typer.Argument(
            metavar="BASE_SAMPLES", help="The base's answers: lm-eval's samples_*.jsonl, JSON, JSON Lines, CSV or TSV."
        ),
    ],
    variant: Annotated[Path, typer.Argument(metavar="VARIANT_SAMPLES", help="The variant's, in the same form.")],
    references: Annotated[
        Path | None, typer.Option(help="Right answers, where the files hold none: JSON Lines of items with answer.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="lm-eval's metric of 0 and 1; without it acc_norm, acc, exact_match, or the only one."),
    ] = None,
    filter_name: Annotated[
        str | None, typer.Option("--filter", help="lm-eval's filter; without it the first of the base's file.")
    ] = None,
    tost_margin: Annotated[
        float, typer.Option(help="Accuracy difference below which the two count as equivalent.")
    ] = 0.02,
    seed: Annotated[int, typer.Option(help="Seed of the paired bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON on standard output.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write kept, lost, gained and changed answers as PNG.")] = None,
) -> None:
    """Compare two models' answers item by item, from files; no model runs."""
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"--plot must name a .png file, but got {str(plot)!r}")
    from hubaudit.agree import agree

    found = agree(
        base,
        variant,
        references=references,
        metric=metric,
        filter_name=filter_name,
        tost_margin=tost_margin,
        seed=seed,
    )
    if plot is not None:
        from hubaudit.agree_view import agreement_plot
        from hubaudit.files import write_file
        from hubaudit.report.plots.style import png

        write_file(plot, png(agreement_plot(found)))
    if as_json:
        # Escaped to ASCII: ids come from files that nobody vouches for, and end in a terminal.
        typer.echo(json.dumps(found.to_dict(), indent=1, allow_nan=False))
        return
    from hubaudit.agree_view import print_agreement

    print_agreement(found, Console())
