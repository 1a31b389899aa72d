"""`hubaudit verify`: whether a report's figures hold."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubaudit.errors import InputError
from hubaudit.terminal_progress import listener

if TYPE_CHECKING:
    from hubaudit.verify import Check

__all__ = ["verify_command"]

DOES_NOT_HOLD = 1


def verify_command(
    reference: Annotated[
        str, typer.Argument(metavar="REPORT.json|ORG/NAME", help="A report, or a repo that holds hubaudit/report.json.")
    ],
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Compute every figure again from the cached evidence.")
    ] = False,
    rerun: Annotated[int, typer.Option(help="Run this many items of each variant again and compare.")] = 0,
    variant: Annotated[
        list[str] | None, typer.Option(help="Only these variants are run again, as the report names them.")
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", help="Where evidence is kept (default: ~/.cache/hubaudit).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every check as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress; errors still appear.")] = False,
) -> None:
    """Check a report: schema, identities between its figures, commits; on request its evidence and a sample.

    Exit code 1 where something does not hold.
    """
    if rerun < 0:
        raise InputError(f"--rerun must be at least 0, but got {rerun}")
    from hubaudit.verify import check_commits, check_identities, find_report

    report = find_report(reference)
    known = [one.spec for one in report.variants]
    if unknown := [spec for spec in variant or [] if spec not in known]:
        raise InputError(f"--variant {unknown[0]!r} is not in this report; it holds: {', '.join(known)}")
    found = {"identities": check_identities(report), "commits": check_commits(report)}
    with listener(quiet=quiet) as progress:
        if evidence:
            from hubaudit.verify.evidence import check_evidence

            found["evidence"] = check_evidence(report, cache_dir=cache_dir, progress=progress)
        if rerun:
            from hubaudit.verify.rerun import check_rerun

            found["rerun"] = check_rerun(
                report, n_items=rerun, variants=variant or known, cache_dir=cache_dir, progress=progress
            )
    if as_json:
        document = {part: [dataclasses.asdict(check) for check in checks] for part, checks in found.items()}
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print(found, Console())
    if any(check.status == "does not hold" for checks in found.values() for check in checks):
        raise typer.Exit(DOES_NOT_HOLD)


def _print(found: dict[str, list[Check]], console: Console) -> None:
    """A line a part, then what does not hold, then what was skipped."""
    from hubaudit.report.text import clean

    table = Table("part", "ok", "does not hold", "skipped")
    for part, checks in found.items():
        states = [check.status for check in checks]
        table.add_row(part, *(str(states.count(state)) for state in ("ok", "does not hold", "skipped")))
    console.print(table)
    wrong = [check for checks in found.values() for check in checks if check.status == "does not hold"]
    if wrong:
        table = Table("where", "does not hold", "expected", "got", "tolerance")
        for check in wrong:
            cells = (check.where, check.name, check.expected, check.got, check.tolerance)
            table.add_row(*(Text(clean(cell)) for cell in cells))
        console.print(table)
    for check in (check for checks in found.values() for check in checks if check.status == "skipped"):
        line = f"skipped: {check.where}: {check.name} ({check.reason})"
        console.print(clean(line), markup=False, highlight=False, soft_wrap=True)
    console.print("Something does not hold." if wrong else "Everything that was checked holds.")
