"""The page's parts, their labels, and which of the app's functions each of them calls."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import gradio as gr

from hubaudit.modules.install import METRICS, metric_folder
from hubaudit.progress import time_left
from hubaudit.space.app import SpaceApp
from hubaudit.space.find import COLUMNS, TASKS

__all__ = ["build", "launch_options", "queued"]

_CSS = """
iframe.audit { width: 100%; height: 85vh; border: 1px solid var(--border-color-primary); border-radius: 8px; }
.progress-line progress { appearance: none; width: 100%; height: 0.75rem; border: 0; border-radius: 6px;
  background: var(--border-color-primary); overflow: hidden; }
.progress-line progress::-webkit-progress-bar { background: var(--border-color-primary); }
.progress-line progress::-webkit-progress-value { background: var(--color-accent); }
.progress-line progress::-moz-progress-bar { background: var(--color-accent); }
@media (max-width: 480px) { .tab-container button { padding-inline: 8px !important; } }
img.plot { max-width: 100%; background: white; border-radius: 8px; }
footer { display: none !important; }
"""
_TITLE = "hubaudit: what did quantization change?"
_INTRO = """# hubaudit

**What did quantization or fine-tuning change in a model?** Accuracy can stay while many answers change. An audit
compares each variant with its base: which answers changed, how far the risk can be from the base's and what part
drifted, and whether internal directions turned, each with its interval and its noise floor.
"""


def build(app: SpaceApp) -> gr.Blocks:
    """The page, not yet launched."""
    # No page of ours tells gradio's makers that it was opened.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    metric_pages = {name: _metric_page(name) for name in METRICS}
    with gr.Blocks(title=_TITLE, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.Markdown(_INTRO)
        current = gr.State(None)
        with gr.Tabs(selected="read") as tabs:
            with gr.Tab("Read", id="read"):
                shown, frame = _read_tab(app, current)
            with gr.Tab("Audit", id="find"):
                _find_tab(app, current, tabs)
            with gr.Tab("Compare", id="compare"):
                _compare_tab(app)
            with gr.Tab("Metrics", id="metrics"), gr.Tabs():
                for name, metric_page in metric_pages.items():
                    with gr.Tab(name, id=name):
                        metric_page.render()
        page.load(app.opened, None, [shown, current, frame], api_visibility="private")
    return page


def _read_tab(app: SpaceApp, current: gr.State) -> tuple[gr.Dropdown, gr.HTML]:
    chosen = gr.Dropdown([], label="Stored audits", info="Newest first", interactive=True)
    link = gr.HTML()
    frame = gr.HTML("<p>Loading the audit.</p>", label="Audit report")
    with gr.Row():
        as_json = gr.DownloadButton("Download JSON", visible=False)
        as_markdown = gr.DownloadButton("Download Markdown", visible=False)
        as_png = gr.DownloadButton("Download plots (PNG in ZIP)", visible=False)
    with gr.Accordion("Show a report.json from your computer", open=False):
        file = gr.File(label="report.json", file_types=[".json"], type="filepath")
        own = gr.HTML()
        file.upload(app.upload, file, own, api_visibility="private")
    with gr.Accordion("Publish to the model's card", open=False):
        diff = _publish_section(app, current)
    chosen.input(lambda audit_id: audit_id, chosen, current, api_visibility="private")
    outputs = [frame, link, as_json, as_markdown, as_png, diff]
    current.change(app.show, current, outputs, api_visibility="private")
    current.change(app.listed, current, chosen, api_visibility="private")
    return chosen, frame


def _publish_section(app: SpaceApp, current: gr.State) -> gr.Code:
    gr.Markdown(
        "A pull request adds the figures to the card of each audited repo: metadata, a section between markers, "
        "the report and its plots. The owner of the repo decides. Look at the preview first."
    )
    repo = gr.Textbox(label="Repo", placeholder="ORG/NAME; empty for all repos of the audit")
    with gr.Row():
        look = gr.Button("Preview")
        if app.sign_in:
            gr.LoginButton()
        go = gr.Button("Open the pull request", variant="primary", interactive=False)
    if not app.sign_in:
        who = "with the token of this machine's user" if app.own_token else "not possible on this page"
        gr.Markdown(f"Opening pull requests: {who}. In a shell: `hubaudit publish REPORT --yes`.")
    diff = gr.Code(label="Preview", language=None, lines=6, max_lines=24, wrap_lines=True)
    outcome = gr.HTML()
    seen = gr.State(None)
    look.click(app.previewed, [current, repo], [diff, go, seen], api_visibility="private")
    go.click(app.published, [current, repo, seen], outcome, api_visibility="private")
    return diff


def _find_tab(app: SpaceApp, current: gr.State, tabs: gr.Tabs) -> None:
    found, planned = gr.State(None), gr.State(None)
    gr.Markdown(
        f"Models of up to {app.limits.max_parameters / 1e6:,.0f} million parameters that fit into "
        f"{app.limits.memory_bytes / 1e9:.0f} GB run here, for {time_left(app.limits.max_seconds)} at most. For "
        "larger ones the plan gives the command and a Job."
    )
    base = gr.Dropdown(
        [],
        label="Base model",
        info="Type two letters or more to search the Hub, or a whole id: ORG/NAME",
        allow_custom_value=True,
        interactive=True,
        value=None,
    )
    find = gr.Button("Find its variants", variant="primary")
    said = gr.Markdown()
    table = gr.Dataframe(
        headers=list(COLUMNS), label="Variants on the Hub", visible=False, interactive=False, wrap=True
    )
    variants = gr.CheckboxGroup([], label=f"Variants to audit (at most {app.limits.max_variants})", visible=False)
    with gr.Column(visible=False) as choices:
        tasks = gr.CheckboxGroup([(label, name) for name, label in TASKS.items()], value=["builtin"], label="Tasks")
        limit = gr.Slider(
            4, app.limits.max_items, value=min(50, app.limits.max_items), step=1, label="Items of each task"
        )
        look = gr.Button("Show the plan")
    plan = gr.Markdown(visible=False)
    with gr.Row(visible=False) as buttons:
        run = gr.Button("Run the audit", variant="primary", interactive=False)
        stop = gr.Button("Cancel", variant="stop")
    progress = gr.HTML(elem_classes="progress-line")
    quietly: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    base.key_up(app.suggest, None, base, trigger_mode="always_last", **quietly)
    outputs = [found, said, table, variants, choices, plan, run, buttons, planned]
    find.click(app.find, base, outputs, api_visibility="private")
    look.click(app.plan, [found, variants, tasks, limit], [plan, run, planned], api_visibility="private")
    run.click(
        app.run,
        [found, variants, tasks, limit, planned],
        [progress, current, tabs],
        # Audits themselves run one at a time; those that wait can be cancelled, too.
        concurrency_limit=app.limits.max_waiting + 2,
        show_progress="hidden",
        api_visibility="private",
    )
    stop.click(app.stop, None, progress, queue=False, api_visibility="private")


def _compare_tab(app: SpaceApp) -> None:
    gr.Markdown(
        "Two files of predictions of the same items: lm-eval's `samples_*.jsonl`, JSON, JSON Lines or CSV with id, "
        "prediction and reference. No model runs."
    )
    with gr.Row():
        one = gr.File(label="The base's answers", type="filepath")
        two = gr.File(label="The variant's answers", type="filepath")
    go = gr.Button("Compare", variant="primary")
    figures = gr.Dataframe(headers=["Figure", "Value"], label="Correctness agreement", interactive=False)
    plot = gr.HTML(label="Answers that changed")
    raw = gr.JSON(label="As JSON")
    go.click(app.compare, [one, two], [figures, plot, raw], api_visibility="private")


def queued(app: SpaceApp) -> gr.Blocks:
    """The page with its queue: bounded, and light events never wait for one another."""
    return build(app).queue(max_size=200, default_concurrency_limit=8)


def launch_options(app: SpaceApp) -> dict[str, Any]:
    """What `launch` needs beside address and port."""
    return {
        "css": _CSS,
        "theme": gr.themes.Default(primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["monospace"]),
        "max_file_size": app.limits.max_upload_bytes,
        "footer_links": [],
        "show_error": False,
    }


def _metric_page(name: str) -> gr.Blocks:
    """The page that the metric's own Space shows."""
    path = metric_folder(name) / "app.py"
    spec = importlib.util.spec_from_file_location(f"hubaudit_metric_app_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page: gr.Blocks = module.demo
    return page
