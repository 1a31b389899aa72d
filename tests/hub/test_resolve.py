"""References: what a user types, and every way in which a repo can fail, with the real client and a Hub on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import errors

from hubaudit.errors import AccessError, InputError, ModelFileError, OutOfDiskError, VariantError
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.hub.access import hub_errors
from hubaudit.load import ModelSource
from hubaudit.progress import Silent


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


SECRET = "hf_write_TESTSECRET"
CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
MODEL = {"config.json": CONFIG, "tokenizer.json": "{}", "model.safetensors": b"w" * 4000}


class Listener(Silent):
    def __init__(self) -> None:
        self.total = self.done = 0

    def begin(self, label: str, total: int) -> None:
        self.total = total

    def advance(self, amount: int) -> None:
        self.done += amount


def test_a_repo_is_pinned_and_only_what_it_needs_is_fetched(hub: Any) -> None:
    others = {
        "pytorch_model.bin": b"pickle",
        "consolidated.safetensors": b"c" * 900,
        "model.fp16.safetensors": b"h" * 900,
        "onnx/model.onnx": b"o",
        "original/params.json": "{}",
        "../outside.json": "{}",
        "a-Q4_0.gguf": b"GGUF",
    }
    sha = hub.add("org/name", MODEL | others).history["main"][0]
    listener = Listener()
    source = resolve_base("org/name@main", progress=listener)
    assert (source.kind, source.repo_id, source.revision) == ("dense", "org/name", sha)
    assert {path.name for path in source.path.iterdir()} == set(MODEL)
    assert listener.total == listener.done == sum(len(content) for content in MODEL.values())
    # A second time nothing is fetched, and the listener is not told of a download.
    again = Listener()
    assert resolve_base("org/name", progress=again).path == source.path
    assert again.total == 0


def test_shards_replace_the_single_file(hub: Any) -> None:
    shards = {f"model-0000{n}-of-00002.safetensors": b"s" for n in (1, 2)} | {"model.safetensors.index.json": "{}"}
    hub.add("org/name", {"config.json": CONFIG, "training_args.bin": b"", "extra.safetensors": b"x"} | shards)
    assert {path.name for path in resolve_base("org/name").path.iterdir()} == {"config.json", *shards}


def test_quants_are_found_by_label_file_or_ending(hub: Any) -> None:
    files = {
        "a-Q4_K_M.gguf": b"GGUF" * 10,
        "a-Q8_0.gguf": b"GGUF" * 20,
        "mmproj-Q8_0.gguf": b"GGUF",
        "BF16/a-BF16-00001-of-00002.gguf": b"GGUF" * 30,
        "BF16/a-BF16-00002-of-00002.gguf": b"GGUF" * 30,
        "b-Q3_K_S-00001-of-00002.gguf": b"GGUF",
        "c-IQ2_XS.gguf": b"GGUF",
        "d-IQ2_XS.gguf": b"GGUF",
    }
    sha = hub.add("org/a-GGUF", files).history["main"][0]
    source = resolve_variant("org/a-GGUF:q8_0", base())
    assert (source.path.name, source.revision, source.kind) == ("a-Q8_0.gguf", sha, "gguf")
    assert [path.name for path in source.path.parent.iterdir()] == ["a-Q8_0.gguf"]
    sharded = resolve_variant(f"org/a-GGUF@{sha}:BF16", base())
    assert sharded.path.name == "a-BF16-00001-of-00002.gguf"
    assert sharded.path.with_name("a-BF16-00002-of-00002.gguf").is_file()
    with pytest.raises(InputError, match=r"0 fit; the repo has: .*Q4_K_M \(0.00 GB, a-Q4_K_M.gguf\)"):
        resolve_variant("org/a-GGUF:Q5_K", base())
    with pytest.raises(InputError, match="2 fit; the repo has: IQ2_XS.*c-IQ2_XS.gguf.*d-IQ2_XS.gguf"):
        resolve_variant("org/a-GGUF:IQ2_XS", base())
    with pytest.raises(ModelFileError, match="lacks the shard b-Q3_K_S-00002-of-00002.gguf"):
        resolve_variant("org/a-GGUF:Q3_K_S", base())
    with pytest.raises(ModelFileError, match=r"name one, as in org/a-GGUF:a-Q4_K_M.gguf, or all with"):
        resolve_variant("org/a-GGUF", base())


def test_an_adapter_names_its_base(hub: Any) -> None:
    config = {"base_model_name_or_path": "Org/Base", "peft_type": "LORA"}
    files = {"adapter_config.json": json.dumps(config), "adapter_model.safetensors": b"a" * 50}
    hub.add("org/lora", files)
    source = resolve_variant("org/lora", base())
    assert (source.kind, source.base_path, source.repo_id) == ("lora", base().path, "org/lora")
    hub.add("org/other", files | {"adapter_config.json": json.dumps(config | {"base_model_name_or_path": "x/y"})})
    with pytest.raises(VariantError, match="the adapter is for x/y, not for org/base"):
        resolve_variant("org/other", base())
    hub.add("org/disk", files | {"adapter_config.json": json.dumps(config | {"base_model_name_or_path": "../../etc"})})
    assert resolve_variant("org/disk", base()).kind == "lora"
    hub.add("org/pickled", {"adapter_config.json": json.dumps(config), "adapter_model.bin": b"pickle"})
    with pytest.raises(ModelFileError, match="reads no pickled weights"):
        resolve_variant("org/pickled", base())
    hub.add("org/broken", files | {"adapter_config.json": "{"})
    with pytest.raises(ModelFileError, match="adapter_config.json cannot be read"):
        resolve_variant("org/broken", base())
    with pytest.raises(InputError, match="this is an adapter"):
        resolve_base("org/lora")


def test_offline_the_cache_answers(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/name", MODEL)
    source = resolve_base("org/name")
    hub.add("org/a-GGUF", {"a-Q8_0.gguf": b"GGUF"})
    resolve_variant("org/a-GGUF:Q8_0", base())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.requests.clear()
    again = resolve_base("org/name")
    assert (again.path, again.revision) == (source.path, source.revision)
    assert len(str(resolve_variant("org/a-GGUF:Q8_0", base()).revision)) == 40
    assert hub.requests == []
    with pytest.raises(AccessError, match="the cache does not hold it, and HF_HUB_OFFLINE"):
        resolve_base("org/never")


def test_a_renamed_repo_answers_with_its_new_id(hub: Any) -> None:
    hub.add("org/new", MODEL)
    hub.moved["org/old"] = "org/new"
    assert resolve_base("org/old").repo_id == "org/new"


@pytest.mark.parametrize(
    ("repo", "options", "error", "message"),
    [
        ({"pytorch_model.bin": b"pickle", "config.json": "{}"}, {}, ModelFileError, "reads no pickled weights"),
        ({"README.md": "soon"}, {}, AccessError, "the repo is empty"),
        (MODEL, {"gated": True}, AccessError, "accept its licence on http.*/org/name and log in"),
        ({"model.safetensors": b"w"}, {}, ModelFileError, "no config.json"),
    ],
)
def test_repos_that_cannot_be_read(hub: Any, repo: Any, options: Any, error: type[Exception], message: str) -> None:
    hub.add("org/name", repo, **options)
    with pytest.raises(error, match=message) as caught:
        resolve_base("org/name")
    assert SECRET not in str(caught.value)


def test_repos_and_revisions_that_are_not_there(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/name", MODEL)
    with pytest.raises(AccessError, match="no such revision; see http.*/org/name/commits/main"):
        resolve_base("org/name@v9")
    with pytest.raises(AccessError, match="no such model on the Hub, or it is private"):
        resolve_base("org/missing")
    hub.add("org/private", MODEL, private=True)
    assert resolve_base("org/private").repo_id == "org/private"
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(AccessError, match="or it is private; check the id, or log in"):
        resolve_base("org/private")


def test_no_room_is_said_before_anything_is_fetched(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/name", MODEL)
    monkeypatch.setattr("hubaudit.hub.download._SPARE_BYTES", 2**60)
    with pytest.raises(OutOfDiskError, match=r"its files take 0.0 GB, but .* GB free; .*HF_HOME"):
        resolve_base("org/name")
    assert not [request for request in hub.requests if "/resolve/" in request]


def test_faults_are_retried_and_then_named(hub: Any) -> None:
    hub.add("org/name", MODEL)
    hub.fail("GET /cdn/", "cut")
    hub.fail("GET /api/models/org/name", 429, **{"Retry-After": "0"})
    hub.fail("HEAD .*tokenizer", 502)
    assert (resolve_base("org/name").path / "model.safetensors").read_bytes() == MODEL["model.safetensors"]


def test_a_hub_that_stays_broken_is_one_line(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/name", MODEL)
    hub.fail("GET /api", 500, times=100)
    monkeypatch.setattr("hubaudit.hub.access._WAITS", (0.0, 0.0))
    with pytest.raises(AccessError, match="could not be read .*500.*; check the network") as caught:
        resolve_base("org/name")
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
