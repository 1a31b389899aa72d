"""`hubaudit diff`: what changed between two audits, for CI."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from hubaudit.diff import Difference

__all__ = ["diff_command"]

GATE_FIRED = 1
WORSE = "worse"


def diff_command(
    old_path: Annotated[Path, typer.Argument(metavar="OLD.json", help="The older report.")],
    new_path: Annotated[Path, typer.Argument(metavar="NEW.json", help="The newer report.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the difference as JSON.")] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            help="Exit with 1: `worse` where a figure got worse; a finding or a comparison on the new report.",
        ),
    ] = None,
) -> None:
    """Compare two audits: what got better, got worse, or stayed within noise.

    Each test is at the 1 % level, so of 100 comparisons of equal models about one says better or worse by chance.
    """
    from hubaudit.diff import compare_reports
    from hubaudit.gate import parse_gate
    from hubaudit.report.schema import read_report

    wanted = fail_on or []
    gates = [parse_gate(text) for text in wanted if text != WORSE]
    new = read_report(new_path)
    difference = compare_reports(read_report(old_path), new)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(difference), indent=1, allow_nan=False))
    else:
        _print(difference, Console())
    fired = [line for gate in gates for line in gate.fired(new)]
    if WORSE in wanted:
        fired += [f"{row.variant}: {row.where}.{row.key} got worse ({row.rule})" for row in difference.worse]
    from hubaudit.report.text import clean

    for line in fired:
        typer.echo(clean(f"fail-on: {line}"), err=True)
    if fired:
        raise typer.Exit(GATE_FIRED)


def _print(difference: Difference, console: Console) -> None:
    from hubaudit.report.text import clean

    def say(line: str) -> None:
        console.print(clean(line), markup=False, highlight=False, soft_wrap=True)

    for warning in difference.warnings:
        say(f"warning: {warning}")
    shown = [row for row in difference.rows if row.outcome != "within noise"]
    if shown:
        table = Table("variant", "figure", "old", "new", "outcome", "rule")
        for row in shown:
            figure = f"{row.where}.{row.key}".lstrip(".")
            cells = (row.variant, figure, _number(row.old), _number(row.new), row.outcome, row.rule)
            table.add_row(*(Text(clean(cell)) for cell in cells))
        console.print(table)
    say(f"{len(difference.rows) - len(shown)} figures stayed within noise")
    for title, specs in (("new variant", difference.added), ("gone variant", difference.gone)):
        for spec in specs:
            say(f"{title}: {spec}")
    for before, after in difference.renamed:
        say(f"renamed: {before} is now {after}")
    for title, findings in (("new finding", difference.new_findings), ("gone finding", difference.gone_findings)):
        for spec, text in findings:
            say(f"{title}: {spec}: {text}")


def _number(value: float | str | None) -> str:
    return "undefined" if value is None else value if isinstance(value, str) else f"{value:.4g}"
