"""A report as one HTML file: no request leaves it, and no string from outside can become markup or code."""

from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hubaudit.report.across import across_sentences
from hubaudit.report.causes import cause_sentence
from hubaudit.report.details import (
    FigureTable,
    answers,
    facts,
    figure_tables,
    floor_meanings,
    floor_rows,
    model_facts,
    ranking_table,
)
from hubaudit.report.engine import engine_table
from hubaudit.report.figures import COLUMNS
from hubaudit.report.overview import LEVELS, Overview, overview
from hubaudit.report.plots import drawn
from hubaudit.report.plots.style import svg
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.structure import structure_table
from hubaudit.report.text import DASH, clean, number, sentence, size

__all__ = ["content_security_policy", "to_html"]

_TEMPLATES = Path(__file__).with_name("templates")
_WIDE, _NARROW = 8.0, 3.7


def to_html(report: Report) -> str:
    """A report as a self-contained page.

    Styles, script and plots are inside. A content security policy allows no request at all and only our own
    script, by its hash; every value is escaped by the template engine.

    Args:
        report: The report.

    Returns:
        The page's text.
    """
    view = overview(report)
    script = (_TEMPLATES / "script.js").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            report=report,
            overview=view,
            levels=LEVELS,
            columns=COLUMNS,
            show_task=len(view.tasks) > 1,
            scale_low=_scale_low(view),
            css=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
            script=Markup(script),
            policy=content_security_policy(script),
            plots=_plots(report),
            tables={entry.index: _tables(entry.report) for entry in view.views},
            causes={entry.index: cause_sentence(entry.report) for entry in view.views},
            answers={entry.index: answers(entry.report) for entry in view.views},
            models={entry.index: model_facts(entry.report.model) for entry in view.views if entry.report.model},
            base=model_facts(report.base),
            ranking=ranking_table(report),
            across=across_sentences(report),
            floor=floor_rows(report),
            floor_meanings=floor_meanings(),
            settings=facts(report.settings),
            surroundings=facts(report.environment),
            seconds=facts({key: f"{value:.1f} s" for key, value in report.seconds.items()}),
        )
    )


def _tables(variant: VariantReport) -> list[FigureTable]:
    more = (engine_table(variant), structure_table(variant))
    return figure_tables(variant) + [table for table in more if table is not None]


def content_security_policy(script: str) -> str:
    """The policy that allows inline styles, embedded images and this one script, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _plots(report: Report) -> list[dict[str, str | Markup]]:
    """Every plot twice, for wide and narrow screens; the style sheet shows one."""
    shown: list[dict[str, str | Markup]] = []
    for plot in drawn(report):
        both = [
            svg(plot.draw(report, width=width), name=f"{plot.name}-{kind}", alt=plot.alt, css_class=f"plot {kind}")
            for kind, width in (("wide", _WIDE), ("narrow", _NARROW))
        ]
        # matplotlib escapes every text that it writes, and `svg` the alt text.
        markup = Markup("".join(both))
        shown.append({"name": plot.name, "title": plot.title, "caption": plot.caption, "svg": markup})
    return shown


def _scale_low(view: Overview) -> float:
    """Left end of the agreement bars: the tenth below the lowest interval."""
    lows = [row.cells["agreement"].interval for row in view.rows]
    lowest = min((interval[0] for interval in lows if interval is not None), default=0.0)
    return max(0.0, math.floor(min(lowest, 0.95) * 10) / 10)


def _without_control_characters(value: object) -> object:
    """What the engine prints in place of a value; our own markup passes as it is."""
    return clean(value, keep_newlines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_without_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clean=clean, number=number, sentence=sentence, size=size)
    environment.globals.update(DASH=DASH)
    return environment
