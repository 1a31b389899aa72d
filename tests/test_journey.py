"""The whole way of a user, through the command line: real weights from a Hub, an audit, a pull request on the card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, get_repo_discussions, hf_hub_download, metadata_load

from hubaudit.tasks.read import BUILTIN_FOLDER

BASE, QUANTS = "acme/SmolLM2-135M-Instruct", "quantizer/SmolLM2-135M-Instruct-GGUF"
BASE_CARD = "---\nlicense: apache-2.0\n---\n# SmolLM2\n"
QUANT_CARD = f"""---
# kept as it is
license: apache-2.0
base_model: {BASE}
base_model_relation: quantized
tags: [gguf]
---
# GGUF files

Almost no quality loss!
"""


def hubaudit(hub: Any, folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder of its own, against the test's Hub."""
    environment = hub.env | {"XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "160"}
    ran = subprocess.run(
        [str(Path(sys.executable).with_name("hubaudit")), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "TESTSECRET" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


def publish_datasets(hub: Any) -> None:
    """The built-in items in the form of ARC, and the contrast prompts in the form of theirs."""
    rows = []
    for line in (BUILTIN_FOLDER / "multiple_choice.jsonl").read_text().splitlines():
        item = json.loads(line)
        choices = {"label": list(item["options"]), "text": list(item["options"].values())}
        rows.append({"id": item["id"], "question": item["question"], "choices": choices, "answerKey": item["answer"]})
    card = "---\nconfigs:\n- config_name: ARC-Challenge\n  data_files:\n  - split: test\n    path: test.jsonl\n---\n"
    arc = "".join(json.dumps(row) + "\n" for row in rows)
    hub.add("allenai/ai2_arc", {"README.md": card, "test.jsonl": arc}, kind="datasets")
    for repo_id, name, column in (
        ("walledai/AdvBench", "contrast_declined.txt", "prompt"),
        ("tatsu-lab/alpaca", "contrast_accepted.txt", "instruction"),
    ):
        lines = (BUILTIN_FOLDER / name).read_text().splitlines()
        content = "".join(json.dumps({column: line, "input": ""}) + "\n" for line in lines if line)
        hub.add(repo_id, {"README.md": "", "train.jsonl": content}, kind="datasets")


def test_from_a_repo_to_a_pull_request(hub: Any, smollm2: Path, quantized: dict[str, Path], tmp_path: Path) -> None:
    hub.add_folder(BASE, smollm2, card=BASE_CARD)
    repo = hub.add(QUANTS, {"README.md": QUANT_CARD} | {path.name: path for path in quantized.values()}, downloads=9)
    publish_datasets(hub)
    pinned = repo.history["main"][0]

    listed = json.loads(hubaudit(hub, tmp_path, "variants", BASE, "--json").stdout)
    assert {(child["quant"], child["loadable"], child["head_quantized"]) for child in listed["children"]} == {
        ("Q8_0", True, True),
        ("Q4_0", True, True),
    }
    assert not [request for request in hub.requests if request.startswith("GET /cdn/") and "bytes" in request]

    options = ("--tasks", "arc", "--limit", "4", "--layers", "20", "--out", "report", "--quiet")
    hubaudit(hub, tmp_path, "audit", BASE, "--discover", *options)
    report = json.loads((tmp_path / "report/report.json").read_text())
    assert [variant["status"] for variant in report["variants"]] == ["done", "done"]
    assert {variant["model"]["revision"] for variant in report["variants"]} == {pinned}
    assert {variant["model"]["repo_id"] for variant in report["variants"]} == {QUANTS}
    assert report["tasks"][0]["source"].startswith("allenai/ai2_arc@")
    assert report["contrast"]["source"].startswith("walledai/AdvBench@")

    plan = hubaudit(hub, tmp_path, "publish", "report/report.json").stdout
    assert f"pull request to {QUANTS}, on top of {pinned}" in plan
    assert hub.repos["models", QUANTS].pull_requests == []

    hubaudit(hub, tmp_path, "publish", "report/report.json", "--yes")
    (request,) = get_repo_discussions(QUANTS)
    assert request.is_pull_request
    card = hf_hub_download(QUANTS, "README.md", revision=request.git_reference)
    text = Path(card).read_text()
    assert "# kept as it is\n" in text
    assert "Almost no quality loss!\n" in text
    assert "<!-- hubaudit:begin -->" in text
    assert metadata_load(card)["base_model"] == BASE
    results = ModelCard(text).data.eval_results
    assert results
    assert {result.task_type for result in results}
    assert json.loads(Path(hf_hub_download(QUANTS, "hubaudit/report.json", revision="refs/pr/1")).read_text())

    again = hubaudit(hub, tmp_path, "publish", "report/report.json", "--yes").stdout
    assert "nothing to do" in again
    assert len(hub.repos["models", QUANTS].pull_requests) == 1
    everything = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size < 10**7]
    assert not [path for path in everything if b"TESTSECRET" in path.read_bytes()]
