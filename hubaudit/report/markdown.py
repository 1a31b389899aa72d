"""A report as Markdown: the page `report.md`, and the section of a model card."""

from __future__ import annotations

from collections.abc import Collection

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hubaudit.errors import InputError
from hubaudit.report.across import across_sentences
from hubaudit.report.causes import cause_sentence
from hubaudit.report.cell import Cell
from hubaudit.report.figures import COLUMNS
from hubaudit.report.overview import LEVELS, VariantView, overview
from hubaudit.report.plots import drawn
from hubaudit.report.schema import Finding, Report
from hubaudit.report.text import markdown, markdown_code, number, size
from hubaudit.resources import bundled

__all__ = ["BEGIN_MARKER", "END_MARKER", "card_section", "to_markdown"]

BEGIN_MARKER = "<!-- hubaudit:begin -->"
END_MARKER = "<!-- hubaudit:end -->"
CARD_PLOT = "size"
"""What a repo of many quants is read for."""

_FINDINGS_SHOWN = ("warning", "notice")


def to_markdown(
    report: Report,
    *,
    specs: Collection[str] | None = None,
    plot_folder: str | None = None,
    heading: str = "#",
) -> str:
    """A report, or the part of it on some variants, as Markdown (GFM).

    Args:
        report: The report.
        specs: References of the variants to show, as in the report; all by default.
        plot_folder: Folder of the PNG plots relative to the page; without it no plot is shown.
        heading: The heading's signs, `#` for a page of its own.

    Returns:
        Text ending in one newline. Everything from outside is escaped: it can neither break the table nor
        start markup, nor hold a marker of the card.

    Raises:
        InputError: If `specs` names no variant of the report.
    """
    return _rendered("section.md.jinja", report, specs, plot_folder, heading)


def card_section(
    report: Report,
    *,
    specs: Collection[str] | None = None,
    plot_folder: str | None = None,
    command: str | None = None,
    report_file: str | None = None,
) -> str:
    """The section of a model card, between its two markers, ending in a newline.

    Args:
        report: The report.
        specs: References of the variants that the card's repo holds; all by default.
        plot_folder: Folder of the PNG plots in the repo; one plot is shown, the others are linked: quality
            against size where the report has it, which is what a repo of many quants is read for.
        command: The command that makes the report again: plain signs only, it is not escaped.
        report_file: Path of report.json in the repo.

    Raises:
        InputError: If `specs` names no variant of the report.
    """
    text = _rendered(
        "card.md.jinja", report, specs, plot_folder, "##", command=command, report_file=report_file, lead=CARD_PLOT
    )
    return f"{BEGIN_MARKER}\n{text}{END_MARKER}\n"


def _rendered(
    template: str,
    report: Report,
    specs: Collection[str] | None,
    plot_folder: str | None,
    heading: str,
    *,
    command: str | None = None,
    report_file: str | None = None,
    lead: str | None = None,
) -> str:
    view = overview(report)
    plots = sorted(drawn(report), key=lambda plot: plot.name != lead) if plot_folder is not None else []
    chosen = [entry for entry in view.ranked if specs is None or entry.report.spec in specs]
    if specs is not None and not chosen:
        known = ", ".join(variant.spec for variant in report.variants) or "none"
        raise InputError(f"none of {sorted(specs)} is a variant of this report; it holds: {known}")
    indices = {entry.index for entry in chosen}
    rows = [row for row in view.rows if row.view.index in indices and row.view.level != "failed"]
    text = (
        _environment()
        .get_template(template)
        .render(
            report=report,
            overview=view,
            levels=LEVELS,
            views=chosen,
            rows=rows,
            causes={entry.index: cause_sentence(entry.report) for entry in chosen},
            columns=COLUMNS,
            show_task=len(view.tasks) > 1,
            findings=_findings(report, chosen[::-1]),
            whole=len(chosen) == len(view.views),
            across=across_sentences(report) if len(chosen) == len(view.views) else [],
            plots=plots,
            plot_folder=plot_folder,
            heading=heading,
            command=command,
            report_file=report_file,
        )
    )
    return text.strip() + "\n"


def _findings(report: Report, variants: list[VariantView]) -> list[tuple[str, list[Finding]]]:
    """Warnings and notices by variant, the worst variant first; those of the whole audit have an empty name.

    Where a variant's drift sits is told once, on its weakest task: the other tasks nearly always agree.
    """
    listed = [("", [found for found in report.findings if found.severity in _FINDINGS_SHOWN])]
    for entry in variants:
        shown = [
            found
            for found in entry.findings
            if found.severity in _FINDINGS_SHOWN and (found in entry.judging or found.task in (None, entry.task))
        ]
        if entry.level != "failed":
            listed.append((entry.label, shown))
    return [(name, shown) for name, shown in listed if shown]


def _cell(cell: Cell) -> str:
    """A table cell: the figure, its mark below the compute floor, its detail."""
    text = markdown(cell.text) + (" †" if cell.below_floor else "")
    return f"{text} ({markdown(cell.detail)})" if cell.detail else text


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(bundled("model_cards")),
        undefined=StrictUndefined,
        # Markdown has an escape of its own: every value passes through one of the filters below.
        autoescape=False,
        keep_trailing_newline=True,
    )
    environment.filters.update(md=markdown, code=markdown_code, cell=_cell, number=number, size=size)
    return environment
