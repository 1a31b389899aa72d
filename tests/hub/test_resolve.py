from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import errors

from hubaudit.errors import AccessError, InputError, ModelFileError, OutOfDiskError
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.hub.access import hub_errors
from hubaudit.load import ModelSource


def base() -> ModelSource:
    return ModelSource("org/base", "dense", Path("/models/base"), None, "org/base", "a" * 40)


def test_variants_made_on_the_spot_start_from_the_base() -> None:
    source = resolve_variant("rtn:4@g128", base())
    assert (source.kind, source.option, source.path) == ("rtn", "4@g128", Path("/models/base"))
    assert resolve_variant("bnb:nf4", base()).kind == "bnb"


def test_local_folders_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (tmp_path / "m.Q4_0.gguf").write_bytes(b"")
    assert resolve_base(str(folder)).kind == "dense"
    assert resolve_variant(str(folder), base()).path == folder
    assert resolve_variant(str(tmp_path / "m.Q4_0.gguf"), base()).kind == "gguf"


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("./nothing/here", AccessError, "no such file or folder"),
        ("missing.gguf", AccessError, "no such file or folder"),
        ("not a reference", InputError, "expected ORG/NAME"),
        ("org/../../etc", InputError, "expected ORG/NAME"),
        ("justaname", InputError, "expected ORG/NAME"),
        ("org/name:file.gguf", InputError, "must be a whole repo"),
    ],
)
def test_a_base_that_is_none(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve_base(spec)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no config.json"):
        resolve_base(str(tmp_path))


def test_a_gguf_file_is_no_base(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match="config and tokenizer are needed"):
        resolve_base(str(tmp_path / "m.gguf"))


def test_an_option_is_needed_after_the_colon() -> None:
    with pytest.raises(InputError, match="expected an option after 'rtn:'"):
        resolve_variant("rtn:", base())


def response(status: int) -> Any:
    """What the client's errors read of a response; its HTTP library changes from one version to the next."""
    return SimpleNamespace(
        status_code=status, headers={}, request=SimpleNamespace(headers={}), url="https://hub.invalid"
    )


@pytest.mark.parametrize(
    ("raised", "error", "message"),
    [
        (errors.GatedRepoError("gated", response=response(403)), AccessError, "accept its licence"),
        (errors.RepositoryNotFoundError("no", response=response(404)), AccessError, "no such model"),
        (errors.RevisionNotFoundError("no", response=response(404)), AccessError, "no such revision"),
        (ConnectionError("refused"), AccessError, "check the network"),
        (OSError(28, "No space left on device"), OutOfDiskError, "disk is full"),
        (RuntimeError("strange\nmore"), AccessError, "RuntimeError: strange"),
    ],
)
def test_every_failure_of_the_hub_becomes_one_line(raised: Exception, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught, hub_errors("org/name"):
        raise raised
    assert "\n" not in str(caught.value)


def fake_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str]) -> list[Any]:
    """A Hub with one repo at one commit; records what is asked for."""
    asked: list[Any] = []
    info = SimpleNamespace(sha="c" * 40, siblings=[SimpleNamespace(rfilename=name) for name in names])

    def download(repo_id: str, name: str, *, revision: str) -> str:
        asked.append((repo_id, name, revision))
        return str(tmp_path / name)

    def snapshot(repo_id: str, *, revision: str, allow_patterns: list[str]) -> str:
        asked.append((repo_id, revision, allow_patterns))
        (tmp_path / "config.json").write_text("{}")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: info)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return asked


def test_hub_repos_are_pinned_to_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = fake_hub(monkeypatch, tmp_path, ["model.safetensors", "pytorch_model.bin"])
    source = resolve_base("org/name@main")
    assert source.revision == "c" * 40
    assert asked[0][1] == "c" * 40
    assert not any("bin" in pattern for pattern in asked[0][2])


def test_a_quant_names_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ["a-Q4_K_M.gguf", "a-Q8_0.gguf", "mmproj-Q8_0.gguf"]
    asked = fake_hub(monkeypatch, tmp_path, files)
    assert resolve_variant("org/a-GGUF:Q8_0", base()).path.name == "a-Q8_0.gguf"
    assert asked == [("org/a-GGUF", "a-Q8_0.gguf", "c" * 40)]
    with pytest.raises(InputError, match="the repo has: a-Q4_K_M.gguf, a-Q8_0.gguf"):
        resolve_variant("org/a-GGUF:Q3_K", base())


def test_a_repo_of_pickles_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_hub(monkeypatch, tmp_path, ["pytorch_model.bin"])
    with pytest.raises(ModelFileError, match="reads no pickled weights"):
        resolve_base("org/name")
