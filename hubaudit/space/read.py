"""An audit as the page shows it: the report in a frame without rights, files to take along, and a link."""

from __future__ import annotations

import dataclasses
import html
import io
import tempfile
import zipfile
from pathlib import Path

from hubaudit.files import write_file
from hubaudit.report.html import to_html
from hubaudit.report.markdown import to_markdown
from hubaudit.report.plots import drawn
from hubaudit.report.plots.style import png
from hubaudit.report.schema import Report

__all__ = ["Downloads", "downloads", "framed"]


@dataclasses.dataclass(frozen=True)
class Downloads:
    """Files of one audit."""

    json: str
    markdown: str
    plots: str
    """PNG files in a ZIP."""


def framed(report: Report) -> str:
    """The report's own page in a frame that may run its script and nothing else of this page's."""
    page = html.escape(to_html(report), quote=True)
    return (
        '<iframe title="Audit report" sandbox="allow-scripts" referrerpolicy="no-referrer" class="audit" '
        f'srcdoc="{page}"></iframe>'
    )


def downloads(report: Report, audit_id: str) -> Downloads:
    """Write the files of an audit into a temporary folder, from where gradio serves them."""
    folder = Path(tempfile.mkdtemp(prefix="hubaudit-space-"))
    name = f"hubaudit-{audit_id}"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as plots:
        for plot in drawn(report):
            # A fixed date: the same audit gives the same bytes, and gradio keeps one copy.
            plots.writestr(zipfile.ZipInfo(f"{plot.name}.png"), png(plot.draw(report)))
    return Downloads(
        json=str(write_file(folder / f"{name}.json", report.to_json().encode("utf-8"))),
        markdown=str(write_file(folder / f"{name}.md", to_markdown(report).encode("utf-8"))),
        plots=str(write_file(folder / f"{name}-plots.zip", archive.getvalue())),
    )
