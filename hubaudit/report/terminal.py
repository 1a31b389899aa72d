"""The report in the terminal: a table of the variants, then what to read first."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hubaudit.report.figures import Cell
from hubaudit.report.overview import Level, Overview, Row, VariantView, overview
from hubaudit.report.schema import Finding, Report
from hubaudit.report.text import DASH, clean, clip, plural

__all__ = ["print_report"]

_STYLES: dict[Level, str] = {
    "close": "green", "some": "yellow", "changed": "red", "incomplete": "dim", "failed": "dim",
}
_SEVERITY_STYLES = {"warning": "red", "notice": "yellow", "info": "dim"}

# Columns by the width that they need at least; the most telling ones stay on a narrow terminal.
_COLUMNS = (
    ("agreement", "Kept (95% CI)", 0),
    ("flips", "Flips", 0),
    ("kl", "KL", 0),
    ("gap", "|Gap|", 88),
    ("accuracy", "Accuracy", 100),
    ("bound", "Bound", 112),
    ("axis", "Axis", 112),
    ("direction", "Direction", 0),
    ("monitor", "Monitor", 124),
    ("size", "Size", 0),
    ("bits", "Bits", 132),
)
_FINDINGS_SHOWN = 8


def print_report(report: Report, console: Console) -> None:
    """Print the headline, one table a task, the gravest findings and the variants that failed.

    It fits into 80 columns and shows more figures where there is room; colours follow the console, which
    honours NO_COLOR. Nothing from outside is read as markup or reaches the terminal as a control sequence.

    Args:
        report: The report.
        console: Where it goes.
    """
    view = overview(report)
    console.print(Text(view.headline, style="bold"))
    audited = [row for row in view.rows if row.view.level != "failed"]
    for task in dict.fromkeys(row.task for row in audited):
        console.print()
        console.print(_table([row for row in audited if row.task == task], _title(report, task), console.width))
    if any(cell.below_floor for row in audited for cell in row.cells.values()):
        console.print(Text("† below the compute floor: the computation alone explains it", style="dim"))
    _print_findings(report, view, console)
    failed = [entry for entry in view.views if entry.level == "failed"]
    if failed:
        console.print()
        console.print(Text(f"{plural(len(failed), 'variant')} could not be audited", style="bold"))
        for entry in failed:
            error = entry.report.error
            message = clean(error.message) if error is not None else "no reason was given"
            _print_item(console, entry.sign, _STYLES["failed"], f"{entry.label}: {message}")


def _title(report: Report, task: str | None) -> str:
    n_items = {entry.name: entry.n_items for entry in report.tasks}
    return clean(task) + f", {plural(n_items[task], 'item')}" if task is not None else "no task"


def _table(rows: list[Row], title: str, width: int) -> Table:
    columns = [(key, name) for key, name, least in _COLUMNS if width >= least]
    table = Table(
        title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
        pad_edge=False,
    )
    table.add_column("Variant", no_wrap=True, max_width=14 if width < 100 else 32)
    for key, name in columns:
        right = key not in ("axis", "direction", "monitor")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        style = _STYLES[row.view.level]
        name = Text.assemble((f"{row.view.sign} ", style), clip(row.view.label, 12 if width < 100 else 30))
        table.add_row(name, *(_cell(key, row.cells[key], width) for key, _ in columns))
    return table


def _cell(key: str, cell: Cell, width: int) -> Text:
    text = Text(cell.text + ("†" if cell.below_floor else ""), style="dim" if cell.below_floor else "")
    wanted = key in ("agreement", "flips") or (key == "direction" and width >= 150)
    if cell.detail and wanted and cell.text != DASH:
        text.append(f" {cell.detail.replace('%', '') if key == 'agreement' else cell.detail}", style="dim")
    return text


def _print_findings(report: Report, view: Overview, console: Console) -> None:
    order = ("warning", "notice")
    listed: list[tuple[VariantView | None, Finding]] = [(None, found) for found in report.findings]
    listed += [(entry, found) for entry in view.ranked if entry.level != "failed" for found in entry.findings]
    grave = sorted((pair for pair in listed if pair[1].severity in order), key=lambda pair: order.index(pair[1].severity))
    if not grave:
        return
    console.print()
    console.print(Text("Read first", style="bold"))
    for owner, found in grave[:_FINDINGS_SHOWN]:
        where = "" if owner is None else f"{owner.label}: "
        remedy = f" → {clean(found.remedy)}" if found.remedy else ""
        sign = "!" if found.severity == "warning" else "~"
        _print_item(console, sign, _SEVERITY_STYLES[found.severity], f"{where}{clean(found.text)}{remedy}")
    if len(grave) > _FINDINGS_SHOWN:
        console.print(Text(f"and {plural(len(grave) - _FINDINGS_SHOWN, 'more finding')} in the report", style="dim"))


def _print_item(console: Console, sign: str, style: str, text: str) -> None:
    """One finding with a hanging indent."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(sign, style=style), Text(text))
    console.print(Padding(grid, (0, 0, 0, 1)))
