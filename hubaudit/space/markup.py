"""Text from outside as markup of the page: escaped, and without anything that looks like a token."""

from __future__ import annotations

import base64
import html
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hubaudit.progress import time_left
from hubaudit.publish.push import hide_tokens

if TYPE_CHECKING:
    from hubaudit.settings import AuditSettings
    from hubaudit.space.run import Event

__all__ = ["escaped", "figure", "in_code_block", "in_markdown", "links", "picture", "progress", "refused"]


def escaped(text: str) -> str:
    """Text in HTML, also between quotes."""
    return html.escape(hide_tokens(text))


def in_markdown(text: str) -> str:
    """Text in Markdown: no markup of its own, no HTML."""
    return html.escape("".join("\\" + char if char in "\\`*_{}[]()#!|~" else char for char in text))


def in_code_block(text: str) -> str:
    """Text in a code block, which it cannot leave."""
    return text.replace("```", "'''")


def figure(value: object) -> str:
    """A number for a table."""
    if value is None:
        return "undefined"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def links(urls: Iterable[str]) -> str:
    """A list of addresses that open beside the page."""
    items = [f'<li><a href="{escaped(url)}" target="_blank">{escaped(url)}</a></li>' for url in urls]
    return f"<ul>{''.join(items)}</ul>"


def picture(png: bytes, alt: str) -> str:
    """A PNG with what it shows in words."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img class="plot" alt="{escaped(alt)}" src="data:image/png;base64,{data}">'


def progress(step: Event | None, lines: list[str]) -> str:
    """The current step with its bar, and the last lines."""
    parts = []
    if step is not None:
        bar = "<progress></progress>" if step.done is None else f'<progress value="{step.done:.3f}" max="1"></progress>'
        more = f", {100 * step.done:.0f} %" if step.done is not None else ""
        left = step.seconds_left
        more += f", about {time_left(left)} left in this step" if left is not None else ""
        parts.append(f'<p class="progress-text" aria-live="polite">{escaped(step.text)}{more}</p>{bar}')
    parts += [f"<p>{escaped(line)}</p>" for line in lines[-6:]]
    return "".join(parts)


def refused(reason: str, settings: AuditSettings) -> str:
    """Why it does not run here, and the two ways on."""
    words = ["hubaudit", "audit", settings.base, *settings.variants, "--tasks", ",".join(settings.tasks)]
    command = shlex.join([*words, "--contrast", "builtin", "--limit", str(settings.limit)])
    inside = f"pip install 'hubaudit[bnb,gguf,lora]' && {command} && cat audit-report/report.json"
    job = f"hf jobs run --flavor a10g-small --secrets HF_TOKEN python:3.12 {shlex.join(['bash', '-c', inside])}"
    return (
        f"**This audit does not run on this page.** {reason}\n\n"
        f"On your own machine:\n\n```bash\n{in_code_block(command)}\n```\n\n"
        f"As a Hugging Face Job under your own login (it is billed to you):\n\n```bash\n{in_code_block(job)}\n```"
    )
