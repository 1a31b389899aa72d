"""A page that shows an audit: upload a report, read it, take it along as Markdown."""

from __future__ import annotations

import html

import gradio as gr

from hubaudit.errors import InputError
from hubaudit.report.html import to_html
from hubaudit.report.markdown import to_markdown
from hubaudit.report.schema import read_report


def show(path: str | None) -> tuple[str, str]:
    """The uploaded report as a framed page and as Markdown.

    Raises:
        gr.Error: If the file is no report; the message says what was expected.
    """
    if path is None:
        return "", ""
    try:
        report = read_report(path)
    except InputError as exc:
        raise gr.Error(str(exc)) from exc
    # Its own page in a frame without rights of this one: the report's strings come from strangers.
    page = html.escape(to_html(report), quote=True)
    frame = (
        f'<iframe title="Audit report" sandbox="allow-scripts" srcdoc="{page}" style="width:100%;height:80vh"></iframe>'
    )
    return frame, to_markdown(report)


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="hubaudit") as page:
        gr.Markdown("# hubaudit\nUpload a `report.json` to read what quantization changed.")
        upload = gr.File(label="report.json", file_types=[".json"], type="filepath")
        frame = gr.HTML(label="Report")
        with gr.Accordion("As Markdown for a model card", open=False):
            text = gr.Code(label="Markdown", language="markdown")
        upload.change(show, upload, [frame, text])
    return page


if __name__ == "__main__":
    build().launch()
