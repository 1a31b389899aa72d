"""The gradio page that each metric's Space shows: paste or upload, compute, read the table and the plot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubaudit.errors import HubAuditError, InputError
from hubaudit.modules.uploads import read_text, read_upload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Option", "Page", "figure_of"]


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting of the metric that the page offers."""

    name: str
    label: str
    default: float | str
    choices: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
    """What one metric's page shows.

    Args:
        metric: Its class, as evaluate loads it.
        title: Heading.
        intro: Markdown under it: what to give, and in which form.
        example: Text in the input field at first, which computes.
        headline: Keys that stand first in the table.
        draw: Makes the plot of a result.
        arrays: Inputs that are not one entry a row, such as heads.
        options: Settings that the page offers.
    """

    metric: type[Any]
    title: str
    intro: str
    example: str
    headline: Sequence[str]
    draw: Callable[[Mapping[str, Any]], Figure]
    arrays: Sequence[str] = ()
    options: Sequence[Option] = ()

    def compute(self, text: str, upload: str | None, *values: Any) -> tuple[list[list[str]], Figure, dict[str, Any]]:
        """Compute what the page shows.

        Args:
            text: Pasted JSON or CSV; unused where a file is given.
            upload: Path of the uploaded file.
            *values: One value for each of `options`.

        Returns:
            Rows (key, value, note) of the table, the plot, and the result as it is.

        Raises:
            InputError: For everything that a visitor can correct.
        """
        inputs = read_upload(Path(upload)) if upload else read_text(text)
        allowed = [column.name for column in self.metric.columns] + list(self.arrays)
        if unknown := [name for name in inputs if name not in allowed]:
            raise InputError(f"expected inputs among {', '.join(allowed)}, got {', '.join(unknown)}; rename or drop")
        # A field that was cleared holds None.
        given = zip(self.options, values, strict=True)
        options = {option.name: option.default if value is None else value for option, value in given}
        # An instance a request: it holds the rows while it computes.
        result = self.metric().compute(**inputs, **options)
        return self._table(result), self.draw(result), result

    def blocks(self) -> Any:
        """The page as gradio's Blocks, not yet launched."""
        import gradio as gr

        def shown(text: str, upload: str | None, *values: Any) -> tuple[Any, Any, Any]:
            try:
                return self.compute(text, upload, *values)
            except HubAuditError as exc:
                raise gr.Error(str(exc), print_exception=False) from exc

        with gr.Blocks(title=self.title, analytics_enabled=False) as page:
            gr.Markdown(f"# {self.title}\n\n{self.intro}")
            with gr.Row():
                with gr.Column():
                    text = gr.Textbox(self.example, label="Paste JSON or CSV", lines=12)
                    upload = gr.File(label="or upload a .json, .csv or .npz file", file_types=[".json", ".csv", ".npz"])
                    settings = [_widget(gr, option) for option in self.options]
                    button = gr.Button("Compute", variant="primary")
                with gr.Column():
                    table = gr.Dataframe(headers=["figure", "value", "note"], label="Result", wrap=True)
                    plot = gr.Plot(label="Plot")
                    raw = gr.JSON(label="As JSON")
            button.click(shown, [text, upload, *settings], [table, plot, raw], api_visibility="private")
        return page

    def _table(self, result: Mapping[str, Any]) -> list[list[str]]:
        notes = {**result.get("notes", {}), **result["reasons"]}
        rest = [key for key in result if key not in self.headline and key not in ("notes", "reasons")]
        return [[key, _shown(result[key]), notes.get(key, "")] for key in [*self.headline, *rest]]


def figure_of(
    values: Mapping[str, float | None],
    *,
    xlabel: str,
    intervals: Mapping[str, tuple[float | None, float | None]] | None = None,
    lines: Mapping[str, float | None] | None = None,
) -> Figure:
    """A dot for each value, with its interval, and dashed reference lines.

    Args:
        values: Values by their names; those that are None are left out.
        xlabel: What the axis measures, with its unit.
        intervals: Lower and upper end by the values' names.
        lines: Reference values by their names.

    Returns:
        The figure, without a window or global state.
    """
    from matplotlib.figure import Figure

    known = {name: value for name, value in values.items() if value is not None}
    figure = Figure(figsize=(7, 1.2 + 0.45 * max(1, len(known))), layout="constrained")
    axes = figure.subplots()
    for row, (name, value) in enumerate(known.items()):
        low, high = (intervals or {}).get(name, (None, None))
        if low is not None and high is not None:
            axes.plot([low, high], [row, row], color="tab:blue", linewidth=2)
        axes.plot([value], [row], "o", color="tab:blue")
    for style, (name, reference) in zip(("--", ":", "-."), (lines or {}).items(), strict=False):
        if reference is not None:
            axes.axvline(reference, linestyle=style, color="tab:gray", label=name)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small")
    axes.set_yticks(range(len(known)), list(known))
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.set_xlabel(xlabel)
    return figure


def _widget(gr: Any, option: Option) -> Any:
    if option.choices is not None:
        return gr.Dropdown(list(option.choices), value=option.default, label=option.label)
    return gr.Number(option.default, label=option.label)


def _shown(value: Any) -> str:
    if value is None:
        return "undefined"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
