"""The report in the terminal: a table of the variants, then what to read first."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hubaudit.report.across import across_sentences
from hubaudit.report.causes import cause_sentence
from hubaudit.report.cell import Cell
from hubaudit.report.overview import LEVELS, Level, Overview, Row, overview
from hubaudit.report.schema import Finding, Report
from hubaudit.report.text import DASH, clean, clip, plural

__all__ = ["print_report"]

_STYLES: dict[Level, str] = {
    "close": "green",
    "some": "yellow",
    "changed": "red",
    "unclear": "dim",
    "incomplete": "dim",
    "failed": "dim",
}
_SEVERITY_STYLES = {"warning": "red", "notice": "yellow"}

# In the order in which they are shown; the number is the order in which they get their room.
_COLUMNS = (
    ("size", "Size", 4),
    ("bits", "Bits", 9),
    ("accuracy", "Accuracy", 6),
    ("agreement", "Kept (95% CI)", 0),
    ("flips", "Flips", 1),
    ("kl", "KL", 2),
    ("bound", "Bound", 7),
    ("gap", "|Gap|", 5),
    ("axis", "Axis", 8),
    ("direction", "Direction", 3),
    ("monitor", "Monitor", 6),
)
_LEFT = ("axis", "direction", "monitor")
_NAME_WIDTHS = (14, 32)
_NARROW = 100


def print_report(report: Report, console: Console) -> None:
    """Print the headline, one table a task, the gravest findings and the variants that failed.

    Columns that have no room are left out, so no figure is ever cut; 80 columns hold agreement, flips, KL,
    direction and size. Colours follow the console, which honours NO_COLOR. Nothing from outside is read as
    markup or reaches the terminal as a control sequence.

    Args:
        report: The report.
        console: Where it goes.
    """
    view = overview(report)
    counts = ", ".join(f"{LEVELS[level][0]} {count} {LEVELS[level][1].lower()}" for level, count in view.counts)
    console.print(Text(view.headline, style="bold"))
    if counts:
        console.print(Text(counts))
    audited = [row for row in view.rows if row.view.level != "failed"]
    for task in dict.fromkeys(row.task for row in audited):
        console.print()
        console.print(_table([row for row in audited if row.task == task], _title(report, task), console.width))
    if any(cell.below_floor for row in audited for cell in row.cells.values()):
        console.print(Text("† below the compute floor: the computation alone explains it", style="dim"))
    _print_causes(view, console)
    _print_across(report, console)
    _print_findings(report, view, console)
    _print_failures(view, console)


def _title(report: Report, task: str | None) -> str:
    if task is None:
        return "no task"
    n_items = {entry.name: entry.n_items for entry in report.tasks}
    return f"{clip(clean(task), 40)}, {plural(n_items[task], 'item')}"


def _table(rows: list[Row], title: str, width: int) -> Table:
    """The rows with as many columns as fit."""
    longest = _NAME_WIDTHS[width >= _NARROW]
    names = [
        Text.assemble((f"{row.view.sign} ", _STYLES[row.view.level]), clip(row.view.label, longest - 2)) for row in rows
    ]
    columns = {key: [_cell(key, row.cells[key]) for row in rows] for key, _, _ in _COLUMNS}
    shown = _fitting(columns, width - max(len(name) for name in names))
    table = Table(
        title=Text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("Variant", no_wrap=True)
    for key, heading, _ in shown:
        table.add_column(heading, justify="left" if key in _LEFT else "right", no_wrap=True)
    for place, name in enumerate(names):
        table.add_row(name, *(columns[key][place] for key, _, _ in shown))
    return table


def _fitting(columns: dict[str, list[Text]], room: int) -> list[tuple[str, str, int]]:
    """The columns that fit beside the variants' names, the most telling ones first served."""
    chosen = []
    for column in sorted(_COLUMNS, key=lambda entry: entry[2]):
        key, name, _ = column
        # A blank of padding and the divider part the columns.
        needed = max(len(name), *(cell.cell_len for cell in columns[key])) + 2
        if needed <= room:
            chosen.append(key)
            room -= needed
    return [column for column in _COLUMNS if column[0] in chosen]


def _cell(key: str, cell: Cell) -> Text:
    text = Text(cell.text + ("†" if cell.below_floor else ""), style="dim" if cell.below_floor else "")
    if cell.detail and key in ("agreement", "flips") and cell.text != DASH:
        text.append(f" {cell.detail.replace('%', '')}", style="dim")
    return text


def _print_findings(report: Report, view: Overview, console: Console) -> None:
    """What concerns the whole audit, then the gravest finding of each variant, the worst variant first."""
    listed = [("", found, 0) for found in report.findings if found.severity in _SEVERITY_STYLES]
    for entry in reversed(view.ranked):
        grave = [found for found in entry.judging if found.severity in _SEVERITY_STYLES]
        if grave and entry.level != "failed":
            listed.append((f"{entry.label}: ", grave[0], len(grave) - 1))
    if not listed:
        return
    console.print()
    console.print(Text("Read first", style="bold"))
    for name, found, others in sorted(listed, key=lambda entry: entry[1].severity != "warning"):
        _print_item(
            console,
            "!" if found.severity == "warning" else "≈",
            _SEVERITY_STYLES[found.severity],
            f"{name}{_in_words(found)}{f' (and {others} more)' if others else ''}",
        )


def _print_causes(view: Overview, console: Console) -> None:
    """Where the drift comes from, for the variants whose weights or engine were looked at."""
    said = [(entry, cause_sentence(entry.report)) for entry in view.ranked]
    if not any(text for _, text in said):
        return
    console.print()
    console.print(Text("Where it comes from", style="bold"))
    for entry, text in said:
        if text is not None:
            _print_item(console, entry.sign, _STYLES[entry.level], f"{entry.label}: {text}")


def _print_across(report: Report, console: Console) -> None:
    """Which figure ranks the variants, and drift by step."""
    said = across_sentences(report)
    if said:
        console.print()
        console.print(Text("Across the variants", style="bold"))
        for text in said:
            _print_item(console, "·", "dim", text)


def _in_words(found: Finding) -> str:
    return clean(found.text) + (f" → {clean(found.remedy)}" if found.remedy else "")


def _print_failures(view: Overview, console: Console) -> None:
    failed = [entry for entry in view.views if entry.level == "failed"]
    if not failed:
        return
    console.print()
    console.print(Text(f"{plural(len(failed), 'variant')} could not be audited", style="bold"))
    for entry in failed:
        error = entry.report.error
        message = clean(error.message) if error is not None else "no reason was given"
        _print_item(console, entry.sign, _STYLES["failed"], f"{entry.label}: {message}")


def _print_item(console: Console, sign: str, style: str, text: str) -> None:
    """One line with a hanging indent."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(sign, style=style), Text(text))
    console.print(Padding(grid, (0, 0, 0, 1)))
