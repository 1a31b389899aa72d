"""`hubaudit publish` against a Hub: the real client, a server on loopback, and what can go wrong between them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, ModelCard, hf_hub_download, metadata_load
from typer.testing import CliRunner, Result

from hubaudit.cli import app
from hubaudit.errors import AccessError, HubAuditError
from hubaudit.publish import choose_targets, plan_repo, push
from hubaudit.publish.plan import TITLE
from hubaudit.report.markdown import BEGIN_MARKER, END_MARKER
from hubaudit.report.schema import Report, read_report

GGUF, DISTILLED = "org/tiny-135M-GGUF", "org/tiny-60M-distilled"
CARD = "---\r\nlicense: mit # as the base\r\nmodel-index: []\r\n---\r\n# Quants\r\n\r\n<b>Mine</b>\r\n"
TOKEN = "hf_write_TESTSECRET"


@pytest.fixture
def stored(report: Report, tmp_path: Path) -> Path:
    """The report as a file; only the GGUF repo's smallest part, so that drawing is quick."""
    report.variants = [entry for entry in report.variants if entry.spec in (f"{GGUF}:Q5_0", DISTILLED, "bnb:nf4")]
    for entry in report.variants:
        entry.direction_floor, entry.monitor = {}, None
    path = tmp_path / "report.json"
    path.write_text(report.to_json())
    return path


def publish(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["publish", *map(str, arguments)])


def written(hub: Any) -> list[str]:
    return [request for request in hub.requests if "/commit/" in request]


def test_a_dry_run_prints_plan_and_diff_and_writes_nothing(hub: Any, stored: Path) -> None:
    hub.add(GGUF, {"README.md": CARD})
    hub.add(DISTILLED, {"config.json": "{}"})
    done = publish(stored)
    assert done.exit_code == 0, done.output
    for part in (
        f"pull request to {GGUF}, on top of ",
        "update README.md",
        "add    hubaudit/report.json",
        "add    hubaudit/plots/flips.png",
        "--- a/README.md",
        "-model-index: []",
        " # Quants",
        f"+{BEGIN_MARKER}",
        f"pull request to {DISTILLED}",
        "add    README.md",
        "left out: bnb:nf4 (made on the spot",
        "This was a dry run; --yes opens the pull requests",
    ):
        assert part in done.output, part
    assert not written(hub)
    assert not any(request.startswith("POST") and "paths-info" not in request for request in hub.requests)


def test_a_pull_request_that_the_client_reads_back(hub: Any, stored: Path) -> None:
    hub.add(GGUF, {"README.md": CARD, "x-Q5_0.gguf": b"weights"})
    done = publish(stored, "--repo", GGUF, "--yes")
    assert done.exit_code == 0, done.output
    assert f"opened {hub.url}/{GGUF}/discussions/1" in done.output
    assert hub.files(GGUF)["README.md"] == CARD.encode(), "main is untouched"
    files = hub.files(GGUF, "refs/pr/1")
    assert set(files) >= {"README.md", "x-Q5_0.gguf", "hubaudit/report.json", "hubaudit/plots/flips.png"}
    assert files["hubaudit/plots/flips.png"].startswith(b"\x89PNG")

    path = Path(hf_hub_download(GGUF, "README.md", revision="refs/pr/1"))
    card = ModelCard.load(path)
    assert {(entry.dataset_type, entry.metric_type) for entry in card.data.eval_results} >= {
        ("allenai/ai2_arc", "correctness_agreement"),
        ("openai/gsm8k", "prism_bound"),
    }
    assert metadata_load(path)["license"] == "mit"
    raw = path.read_bytes()
    assert raw.startswith(b"---\r\nlicense: mit # as the base\r\nmodel-index: \r\n- name: tiny-135M-GGUF\r\n")
    assert b"\r\n---\r\n# Quants\r\n\r\n<b>Mine</b>\r\n\r\n" + BEGIN_MARKER.encode() in raw
    assert raw.endswith(END_MARKER.encode() + b"\r\n")
    assert f"{hub.url}/{GGUF}/blob/main/hubaudit/report.json".encode() in raw
    published = read_report(hf_hub_download(GGUF, "hubaudit/report.json", revision="refs/pr/1"))
    assert [entry.spec for entry in published.variants] == [f"{GGUF}:Q5_0"]
    (request,) = hub.repos["models", GGUF].pull_requests
    assert request["title"] == TITLE

    again = publish(stored, "--repo", GGUF, "--yes")
    assert f"an open pull request proposes this report: {hub.url}/{GGUF}/discussions/1" in again.output
    assert len(written(hub)) == 1


def test_a_commit_and_the_same_again(hub: Any, stored: Path, report: Report) -> None:
    hub.add(GGUF, {"README.md": CARD, "hubaudit/plots/monitor.png": b"of an older report"})
    assert publish(stored, "--repo", GGUF, "--direct").exit_code == 0
    first = dict(hub.files(GGUF))
    assert "hubaudit/plots/monitor.png" not in first
    assert "nothing to do: the repo holds this report already" in publish(stored, "--repo", GGUF, "--yes").output
    assert len(written(hub)) == 1

    found = next(entry for entry in report.variants if entry.spec.startswith(GGUF)).findings[0]
    found.text = "a later run says something else"
    stored.write_text(report.to_json())
    done = publish(stored, "--repo", GGUF, "--direct", "--json")
    (outcome,) = json.loads(done.output)["repos"]
    assert outcome["outcome"] == "committed"
    assert {file["action"] for file in outcome["files"]} == {"update"}
    second = hub.files(GGUF)
    assert second["README.md"].count(BEGIN_MARKER.encode()) == 1
    assert second["README.md"].split(BEGIN_MARKER.encode())[0] == first["README.md"].split(BEGIN_MARKER.encode())[0]


def test_another_report_names_the_older_request(hub: Any, stored: Path, report: Report) -> None:
    hub.add(GGUF, {"README.md": CARD})
    publish(stored, "--repo", GGUF, "--yes")
    report.seed = 7
    stored.write_text(report.to_json())
    done = publish(stored, "--repo", GGUF, "--yes")
    assert f"an older pull request of hubaudit is open; close it once this one is there: {hub.url}" in done.output
    assert f"opened {hub.url}/{GGUF}/discussions/2" in done.output


@pytest.mark.parametrize("direct", [False, True])
def test_a_card_edited_between_plan_and_push_is_not_lost(hub: Any, stored: Path, *, direct: bool) -> None:
    hub.add(GGUF, {"README.md": CARD})
    target = choose_targets(read_report(stored), repo=GGUF).targets[0]
    plan = plan_repo(target, HfApi())
    hub.add(GGUF, {"README.md": CARD + "new words"})
    with pytest.raises(AccessError, match="someone changed the repo after the plan was made; nothing was written"):
        push(plan, HfApi(), direct=direct)
    assert hub.files(GGUF) == {"README.md": (CARD + "new words").encode()}
    assert not written(hub)
    push(plan_repo(target, HfApi()), HfApi(), direct=True)
    assert b"new words" in hub.files(GGUF)["README.md"]


def test_a_conflict_that_only_the_server_sees(hub: Any, stored: Path) -> None:
    hub.add(GGUF, {"README.md": CARD})
    hub.fail("POST .*/commit/", 412)
    done = publish(stored, "--repo", GGUF, "--direct")
    assert done.exit_code == 3
    assert "run the same command again" in done.output
    assert hub.files(GGUF) == {"README.md": CARD.encode()}


def test_who_may_not_write(hub: Any, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(GGUF, {"README.md": CARD})
    hub.add(DISTILLED, {"README.md": "# Hi\n"}, gated=True)
    monkeypatch.setenv("HF_TOKEN", "hf_read_TESTSECRET")
    done = publish(stored, "--yes")
    assert done.exit_code == 3
    assert f"error: {GGUF}: the Hub refused the write (403): the token may only read" in done.output
    assert f"error: {DISTILLED}: the model is gated" in done.output
    assert "TESTSECRET" not in done.output
    hub.fail("POST .*/preupload/", 401, times=9)
    assert "log in with `hf auth login`" in publish(stored, "--repo", GGUF, "--yes").output


def test_one_repo_that_refuses_does_not_stop_the_others(hub: Any, stored: Path) -> None:
    hub.add(GGUF, {"README.md": f"# x\n{BEGIN_MARKER}\n"})
    hub.add(DISTILLED, {"README.md": "# Hi\n"})
    done = publish(stored, "--yes", "--json")
    assert done.exit_code == 2
    first, second = json.loads(done.stdout)["repos"]
    assert first["outcome"] == "failed"
    assert f"{GGUF}: README.md must hold {BEGIN_MARKER} once" in first["error"]
    assert second["outcome"] == "pull_request"
    assert b"# Hi" in hub.files(DISTILLED, "refs/pr/1")["README.md"]


def test_missing_repo_and_server_errors(hub: Any, stored: Path) -> None:
    done = publish(stored, "--repo", GGUF)
    assert done.exit_code == 3
    assert f"{GGUF}: no such model on the Hub" in done.output
    hub.add(GGUF, {"README.md": CARD})
    hub.fail("POST .*/commit/", 500, times=9)
    done = publish(stored, "--repo", GGUF, "--yes")
    assert done.exit_code == 3
    assert "the Hub refused the commit" in done.output
    assert "Traceback" not in done.output


def test_a_renamed_repo_is_written_under_its_new_name(hub: Any, stored: Path) -> None:
    hub.add("org/new-name", {"README.md": CARD})
    hub.moved[GGUF] = "org/new-name"
    done = publish(stored, "--repo", GGUF, "--yes")
    assert f"opened {hub.url}/org/new-name/discussions/1" in done.output, done.output


def test_no_network_and_no_token_in_what_is_said(stored: Path, hub: Any) -> None:
    environment = {**hub.env, "HF_ENDPOINT": "http://127.0.0.1:9", "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-c", "from hubaudit.cli import main; main()", "publish", str(stored), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 3
    assert f"error: {GGUF}: the model could not be read" in done.stderr
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    environment["HF_HUB_OFFLINE"] = "1"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 2
    assert "publishing needs the Hub, but HF_HUB_OFFLINE is set" in done.stderr


def test_the_token_is_in_no_file_and_no_message(hub: Any, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(GGUF, {"README.md": CARD})
    assert TOKEN not in publish(stored, "--repo", GGUF, "--direct", "--json").output
    assert all(TOKEN.encode() not in content for content in hub.files(GGUF).values())

    def leak(*_: Any, **__: Any) -> None:
        raise ValueError(f"bad header Bearer {TOKEN} and hf_abcdefgh1234")

    hub.add(GGUF, {"README.md": CARD})
    plan = plan_repo(choose_targets(read_report(stored), repo=GGUF).targets[0], HfApi())
    monkeypatch.setattr(HfApi, "create_commit", leak)
    with pytest.raises(HubAuditError, match=r"refused the card \(bad header Bearer hf_\*\*\* and hf_\*\*\*\)"):
        push(plan, HfApi())
