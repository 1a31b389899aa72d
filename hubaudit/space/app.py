"""What the page does: one function for each thing that a visitor can do, each giving what the page then shows."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr

from hubaudit.agree import agree
from hubaudit.agree_view import agreement_plot
from hubaudit.ahead import Ahead
from hubaudit.errors import HubAuditError, InputError
from hubaudit.forecast import GPU_SPEED, Forecast
from hubaudit.hub.repo_files import list_files, weight_bytes
from hubaudit.progress import time_left
from hubaudit.report.plots.style import png
from hubaudit.report.schema import Report, read_report
from hubaudit.resources import bundled
from hubaudit.settings import AuditSettings
from hubaudit.space import markup, zero_gpu
from hubaudit.space.disk import keep_within
from hubaudit.space.find import Found, find_variants, make_settings, search_models
from hubaudit.space.limits import Limits, store_folder
from hubaudit.space.publish import open_requests, preview
from hubaudit.space.read import Downloads, downloads, framed
from hubaudit.space.run import Event, audit_events
from hubaudit.space.store import AuditStore

__all__ = ["Planned", "SpaceApp"]

_NO_AUDIT = "<p>No audit yet. Find a model and run one.</p>"


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
        self._shown = functools.lru_cache(maxsize=32)(self._drawn)

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
        count = f"{len(found.rows)} variants on the Hub"
        said = [f"**{markup.in_markdown(found.base)}** at `{found.revision[:8]}`{size}: {count}."]
        said += [markup.in_markdown(note) for note in found.notes]
        entries = self.store.of(found.base)
        stored = [f"- [{markup.in_markdown(entry.title)}](?audit={entry.audit_id})" for entry in entries]
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
        with _told():
            settings = self._settings(found, variants, tasks, limit)
            assert found is not None
            outcome = self._forecast(found, variants, settings)
        if isinstance(outcome, str):
            return markup.refused(outcome, settings), gr.update(interactive=False), None
        limits = (
            f"\nlimits   {self.limits.max_parameters / 1e6:,.0f} million parameters, "
            f"{self.limits.memory_bytes / 1e9:.1f} GB, {time_left(self.limits.max_seconds)}"
        )
        text = f"```text\n{markup.in_code_block(outcome.text() + limits)}\n```"
        return text, gr.update(interactive=True), Planned(settings, outcome)

    def _forecast(self, found: Found, variants: list[str], settings: AuditSettings) -> Forecast | str:
        """What would run, or the reason why it does not run here."""
        from hubaudit.pipeline import Pipeline
        from hubaudit.progress import Silent

        reason = self.limits.refusal(found.n_parameters, 2) if found.n_parameters else None
        if reason := reason or self._too_much_to_download(found, variants):
            return reason
        # In ZeroGPU's main process there is no GPU to measure, and no GPU's speed to be had by measuring.
        forecast = Pipeline(settings, Silent()).forecast(speed=GPU_SPEED if zero_gpu.ENABLED else None)
        if reason := self.limits.refusal(forecast.n_parameters, 4 if forecast.dtype == "float32" else 2):
            return reason
        if forecast.seconds > self.limits.max_seconds:
            return (
                f"This would take about {time_left(forecast.seconds)}; an audit here may take "
                f"{time_left(self.limits.max_seconds)}. Choose fewer items or variants, or run it elsewhere."
            )
        return forecast

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
        yield markup.progress(step, lines), *nothing
        try:
            for event in self._events(planned, stop):
                if event.kind == "report":
                    yield self._finished(event, lines)
                    continue
                if event.kind == "step":
                    step = event
                else:
                    lines.append(event.text)
                yield markup.progress(None if event.kind == "error" else step, lines), *nothing
        finally:
            if self._stops.get(session) is stop:
                del self._stops[session]

    def _events(self, planned: Planned, stop: threading.Event) -> Iterator[Event]:
        """The audit's events, the report's with the id that it was stored under."""
        if not zero_gpu.ENABLED:
            yield from audit_events(
                planned.settings,
                stop,
                max_seconds=self.limits.max_seconds,
                keep=self._keep,
                afterwards=lambda: keep_within(self.store.folder / "work", self.limits.max_disk_bytes),
            )
            return
        for event in zero_gpu.lent_events(planned.settings, planned.forecast, stop):
            yield dataclasses.replace(event, audit_id=self._keep(event.report)) if event.report else event

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
            return markup.progress(None, said), gr.skip(), gr.skip()
        link = f'<p>Stored. <a href="?audit={event.audit_id}">Open this audit</a>; the link stays valid.</p>'
        return markup.progress(None, said) + link, event.audit_id, gr.Tabs(selected="read")

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
        frame = gr.skip() if shown else _NO_AUDIT
        return gr.update(choices=choices, value=shown), shown, frame

    def listed(self, audit_id: str | None) -> Any:
        """The list of audits, with a new one in it."""
        return gr.update(choices=[(entry.title, entry.audit_id) for entry in self.store.list()], value=audit_id)

    def show(self, audit_id: str | None) -> tuple[Any, ...]:
        """An audit by its id."""
        if not audit_id:
            return _NO_AUDIT, "", *(gr.update(visible=False),) * 3, ""
        with _told():
            page, files = self._shown(audit_id)
        link = f'<p><a href="?audit={audit_id}">Link to this audit</a></p>'
        return (
            page,
            link,
            gr.update(value=files.json, visible=True),
            gr.update(value=files.markdown, visible=True),
            gr.update(value=files.plots, visible=True),
            "",
        )

    def _drawn(self, audit_id: str) -> tuple[str, Downloads]:
        report = self.store.load(audit_id)
        return framed(report), downloads(report, audit_id)

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
        return "<p>Opened:</p>" + markup.links(one.url for one in done)

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
        rows = [[key, markup.figure(value)] for key, value in figures.items() if isinstance(value, int | float | None)]
        counts = found.counts
        alt = (
            f"Bar of all items: {counts.kept} right answers kept, {counts.lost} lost, {counts.gained} gained, "
            f"{counts.changed_wrong} wrong answers changed, {counts.same_wrong} wrong and unchanged"
        )
        return rows, markup.picture(png(agreement_plot(found)), alt), everything


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong, as one message for the visitor."""
    try:
        yield
    except HubAuditError as exc:
        raise gr.Error(markup.escaped(str(exc)), print_exception=False) from exc
