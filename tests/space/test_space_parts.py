"""What the page does without a browser: limits, the store, the choices, the stream of events, the Space's files."""

from __future__ import annotations

import importlib
import json
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_example import example_report
from typer.testing import CliRunner

from hubaudit.cli import app as cli
from hubaudit.errors import AccessError, InputError
from hubaudit.hub import access
from hubaudit.pipeline import Pipeline
from hubaudit.progress import Silent
from hubaudit.publish.spaces import write_space
from hubaudit.resources import bundled
from hubaudit.settings import AuditSettings
from hubaudit.space import app as app_module
from hubaudit.space import markup, zero_gpu
from hubaudit.space import run as run_module
from hubaudit.space.app import SpaceApp
from hubaudit.space.disk import keep_within
from hubaudit.space.find import find_variants, make_settings, search_models
from hubaudit.space.limits import Limits
from hubaudit.space.publish import open_requests, preview
from hubaudit.space.push import plan_space
from hubaudit.space.run import Event, audit_events
from hubaudit.space.store import AuditStore


def test_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBAUDIT_SPACE_MAX_PARAMETERS", "1000")
    limits = Limits.from_environment()
    assert limits.max_parameters == 1000
    assert "million" not in (limits.refusal(1000, 2) or "")
    assert limits.refusal(1001, 2) is not None
    assert Limits(max_memory_bytes=600_000_000).refusal(10**8, 4) is not None
    assert Limits(max_memory_bytes=10**9).refusal(10**8, 4) is None
    assert Limits().memory_bytes > 10**8
    monkeypatch.setenv("HUBAUDIT_SPACE_MAX_ITEMS", "many")
    with pytest.raises(InputError, match="HUBAUDIT_SPACE_MAX_ITEMS must be a whole number"):
        Limits.from_environment()


def test_a_stored_audit_comes_back(tmp_path: Path) -> None:
    store = AuditStore(tmp_path)
    assert store.list() == []
    entry = store.save(example_report())
    again = AuditStore(tmp_path)
    assert [one.audit_id for one in again.list()] == [entry.audit_id]
    assert again.load(entry.audit_id) == example_report()
    assert again.of(entry.base)
    assert again.of("other/base") == []


@pytest.mark.parametrize("audit_id", ["../../etc/passwd", "..", "", "0" * 15, "0" * 16, "/etc", "A" * 16])
def test_no_other_id_reaches_the_file_system(tmp_path: Path, audit_id: str) -> None:
    with pytest.raises(InputError, match="no audit with this id"):
        AuditStore(tmp_path / "store", bundled=tmp_path).load(audit_id)


def test_what_is_no_report_is_left_out(tmp_path: Path) -> None:
    store = AuditStore(tmp_path)
    for name, content in (("0" * 16, "{}"), ("1" * 16, "not json"), ("notes", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(content)
    assert store.list() == []


def test_the_oldest_audits_leave(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, max_stored=2)
    report = example_report()
    for n in range(4):
        store.save(report.model_copy(update={"seed": n}))
    assert len(store.list()) == 2


def test_audits_survive_in_a_dataset(hub: Any, tmp_path: Path) -> None:
    hub.add("acme/audits", {"README.md": "", "audits/zz/report.json": "{}"}, kind="datasets")
    store = AuditStore(tmp_path / "one", dataset="acme/audits")
    entry = store.save(example_report())
    assert store.copy_to_dataset(entry) is None
    assert f"audits/{entry.audit_id}/report.json" in hub.files("acme/audits", kind="datasets")
    other = AuditStore(tmp_path / "two", dataset="acme/audits")
    other.fetch_from_dataset()
    assert [one.audit_id for one in other.list()] == [entry.audit_id]
    assert "nobody/none: " in str(AuditStore(tmp_path / "one", dataset="nobody/none").copy_to_dataset(entry))


def test_search_gives_ids_or_nothing(hub: Any, tiny_hub: Callable[[str, int], None]) -> None:
    tiny_hub("acme/tiny-one", 0)
    tiny_hub("acme/other", 0)
    assert search_models("TINY") == ["acme/tiny-one"]
    assert search_models("t") == []
    hub.fail(".*", 404, times=10)
    assert search_models("tiny") == []


@pytest.mark.parametrize("base", ["", "one", "../x", "a/..", "/tmp", "acme/one@main", "acme/one:file", "a/b/c"])
def test_only_an_id_finds_variants(hub: Any, tmp_path: Path, base: str) -> None:
    with pytest.raises(InputError, match="expected a model's id"):
        find_variants(base, AuditStore(tmp_path))
    assert hub.requests == []


def test_a_folder_of_the_server_is_not_taken_for_a_repo(
    hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme" / "one").mkdir(parents=True)
    with pytest.raises(InputError, match="only the Hub"):
        find_variants("acme/one", AuditStore(tmp_path))


def test_only_what_was_offered_can_be_chosen(hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path) -> None:
    tiny_hub("acme/one", 0)
    store, limits = AuditStore(tmp_path / "store"), Limits(max_variants=2, max_items=10)
    found = find_variants("acme/one", store)
    labels = list(found.choices)
    settings = make_settings(found, labels[:1], ["builtin"], 4, limits=limits, store=store)
    assert settings.base == f"acme/one@{found.revision}"
    assert settings.variants == ("bnb:nf4",)
    for variants, tasks, limit in (
        (["/etc/passwd"], ["builtin"], 4),
        (labels[:1], ["/etc/passwd"], 4),
        ([], ["builtin"], 4),
        (labels[:1], [], 4),
        (labels[:3], ["builtin"], 4),
        (labels[:1], ["builtin"], 11),
        (labels[:1], ["builtin"], 0),
    ):
        with pytest.raises(InputError):
            make_settings(found, variants, tasks, limit, limits=limits, store=store)


def test_the_disk_does_not_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work" / "evidence").mkdir(parents=True)
    (tmp_path / "work" / "evidence" / "x").write_bytes(b"0" * 1000)
    keep_within(tmp_path / "work", 1000)
    assert (tmp_path / "work").is_dir()
    keep_within(tmp_path / "work", 999)
    assert not (tmp_path / "work").exists()


def test_a_spaces_cache_loses_the_models_used_longest_ago(
    hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import scan_cache_dir, snapshot_download

    tiny_hub("acme/one", 0)
    monkeypatch.setenv("SPACE_ID", "acme/space")
    cache = Path(snapshot_download("acme/one")).parents[2]
    keep_within(tmp_path / "work", 10**9)
    assert scan_cache_dir(cache).repos
    monkeypatch.setattr("huggingface_hub.scan_cache_dir", lambda: scan_cache_dir(cache))
    keep_within(tmp_path / "work", 10)
    assert not scan_cache_dir(cache).repos


@pytest.fixture
def tiny_settings(tiny_base: Path, tmp_path: Path) -> AuditSettings:
    return AuditSettings(
        base=str(tiny_base),
        variants=("rtn:4@g16", "rtn:5@g16"),
        tasks=("builtin",),
        contrast=None,
        limit=6,
        cache_dir=tmp_path / "cache",
    )


def test_an_audit_is_a_stream_of_events(tiny_settings: AuditSettings) -> None:
    events = list(audit_events(tiny_settings, threading.Event(), max_seconds=60))
    assert events[-1].kind == "report"
    assert events[-1].report is not None
    assert [variant.status for variant in events[-1].report.variants] == ["done", "done"]
    assert {"step", "line"} >= {event.kind for event in events[:-1]}
    assert any("running" in event.text for event in events)


def test_stopping_keeps_what_is_finished(tiny_settings: AuditSettings) -> None:
    stop = threading.Event()
    last = None
    for event in audit_events(tiny_settings, stop, max_seconds=60):
        if "1 of 2 variants done" in event.text:
            stop.set()
        last = event
    assert last is not None
    assert last.report is not None
    assert [variant.status for variant in last.report.variants] == ["done", "interrupted"]


def test_time_runs_out(tiny_settings: AuditSettings) -> None:
    events = list(audit_events(tiny_settings, threading.Event(), max_seconds=0))
    assert events[-1].kind == "error"
    assert "the limit of 0 minutes was reached" in events[-1].text


def test_closing_the_stream_stops_the_audit(tiny_settings: AuditSettings) -> None:
    stop = threading.Event()
    events = audit_events(tiny_settings, stop, max_seconds=60)
    next(events)
    events.close()
    assert stop.is_set()


def test_an_error_is_one_line_without_a_token(tmp_path: Path, hub: Any) -> None:
    settings = AuditSettings(base="acme/none", variants=("bnb:nf4",), cache_dir=tmp_path)
    events = list(audit_events(settings, threading.Event(), max_seconds=60))
    assert events[-1].kind == "error"
    assert events[-1].text.startswith("acme/none: no such model")


def test_zero_gpu_lends_for_the_time_of_an_audit(
    tiny_settings: AuditSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def lend(*, duration: Callable[[Any, int], int]) -> Callable[[Any], Any]:
        def decorated(function: Any) -> Any:
            def lent(settings: Any, seconds: int) -> Any:
                asked.append(duration(settings, seconds))
                return function(settings, seconds)

            return lent

        return decorated

    planned = app_module.Planned(tiny_settings, Pipeline(tiny_settings, Silent()).forecast())
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=lend))
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    try:
        importlib.reload(zero_gpu)
        page = SpaceApp(AuditStore(tmp_path / "store"), Limits())
        events = list(page._events(planned, threading.Event()))
        stop = threading.Event()
        stop.set()
        stopped = list(page._events(planned, stop))
    finally:
        monkeypatch.undo()
        importlib.reload(zero_gpu)
    assert [one.audit_id for one in page.store.list()] == [events[-1].audit_id]
    assert "stopped" in stopped[-1].text
    assert asked == [57, 57]


def test_only_the_audit_that_was_planned_runs(hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path) -> None:
    tiny_hub("acme/one", 0)
    store = AuditStore(tmp_path / "store")
    request = types.SimpleNamespace(session_hash="a")
    small = SpaceApp(store, Limits(max_parameters=10))
    found = find_variants("acme/one", store)
    labels = list(found.choices)[:1]
    text, _, planned = small.plan(found, labels, ["builtin"], 4)
    assert planned is None
    assert "does not run on this page" in text
    with pytest.raises(app_module.gr.Error, match="show the plan again"):
        next(small.run(found, labels, ["builtin"], 4, planned, request))
    page = SpaceApp(store, Limits())
    _, _, planned = page.plan(found, labels, ["builtin"], 4)
    with pytest.raises(app_module.gr.Error, match="show the plan again"):
        next(page.run(found, labels, ["builtin"], 5, planned, request))
    *_, (progress, audit_id, _) = page.run(found, labels, ["builtin"], 4, planned, request)
    assert "1 of 1 variants are finished" in progress
    assert [one.audit_id for one in store.list()] == [audit_id]
    assert page._stops == {}


def test_too_much_to_download_is_refused(hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path) -> None:
    tiny_hub("acme/one", 0)
    store = AuditStore(tmp_path / "store")
    page = SpaceApp(store, Limits(max_download_bytes=1000))
    found = find_variants("acme/one", store)
    text, _, planned = page.plan(found, list(found.choices)[:1], ["builtin"], 4)
    assert planned is None
    assert "GB of weights; this page downloads at most" in text


def test_audits_run_one_after_the_other(tiny_settings: AuditSettings) -> None:
    stop = threading.Event()
    with run_module._ONE_AT_A_TIME:  # as while another audit runs
        waiting = audit_events(tiny_settings, stop, max_seconds=60)
        assert next(waiting).text == "waiting for the audit before this one"
        stop.set()
        assert "stopped before it began" in list(waiting)[-1].text
    assert list(audit_events(tiny_settings, threading.Event(), max_seconds=60))[-1].report is not None


def test_nothing_is_lost_when_the_visitor_leaves(tiny_settings: AuditSettings) -> None:
    kept: list[Any] = []
    over = threading.Event()
    events = audit_events(
        tiny_settings,
        threading.Event(),
        max_seconds=60,
        keep=lambda report: kept.append(report) or "id",
        afterwards=over.set,
    )
    for event in events:
        if "1 of 2 variants done" in event.text:
            break
    events.close()
    assert over.wait(30)
    assert [variant.status for variant in kept[0].variants] == ["done", "interrupted"]


def test_an_upload_is_published_only_as_previewed(tmp_path: Path) -> None:
    page = SpaceApp(AuditStore(tmp_path), Limits())
    token = types.SimpleNamespace(token="hf_x")
    entry = page.store.save(example_report())
    with pytest.raises(app_module.gr.Error, match="look at the preview"):
        page.published(entry.audit_id, "other/repo", (entry.audit_id, ""), token)


def test_the_servers_token_reads_nothing_for_visitors(
    hub: Any, tiny_hub: Callable[[str, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    tiny_hub("acme/private", 0)
    hub.repos["models", "acme/private"].private = True
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    assert find_variants("acme/private", AuditStore(tmp_path)).base == "acme/private"
    monkeypatch.setenv("HUBAUDIT_SPACE_STORE", str(tmp_path / "store"))
    SpaceApp.from_environment()
    with pytest.raises(AccessError):
        find_variants("acme/private", AuditStore(tmp_path))
    with pytest.raises(AccessError):
        preview(_published_report("acme/private"), "", None)


def _published_report(repo_id: str) -> Any:
    report = example_report()
    variant = report.variants[0]
    model = variant.model.model_copy(update={"repo_id": repo_id, "revision": "0" * 40})
    return report.model_copy(update={"variants": [variant.model_copy(update={"spec": repo_id, "model": model})]})


def test_a_pull_request_needs_a_token_that_may_write(hub: Any) -> None:
    hub.add("org/quant", {"README.md": "# card\n", "model.safetensors": b"x"})
    report = _published_report("org/quant")
    found = preview(report, "", "hf_read_TESTSECRET")
    assert found.has_changes
    assert "<!-- hubaudit:begin -->" in found.text
    with pytest.raises(AccessError, match="403"):
        open_requests(report, "", "hf_read_TESTSECRET")
    (pushed,) = open_requests(report, "", "hf_write_TESTSECRET")
    assert pushed.is_pull_request
    assert "already proposes" in preview(report, "", None).text
    assert open_requests(report, "", "hf_write_TESTSECRET") == []


def test_messages_are_escaped(tmp_path: Path) -> None:
    page = SpaceApp(AuditStore(tmp_path), Limits())
    with pytest.raises(app_module.gr.Error) as caught:
        page.find("<script>alert(1)</script>")
    assert "<script>" not in str(caught.value)
    assert "&lt;" not in markup.in_markdown("plain")
    assert markup.in_markdown("<b>[x](http://y)") == "&lt;b&gt;\\[x\\]\\(http://y\\)"
    assert "<b>" not in markup.progress(Event(kind="step", text="<b>"), ["<b>"])


def test_the_space_brings_this_package(hub: Any) -> None:
    plan = plan_space("acme/audit")
    assert {"README.md", "app.py", "requirements.txt", "hubaudit/pipeline.py"} <= set(plan.files)
    assert "hubaudit/_bundled/metrics/prism_bound/prism_bound.py" in plan.files
    assert any(path.startswith("hubaudit/_bundled/spaces/hubaudit/audits/") for path in plan.files)
    assert not [path for path in plan.files if "__pycache__" in path or path.startswith("hubaudit/_bundled/hubaudit")]
    lines = plan.files["requirements.txt"].decode().splitlines()
    assert "hubaudit" not in lines
    assert any(line.startswith("gradio[oauth]") for line in lines)
    assert any(line.startswith("torch") for line in lines)
    # What lies in the repository is what is pushed.
    assert plan.files["requirements.txt"] == (bundled("spaces") / "hubaudit" / "requirements.txt").read_bytes()
    assert write_space(plan.repo_id, plan.files).startswith("http")
    assert set(hub.files("acme/audit", kind="spaces")) >= set(plan.files)
    with pytest.raises(InputError):
        plan_space("no-slash")


def test_push_is_a_dry_run_by_default(hub: Any) -> None:
    result = CliRunner().invoke(cli, ["space", "push", "acme/audit"])
    assert result.exit_code == 0
    assert "Nothing was written" in result.output
    assert hub.requests == []


def test_a_refused_push_says_so(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_WAITS", ())
    monkeypatch.setenv("HF_TOKEN", "hf_read_TESTSECRET")
    with pytest.raises(AccessError, match="acme/audit") as caught:
        write_space("acme/audit", plan_space("acme/audit").files)
    assert "TESTSECRET" not in str(caught.value)


def test_the_front_matter_is_what_the_hub_wants() -> None:
    import yaml
    from huggingface_hub import SpaceCardData

    text = (bundled("spaces") / "hubaudit" / "README.md").read_text()
    data = yaml.safe_load(text.split("---")[1])
    SpaceCardData(**data)
    assert (data["sdk"], data["app_file"], data["hf_oauth"]) == ("gradio", "app.py", True)
    assert data["hf_oauth_scopes"] == ["write-discussions"]
    assert len(data["short_description"]) <= 60
    assert json.dumps(data)
