"""The page: gradio's components and what happens when they are used."""

from __future__ import annotations

import base64
import dataclasses
import functools
import html
import importlib
import importlib.util
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr

from hubaudit.agree import agree
from hubaudit.agree_view import agreement_plot
from hubaudit.ahead import Ahead
from hubaudit.errors import HubAuditError, InputError
from hubaudit.forecast import GPU_SPEED, Forecast, gpu_seconds
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.hub.repo_files import list_files, weight_bytes
from hubaudit.modules.install import METRICS, metric_folder
from hubaudit.progress import time_left
from hubaudit.publish.push import hide_tokens
from hubaudit.report.plots.style import png
from hubaudit.report.schema import Report, read_report
from hubaudit.resources import bundled
from hubaudit.settings import AuditSettings
from hubaudit.space.disk import keep_within
from hubaudit.space.find import COLUMNS, TASKS, Found, find_variants, make_settings, search_models
from hubaudit.space.limits import Limits, store_folder
from hubaudit.space.publish import open_requests, preview
from hubaudit.space.read import downloads, framed
from hubaudit.space.run import Event, audit_events
from hubaudit.space.store import AuditStore

__all__ = ["CSS", "SpaceApp", "launch_options", "queued"]

CSS = """
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
_LONGEST_LOAN = 300
"""Seconds that ZeroGPU lends a GPU for, at most."""
_ZERO_GPU = bool(os.environ.get("SPACES_ZERO_GPU"))
_ANSWERED = "Answers that changed"


@dataclasses.dataclass(frozen=True)
class Planned:
    """An audit that a plan allowed; it stays on the server."""

    settings: AuditSettings
    forecast: Forecast


class SpaceApp:
    """One server's page: its store, its limits, and the audits that run."""

    def __init__(self, store: AuditStore, limits: Limits, *, sign_in: bool = False, own_token: bool = False) -> None:
        """Serve from a store within limits.

        Args:
            store: Where audits are.
            limits: What a visitor may ask for.
            sign_in: Whether visitors sign in with the Hub to publish: on a Space with OAuth.
            own_token: Whether this machine's token publishes: where only its user reaches the page.
        """
        self.store = store
        self.limits = limits
        self.sign_in = sign_in
        self.own_token = own_token
        self._stops: dict[str, threading.Event] = {}
        self._files = functools.lru_cache(maxsize=64)(lambda audit_id: downloads(self.store.load(audit_id), audit_id))
        self._framed = functools.lru_cache(maxsize=32)(lambda audit_id: framed(self.store.load(audit_id)))

    @classmethod
    def from_environment(cls, *, own_token: bool = False) -> SpaceApp:
        """The app as the environment configures it; the audits that come with the program are shown at once.

        Args:
            own_token: Whether only this machine's user reaches the page. Otherwise nothing is read from the Hub with
                the server's own token from now on: visitors have their own rights.
        """
        limits = Limits.from_environment()
        store = AuditStore(
            store_folder(),
            bundled=bundled("spaces") / "hubaudit" / "audits",
            dataset=os.environ.get("HUBAUDIT_SPACE_DATASET"),
            max_stored=limits.max_stored,
        )
        Ahead(store.fetch_from_dataset)
        if not own_token:
            from huggingface_hub import constants

            constants.HF_HUB_DISABLE_IMPLICIT_TOKEN = True
        app = cls(store, limits, sign_in=bool(os.environ.get("OAUTH_CLIENT_ID")), own_token=own_token)
        for entry in store.list()[:1]:
            app.show(entry.audit_id)  # drawn before the first visitor comes
        return app

    # ---- find -------------------------------------------------------------------------------------------------

    def suggest(self, typed: gr.KeyUpData) -> Any:
        """Ids that match what is typed."""
        return gr.update(choices=search_models(str(typed.input_value or "")))

    def find(self, base: str | None) -> tuple[Any, ...]:
        """The variants of a base."""
        with _told():
            found = find_variants(base or "", self.store)
        size = f", {found.n_parameters / 1e6:,.1f} million parameters" if found.n_parameters else ""
        said = [f"**{_plain(found.base)}** at `{found.revision[:8]}`{size}: {len(found.rows)} variants on the Hub."]
        said += [_plain(note) for note in found.notes]
        stored = [f"- [{_plain(entry.title)}](?audit={entry.audit_id})" for entry in self.store.of(found.base)]
        if stored:
            said.append("Stored audits of this base:\n" + "\n".join(stored[:5]))
        first = [label for label, spec in found.choices.items() if spec == "bnb:nf4"]
        return (
            found,
            "\n\n".join(said),
            gr.update(value=found.rows, visible=True),
            gr.update(choices=list(found.choices), value=first, visible=True),
            gr.update(visible=True),
            gr.update(value="", visible=True),
            gr.update(interactive=False),
            gr.update(visible=True),
            None,
        )

    def plan(self, found: Found | None, variants: list[str], tasks: list[str], limit: float) -> tuple[Any, ...]:
        """What would run and how long it would take, or why it does not run here and what to do then."""
        from hubaudit.pipeline import Pipeline
        from hubaudit.progress import Silent

        with _told():
            settings = self._settings(found, variants, tasks, limit)
            assert found is not None
            reason = self.limits.refusal(found.n_parameters, 2) if found.n_parameters else None
            reason = reason or self._too_much_to_download(found, variants)
            forecast = None
            if reason is None:
                # In ZeroGPU's main process there is no GPU to measure, and no GPU's speed to be had by measuring.
                forecast = Pipeline(settings, Silent()).forecast(speed=GPU_SPEED if _ZERO_GPU else None)
                reason = self.limits.refusal(forecast.n_parameters, 4 if forecast.dtype == "float32" else 2)
                if reason is None and forecast.seconds > self.limits.max_seconds:
                    reason = (
                        f"This would take about {time_left(forecast.seconds)}; an audit here may take "
                        f"{time_left(self.limits.max_seconds)}. Choose fewer items or variants, or run it elsewhere."
                    )
        if reason is not None or forecast is None:
            return _refused(reason or "", settings), gr.update(interactive=False), None
        limits = (
            f"\nlimits   {self.limits.max_parameters / 1e6:,.0f} million parameters, "
            f"{self.limits.memory_bytes / 1e9:.1f} GB, {time_left(self.limits.max_seconds)}"
        )
        text = f"```text\n{_plain_code(forecast.text() + limits)}\n```"
        return text, gr.update(interactive=True), Planned(settings, forecast)

    def _settings(self, found: Found | None, variants: list[str], tasks: list[str], limit: float) -> AuditSettings:
        if found is None:
            raise InputError("find a model's variants first")
        return make_settings(found, variants, tasks, limit, limits=self.limits, store=self.store)

    def _too_much_to_download(self, found: Found, variants: list[str]) -> str | None:
        size = weight_bytes(list_files(found.base, found.revision))
        size += sum(found.sizes.get(found.choices[label], 0) for label in variants)
        if size <= self.limits.max_download_bytes:
            return None
        most = self.limits.max_download_bytes / 1e9
        return f"The chosen models have {size / 1e9:.1f} GB of weights; this page downloads at most {most:.1f} GB."

    # ---- run --------------------------------------------------------------------------------------------------

    def run(
        self,
        found: Found | None,
        variants: list[str],
        tasks: list[str],
        limit: float,
        planned: Planned | None,
        request: gr.Request,
    ) -> Iterator[tuple[Any, ...]]:
        """Run the audit that was planned, tell its steps, and show the result."""
        with _told():
            # What the page greys out, a request can send all the same: only what a plan allowed runs.
            if planned is None or planned.settings != self._settings(found, variants, tasks, limit):
                raise InputError("the choices are not those of the plan; show the plan again")
            if len(self._stops) > self.limits.max_waiting:
                raise InputError(f"{len(self._stops)} audits wait already; try again later")
        session = request.session_hash or ""
        if (earlier := self._stops.get(session)) is not None:
            earlier.set()
        stop = self._stops[session] = threading.Event()
        lines: list[str] = []
        nothing = (gr.skip(),) * 2
        step = Event(kind="step", text="starting")
        yield _progress(step, lines), *nothing
        try:
            for event in self._events(planned, stop):
                if event.kind == "report":
                    yield self._finished(event, lines)
                    continue
                if event.kind == "step":
                    step = event
                else:
                    lines.append(event.text)
                yield _progress(None if event.kind == "error" else step, lines), *nothing
        finally:
            if self._stops.get(session) is stop:
                del self._stops[session]

    def _events(self, planned: Planned, stop: threading.Event) -> Iterator[Event]:
        """The audit's events; on ZeroGPU from the process that holds the GPU."""
        if not _ZERO_GPU:
            yield from audit_events(
                planned.settings,
                stop,
                max_seconds=self.limits.max_seconds,
                keep=self._keep,
                afterwards=lambda: keep_within(self.store.folder / "work", self.limits.max_disk_bytes),
            )
            return
        try:
            # A GPU is lent for seconds: what can be fetched is fetched before.
            base = resolve_base(planned.settings.base)
            for spec in planned.settings.variants:
                resolve_variant(spec, base)
        except HubAuditError as exc:
            yield Event(kind="error", text=hide_tokens(str(exc)))
            return
        for event in on_gpu(planned.settings, int(min(_LONGEST_LOAN, gpu_seconds(planned.forecast)))):
            yield dataclasses.replace(event, audit_id=self._keep(event.report)) if event.report else event
            if stop.is_set():  # it cannot cross into the GPU's process; closing the stream can
                yield Event(kind="error", text="the audit was stopped; on this page's GPU nothing of it is kept")
                return

    def _keep(self, report: Report) -> str | None:
        """Store an audit of which something is finished."""
        if not any(variant.status == "done" for variant in report.variants):
            return None
        entry = self.store.save(report)
        if trouble := self.store.copy_to_dataset(entry):
            print(f"audit {entry.audit_id} was not copied: {trouble}", file=sys.stderr)
        return entry.audit_id

    def stop(self, request: gr.Request) -> str:
        """Stop this visitor's audit after the current batch."""
        event = self._stops.get(request.session_hash or "")
        if event is None:
            return "<p>Nothing is running.</p>"
        event.set()
        return "<p>Stopping after the current batch; variants that are finished are kept.</p>"

    def _finished(self, event: Event, lines: list[str]) -> tuple[Any, ...]:
        assert event.report is not None
        variants = event.report.variants
        done = sum(variant.status == "done" for variant in variants)
        said = [*lines, f"{done} of {len(variants)} variants are finished."]
        if event.audit_id is None:
            return _progress(None, said), gr.skip(), gr.skip()
        link = f'<p>Stored. <a href="?audit={event.audit_id}">Open this audit</a>; the link stays valid.</p>'
        return _progress(None, said) + link, event.audit_id, gr.Tabs(selected="read")

    # ---- read -------------------------------------------------------------------------------------------------

    def opened(self, request: gr.Request) -> tuple[Any, ...]:
        """What a visitor sees first: the audit that the address names, else the newest one."""
        wanted = request.query_params.get("audit")
        entries = self.store.list()
        choices = [(entry.title, entry.audit_id) for entry in entries]
        known = {entry.audit_id for entry in entries}
        shown = wanted if wanted in known else (entries[0].audit_id if entries else None)
        if wanted and wanted not in known:
            gr.Warning("There is no audit with this link here; it may have been removed.")
        frame = gr.skip() if shown else "<p>No audit yet. Find a model and run one.</p>"
        return gr.update(choices=choices, value=shown), shown, frame

    def listed(self, audit_id: str | None) -> Any:
        """The list of audits, with a new one in it."""
        return gr.update(choices=[(entry.title, entry.audit_id) for entry in self.store.list()], value=audit_id)

    def show(self, audit_id: str | None) -> tuple[Any, ...]:
        """An audit by its id."""
        if not audit_id:
            return "<p>No audit yet. Find a model and run one.</p>", "", *(gr.update(visible=False),) * 3, ""
        with _told():
            page, files = self._framed(audit_id), self._files(audit_id)
        link = f'<p><a href="?audit={audit_id}">Link to this audit</a></p>'
        return (
            page,
            link,
            gr.update(value=files.json, visible=True),
            gr.update(value=files.markdown, visible=True),
            gr.update(value=files.plots, visible=True),
            "",
        )

    def upload(self, path: str | None) -> Any:
        """A report from a visitor's machine: shown to them alone, not stored."""
        if path is None:
            return gr.skip()
        with _told():
            return framed(read_report(path))

    # ---- publish ----------------------------------------------------------------------------------------------

    def previewed(self, audit_id: str | None, repo: str, oauth_token: gr.OAuthToken | None) -> tuple[Any, ...]:
        """What a pull request would change."""
        with _told():
            if not audit_id:
                raise InputError("open an audit first")
            token = self._token(oauth_token)
            found = preview(self.store.load(audit_id), repo, token)
        return found.text, gr.update(interactive=found.has_changes and token is not None), (audit_id, repo)

    def published(
        self, audit_id: str | None, repo: str, seen: tuple[str, str] | None, oauth_token: gr.OAuthToken | None
    ) -> str:
        """Open the pull requests with the visitor's token."""
        with _told():
            token = self._token(oauth_token)
            if not audit_id or token is None or seen != (audit_id, repo):
                raise InputError("sign in and look at the preview of this audit and repo first")
            done = open_requests(self.store.load(audit_id), repo, token)
        if not done:
            return "<p>There was nothing to change.</p>"
        links = [f'<li><a href="{_attribute(one.url)}" target="_blank">{_text(one.url)}</a></li>' for one in done]
        return "<p>Opened:</p><ul>" + "".join(links) + "</ul>"

    def _token(self, oauth_token: gr.OAuthToken | None) -> str | None:
        """The visitor's token, which no one else can use."""
        if oauth_token is not None:
            return str(oauth_token.token)
        if self.own_token:
            from huggingface_hub import get_token

            return get_token()
        return None

    # ---- compare ----------------------------------------------------------------------------------------------

    def compare(self, base: str | None, variant: str | None) -> tuple[Any, Any, Any]:
        """Correctness agreement of two files of predictions."""
        with _told():
            if not base or not variant:
                raise InputError("upload two files: the base's answers and the variant's")
            for path in (base, variant):
                if Path(path).stat().st_size > self.limits.max_upload_bytes:
                    raise InputError(f"a file may have at most {self.limits.max_upload_bytes / 1e6:.0f} MB")
            found = agree(Path(base), Path(variant))
        # The names that the visitor knows, not the places where uploads lie.
        everything = {**found.to_dict(), "base": Path(base).name, "variant": Path(variant).name}
        figures = everything["correctness_agreement"]
        rows = [[key, _figure(value)] for key, value in figures.items() if isinstance(value, int | float | None)]
        counts = found.counts
        alt = (
            f"Bar of all items: {counts.kept} right answers kept, {counts.lost} lost, {counts.gained} gained, "
            f"{counts.changed_wrong} wrong answers changed, {counts.same_wrong} wrong and unchanged"
        )
        picture = base64.b64encode(png(agreement_plot(found))).decode("ascii")
        image = f'<img class="plot" alt="{_attribute(alt)}" src="data:image/png;base64,{picture}">'
        return rows, image, everything

    # ---- layout -----------------------------------------------------------------------------------------------

    def build(self) -> gr.Blocks:
        """The page, not yet launched."""
        # No page of ours tells gradio's makers that it was opened.
        os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
        metric_pages = {name: _metric_page(name) for name in METRICS}
        with gr.Blocks(title=_TITLE, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
            gr.Markdown(_INTRO)
            current = gr.State(None)
            with gr.Tabs(selected="read") as tabs:
                with gr.Tab("Read", id="read"):
                    shown, frame = self._read_tab(current)
                with gr.Tab("Audit", id="find"):
                    self._find_tab(current, tabs)
                with gr.Tab("Compare", id="compare"):
                    self._compare_tab()
                with gr.Tab("Metrics", id="metrics"), gr.Tabs():
                    for name, metric_page in metric_pages.items():
                        with gr.Tab(name, id=name):
                            metric_page.render()
            page.load(self.opened, None, [shown, current, frame], api_visibility="private")
        return page

    def _read_tab(self, current: gr.State) -> tuple[gr.Dropdown, gr.HTML]:
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
            file.upload(self.upload, file, own, api_visibility="private")
        with gr.Accordion("Publish to the model's card", open=False):
            diff = self._publish_section(current)
        chosen.input(lambda audit_id: audit_id, chosen, current, api_visibility="private")
        outputs = [frame, link, as_json, as_markdown, as_png, diff]
        current.change(self.show, current, outputs, api_visibility="private")
        current.change(self.listed, current, chosen, api_visibility="private")
        return chosen, frame

    def _publish_section(self, current: gr.State) -> gr.Code:
        gr.Markdown(
            "A pull request adds the figures to the card of each audited repo: metadata, a section between markers, "
            "the report and its plots. The owner of the repo decides. Look at the preview first."
        )
        repo = gr.Textbox(label="Repo", placeholder="ORG/NAME; empty for all repos of the audit")
        with gr.Row():
            look = gr.Button("Preview")
            if self.sign_in:
                gr.LoginButton()
            go = gr.Button("Open the pull request", variant="primary", interactive=False)
        if not self.sign_in:
            who = "with the token of this machine's user" if self.own_token else "not possible on this page"
            gr.Markdown(f"Opening pull requests: {who}. In a shell: `hubaudit publish REPORT --yes`.")
        diff = gr.Code(label="Preview", language=None, lines=6, max_lines=24, wrap_lines=True)
        outcome = gr.HTML()
        seen = gr.State(None)
        look.click(self.previewed, [current, repo], [diff, go, seen], api_visibility="private")
        go.click(self.published, [current, repo, seen], outcome, api_visibility="private")
        return diff

    def _find_tab(self, current: gr.State, tabs: gr.Tabs) -> None:
        found, planned = gr.State(None), gr.State(None)
        gr.Markdown(
            f"Models of up to {self.limits.max_parameters / 1e6:,.0f} million parameters that fit into "
            f"{self.limits.memory_bytes / 1e9:.0f} GB run here, for {time_left(self.limits.max_seconds)} at most. For "
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
        variants = gr.CheckboxGroup([], label=f"Variants to audit (at most {self.limits.max_variants})", visible=False)
        with gr.Column(visible=False) as choices:
            tasks = gr.CheckboxGroup([(label, name) for name, label in TASKS.items()], value=["builtin"], label="Tasks")
            limit = gr.Slider(
                4, self.limits.max_items, value=min(50, self.limits.max_items), step=1, label="Items of each task"
            )
            look = gr.Button("Show the plan")
        plan = gr.Markdown(visible=False)
        with gr.Row(visible=False) as buttons:
            run = gr.Button("Run the audit", variant="primary", interactive=False)
            stop = gr.Button("Cancel", variant="stop")
        progress = gr.HTML(elem_classes="progress-line")
        quietly: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        base.key_up(self.suggest, None, base, trigger_mode="always_last", **quietly)
        outputs = [found, said, table, variants, choices, plan, run, buttons, planned]
        find.click(self.find, base, outputs, api_visibility="private")
        look.click(self.plan, [found, variants, tasks, limit], [plan, run, planned], api_visibility="private")
        run.click(
            self.run,
            [found, variants, tasks, limit, planned],
            [progress, current, tabs],
            # Audits themselves run one at a time; those that wait can be cancelled, too.
            concurrency_limit=self.limits.max_waiting + 2,
            show_progress="hidden",
            api_visibility="private",
        )
        stop.click(self.stop, None, progress, queue=False, api_visibility="private")

    def _compare_tab(self) -> None:
        gr.Markdown(
            "Two files of predictions of the same items: lm-eval's `samples_*.jsonl`, JSON, JSON Lines or CSV with id, "
            "prediction and reference. No model runs."
        )
        with gr.Row():
            one = gr.File(label="The base's answers", type="filepath")
            two = gr.File(label="The variant's answers", type="filepath")
        go = gr.Button("Compare", variant="primary")
        figures = gr.Dataframe(headers=["Figure", "Value"], label="Correctness agreement", interactive=False)
        plot = gr.HTML(label=_ANSWERED)
        raw = gr.JSON(label="As JSON")
        go.click(self.compare, [one, two], [figures, plot, raw], api_visibility="private")


def queued(app: SpaceApp) -> gr.Blocks:
    """The page with its queue: bounded, and light events never wait for one another."""
    return app.build().queue(max_size=200, default_concurrency_limit=8)


def launch_options(app: SpaceApp) -> dict[str, Any]:
    """What `launch` needs beside address and port."""
    return {
        "css": CSS,
        "theme": gr.themes.Default(primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["monospace"]),
        "max_file_size": app.limits.max_upload_bytes,
        "footer_links": [],
        "show_error": False,
    }


def _on_gpu(settings: AuditSettings, seconds: int) -> Iterator[Event]:
    """Run where the GPU is, and end before the loan does, so that finished variants come back."""
    yield from audit_events(settings, threading.Event(), max_seconds=seconds - 20)


# ZeroGPU looks for such a function when the page starts; elsewhere it is the function itself.
on_gpu = importlib.import_module("spaces").GPU(duration=lambda _, seconds: seconds)(_on_gpu) if _ZERO_GPU else _on_gpu


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


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong, as one message for the visitor."""
    try:
        yield
    except HubAuditError as exc:
        raise gr.Error(html.escape(hide_tokens(str(exc))), print_exception=False) from exc


def _refused(reason: str, settings: AuditSettings) -> str:
    """Why it does not run here, and the two ways on."""
    words = ["hubaudit", "audit", settings.base, *settings.variants, "--tasks", ",".join(settings.tasks)]
    command = shlex.join([*words, "--contrast", "builtin", "--limit", str(settings.limit)])
    inside = f"pip install 'hubaudit[bnb,gguf,lora]' && {command} && cat audit-report/report.json"
    job = f"hf jobs run --flavor a10g-small --secrets HF_TOKEN python:3.12 {shlex.join(['bash', '-c', inside])}"
    return (
        f"**This audit does not run on this page.** {reason}\n\n"
        f"On your own machine:\n\n```bash\n{_plain_code(command)}\n```\n\n"
        f"As a Hugging Face Job under your own login (it is billed to you):\n\n```bash\n{_plain_code(job)}\n```"
    )


def _progress(step: Event | None, lines: list[str]) -> str:
    parts = []
    if step is not None:
        bar = "<progress></progress>" if step.done is None else f'<progress value="{step.done:.3f}" max="1"></progress>'
        more = f", {100 * step.done:.0f} %" if step.done is not None else ""
        left = step.seconds_left
        more += f", about {time_left(left)} left in this step" if left is not None else ""
        parts.append(f'<p class="progress-text" aria-live="polite">{_text(step.text)}{more}</p>{bar}')
    parts += [f"<p>{_text(line)}</p>" for line in lines[-6:]]
    return "".join(parts)


def _text(text: str) -> str:
    return html.escape(hide_tokens(text))


_attribute: Callable[[str], str] = functools.partial(html.escape, quote=True)


def _plain(text: str) -> str:
    """Text from outside in Markdown: no markup of its own, no HTML."""
    return html.escape("".join("\\" + char if char in "\\`*_{}[]()#!|~" else char for char in text))


def _plain_code(text: str) -> str:
    """Text in a code block, which it cannot leave."""
    return text.replace("```", "'''")


def _figure(value: object) -> str:
    if value is None:
        return "undefined"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
