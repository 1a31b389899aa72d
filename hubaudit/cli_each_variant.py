"""What commands that go variant by variant share: failures leave the others, blocks print as JSON or as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console

from hubaudit.errors import HubAuditError, InputError

if TYPE_CHECKING:
    from hubaudit.report.block import Block

__all__ = ["VARIANTS_FAILED", "check_plot", "each_variant", "finish"]

VARIANTS_FAILED = 4

B = TypeVar("B", bound="Block")


def check_plot(plot: Path | None) -> None:
    """Refuse a plot that is no PNG before any work is done."""
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"--plot must name a .png file, but got {str(plot)!r}")


def each_variant(specs: Sequence[str], compare: Callable[[str], B]) -> tuple[dict[str, B], list[HubAuditError]]:
    """The blocks of the variants that could be compared, by reference, and why the others could not."""
    found: dict[str, B] = {}
    failures: list[HubAuditError] = []
    for spec in specs:
        try:
            found[spec] = compare(spec)
        except HubAuditError as exc:
            failures.append(exc)
    return found, failures


def finish(
    found: dict[str, B],
    failures: list[HubAuditError],
    show: Callable[[str, B, Console], None],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the blocks and the failures, and exit with the code that these give."""
    from hubaudit.report.text import clean

    if as_json:
        blocks = {spec: block.model_dump(mode="json") for spec, block in found.items()}
        typer.echo(json.dumps(blocks, indent=1, allow_nan=False))
    elif not quiet:
        for spec, block in found.items():
            show(spec, block, Console())
    for failure in failures:
        typer.echo(clean(f"error: {failure}"), err=True)
    if failures:
        raise typer.Exit(VARIANTS_FAILED if found else failures[0].exit_code)
