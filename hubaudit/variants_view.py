"""The children of a base as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubaudit.hub.child import Child
from hubaudit.hub.children import Listing
from hubaudit.report.text import DASH, clean, clip, number, plural, sentence, size

__all__ = ["print_children"]

_NAME_WIDTH = 44
_REASON_WIDTH = 160


def print_children(listing: Listing, console: Console) -> None:
    """Print the children by downloads, the quants of a repo below its name, and why some cannot be audited.

    Nothing from the Hub is read as markup or reaches the terminal as a control sequence.

    Args:
        listing: The children.
        console: Where it goes.
    """
    base = listing.base
    children = listing.children
    usable = [child for child in children if child.loadable and child.wrong_base is None]
    repos = len({child.repo_id for child in children})
    console.print(Text(f"{clean(base.repo_id)} at {base.revision[:12]}", style="bold"), soft_wrap=True)
    console.print(
        Text(f"{plural(len(children), 'variant')} in {plural(repos, 'repo')}, {len(usable)} of them can be audited"),
        soft_wrap=True,
    )
    reasons = _numbered(children)
    if children:
        console.print()
        console.print(_table(children, reasons))
    for text, mark in reasons.items():
        console.print(Text.assemble((f" {mark} ", "yellow"), sentence(text)), soft_wrap=True)
    for note in listing.notes:
        console.print(Text(f" ! {sentence(clip(clean(note), 2 * _REASON_WIDTH))}"), soft_wrap=True)
    if usable:
        console.print()
        console.print(Text(f"Audit one: hubaudit audit {clean(base.repo_id)} {_reference(usable[0])}"), soft_wrap=True)


def _table(children: list[Child], reasons: dict[str, int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("Variant", no_wrap=True, overflow="ellipsis")
    table.add_column("Kind", no_wrap=True)
    table.add_column("Format", no_wrap=True)
    for heading in ("Bits", "Size", "Downloads"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Head", no_wrap=True)
    table.add_column("", no_wrap=True)
    for repo_id, group in groupby(children, key=lambda child: child.repo_id):
        rows = list(group)
        name = clip(clean(repo_id), _NAME_WIDTH)
        if len(rows) == 1 and rows[0].quant is None:
            table.add_row(Text(name), rows[0].relation, *_cells(rows[0], reasons, downloads=True))
            continue
        table.add_row(Text(name), rows[0].relation, "", "", "", f"{rows[0].downloads:,}", "", "")
        for child in rows:
            label = clip(clean(child.quant or "safetensors"), _NAME_WIDTH - 2)
            table.add_row(Text(f"  {label}"), "", *_cells(child, reasons, downloads=False))
    return table


def _cells(child: Child, reasons: dict[str, int], *, downloads: bool) -> list[Text | str]:
    bits = child.bits_per_weight if child.bits_per_weight is not None else child.bits
    why = _why(child)
    mark = Text("✓", style="green")
    if why is not None:
        sign, style = ("?", "yellow") if child.loadable else ("✗", "dim")
        mark = Text.assemble((sign, style), f" {reasons[why]}")
    return [
        Text(clip(clean(child.format), 18)),
        number(bits),
        size(child.size_bytes),
        f"{child.downloads:,}" if downloads else "",
        Text(_head(child)),
        mark,
    ]


def _head(child: Child) -> str:
    if child.head_type is None:
        return DASH
    return f"{clean(child.head_type)}{' quantized' if child.head_quantized else ''}"


def _why(child: Child) -> str | None:
    """Why it is not audited, in words that children share."""
    text = child.reason if child.reason is not None else child.wrong_base
    if text is None:
        return None
    # Errors begin with the repo's name, which the table shows already.
    return clip(clean(text).removeprefix(f"{child.repo_id}: "), _REASON_WIDTH)


def _numbered(children: list[Child]) -> dict[str, int]:
    """A number for every reason, in order of appearance."""
    found = Counter(text for child in children if (text := _why(child)) is not None)
    return {text: index for index, text in enumerate(found, 1)}


def _reference(child: Child) -> str:
    """The short reference that a user would type."""
    return f"{clean(child.repo_id)}:{clean(child.quant)}" if child.quant else clean(child.repo_id)
