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
from hubaudit.hub.discover import choose
from hubaudit.report.text import DASH, clean, clip, number, plural, sentence, size

__all__ = ["print_children"]

_LEAST_TELLING = ("Kind", "Downloads", "Bits", "Head")
_RIGHT = ("Bits", "Size", "Downloads")
_LEAST_NAME, _SHORTEST_NAME = 30, 12
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
        console.print(_table(children, reasons, console.width))
        if any(child.head_quantized for child in children):
            console.print(Text(" * the output head is quantized", style="dim"), soft_wrap=True)
    for text, mark in reasons.items():
        console.print(Text.assemble((f" {mark} ", "yellow"), sentence(text)), soft_wrap=True)
    for note in listing.notes:
        console.print(Text(f" ! {sentence(clip(clean(note), 2 * _REASON_WIDTH))}"), soft_wrap=True)
    chosen = choose(listing, max_variants=1).chosen
    example = next((child for child in usable if child.spec in chosen), None)
    if example is not None:
        console.print()
        console.print(Text(f"Audit one: hubaudit audit {clean(base.repo_id)} {_reference(example)}"), soft_wrap=True)


def _table(children: list[Child], reasons: dict[str, int], width: int) -> Table:
    """One row a variant; columns that have no room are left out, and long names are cut in their middle."""
    rows = []
    for repo_id, group in groupby(children, key=lambda child: child.repo_id):
        entries = list(group)
        if len(entries) == 1 and entries[0].quant is None:
            rows.append((clean(repo_id), _cells(entries[0], reasons)))
            continue
        first = entries[0]
        heading = dict.fromkeys(_cells(first, reasons), Text())
        rows.append(
            (clean(repo_id), heading | {"Kind": Text(first.relation), "Downloads": Text(f"{first.downloads:,}")})
        )
        for child in entries:
            unrepeated = {"Kind": Text(), "Downloads": Text()}
            rows.append((f"  {clean(child.quant or child.format)}", _cells(child, reasons) | unrepeated))
    longest = max(len(name) for name, _ in rows)
    widths = {key: max(len(key), *(cells[key].cell_len for _, cells in rows)) + 2 for key in rows[0][1]}
    for key in _LEAST_TELLING:
        if width - sum(widths.values()) < min(longest, _LEAST_NAME):
            del widths[key]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("Variant", no_wrap=True, overflow="ellipsis")
    for key in widths:
        table.add_column(key, justify="right" if key in _RIGHT else "left", no_wrap=True)
    room = max(_SHORTEST_NAME, min(longest, width - sum(widths.values()) - 1))
    for name, cells in rows:
        table.add_row(Text(clip(name, room)), *(cells[key] for key in widths))
    return table


def _cells(child: Child, reasons: dict[str, int]) -> dict[str, Text]:
    bits = child.bits_per_weight if child.bits_per_weight is not None else child.bits
    why = _why(child)
    mark = Text("✓", style="green")
    if why is not None:
        sign, style = ("?", "yellow") if child.loadable else ("✗", "red")
        mark = Text.assemble((sign, style), f" {reasons[why]}")
    head = Text(DASH)
    if child.head_type is not None:
        # Only where the head is quantized can it drift.
        head = Text(clip(clean(child.head_type), 16), style="yellow" if child.head_quantized else "")
        if child.head_quantized:
            head.append(" *")
    return {
        "Audit": mark,
        "Kind": Text(child.relation),
        "Format": Text(clip(clean(child.format), 18)),
        "Bits": Text(number(bits)),
        "Size": Text(size(child.size_bytes)),
        "Downloads": Text(f"{child.downloads:,}"),
        "Head": head,
    }


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
