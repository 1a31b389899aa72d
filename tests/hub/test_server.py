"""The Hub of the tests, spoken to by the real client: what it serves, stores and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import (
    HfApi,
    ModelCard,
    errors,
    get_safetensors_metadata,
    hf_hub_download,
    metadata_load,
    metadata_update,
    snapshot_download,
)

CARD = "---\nlicense: mit\nbase_model: org/base\nbase_model_relation: quantized\n---\n# Card\n"


def test_files_come_back_pinned(hub: Any) -> None:
    repo = hub.add("org/base", {"README.md": CARD, "a/b.txt": "text", "model.safetensors": b"x" * 5000})
    sha = repo.history["main"][0]
    folder = Path(snapshot_download("org/base"))
    assert folder.name == sha
    assert (folder / "a/b.txt").read_text() == "text"
    assert (folder / "model.safetensors").read_bytes() == b"x" * 5000
    assert ModelCard.load("org/base").data.base_model == "org/base"
    info = HfApi().model_info("org/base", files_metadata=True)
    assert (info.sha, {sibling.rfilename: sibling.size for sibling in info.siblings or []}["a/b.txt"]) == (sha, 4)
    # The CDN never sees the token.
    assert all(
        token is None for request, token in zip(hub.requests, hub.tokens_seen, strict=True) if "/cdn/" in request
    )


def test_listing_goes_over_pages(hub: Any) -> None:
    hub.page_size = 3
    hub.add("org/base", {"README.md": ""})
    for index in range(8):
        hub.add(f"org/q{index}", {"README.md": CARD}, downloads=index)
    found = [model.id for model in HfApi().list_models(filter="base_model:quantized:org/base")]
    assert found == [f"org/q{index}" for index in range(7, -1, -1)]
    assert len(list(HfApi().list_repo_tree("org/q1", recursive=True))) == 1


def test_a_commit_and_a_pull_request(hub: Any, tmp_path: Path) -> None:
    first = hub.add("org/base", {"README.md": CARD}).history["main"][0]
    (tmp_path / "weights.safetensors").write_bytes(b"w" * 3000)
    (tmp_path / "notes.txt").write_text("notes")
    api = HfApi()
    request = api.upload_folder(
        repo_id="org/base", folder_path=tmp_path, create_pr=True, commit_message="Add", parent_commit=first
    )
    assert request.pr_url == f"{hub.url}/org/base/discussions/1"
    assert "notes.txt" not in hub.files("org/base")
    assert hub.files("org/base", "refs/pr/1")["weights.safetensors"] == b"w" * 3000
    path = hf_hub_download("org/base", "notes.txt", revision="refs/pr/1")
    assert Path(path).read_text() == "notes"
    (discussion,) = api.get_repo_discussions("org/base")
    assert (discussion.title, discussion.num, discussion.is_pull_request) == ("Add", 1, True)

    metadata_update("org/base", {"license": "apache-2.0"}, overwrite=True)
    assert metadata_load(hf_hub_download("org/base", "README.md"))["license"] == "apache-2.0"
    with pytest.raises(errors.HfHubHTTPError) as caught:
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="org/base", parent_commit=first)
    assert caught.value.response.status_code == 412


def test_who_may_not(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/gated", {"config.json": "{}"}, gated=True)
    hub.add("org/private", {"config.json": "{}"}, private=True)
    hub.add("org/new", {"config.json": "{}"})
    hub.moved["org/old"] = "org/new"
    with pytest.raises(errors.GatedRepoError):
        hf_hub_download("org/gated", "config.json")
    hub.granted.add("org/gated")
    assert hf_hub_download("org/gated", "config.json")
    assert hf_hub_download("org/private", "config.json")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(errors.RepositoryNotFoundError):
        HfApi().model_info("org/private")
    with pytest.raises(errors.RevisionNotFoundError):
        HfApi().model_info("org/new", revision="nothing")
    with pytest.raises(errors.EntryNotFoundError):
        hf_hub_download("org/new", "nothing.json")
    assert HfApi().model_info("org/old").id == "org/new"
    monkeypatch.setenv("HF_TOKEN", "hf_read_TESTSECRET")
    with pytest.raises(errors.HfHubHTTPError, match="403"):
        HfApi().upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="org/new")


def test_faults_once_then_the_answer(hub: Any) -> None:
    hub.add("org/base", {"config.json": "{}", "model.safetensors": b"z" * 200_000})
    hub.fail("GET /cdn/", "cut")
    hub.fail("HEAD .*config", 503)
    folder = Path(snapshot_download("org/base"))
    assert (folder / "model.safetensors").read_bytes() == b"z" * 200_000
    assert sum("/cdn/" in request and "GET" in request for request in hub.requests) == 2


def test_headers_of_safetensors_by_range(hub: Any) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    hub.add("org/base", {"model.safetensors": len(header).to_bytes(8, "little") + header + bytes(16)})
    assert get_safetensors_metadata("org/base").parameter_count == {"F32": 4}


def test_datasets_reads_a_repo(hub: Any) -> None:
    import datasets

    rows = "".join(json.dumps({"question": f"q{n}"}) + "\n" for n in range(5))
    hub.add("org/data", {"README.md": "---\nlicense: mit\n---\n", "test.jsonl": rows}, kind="datasets")
    assert datasets.load_dataset("org/data", split="test")["question"][4] == "q4"
