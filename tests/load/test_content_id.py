"""The same content has the same id, other content another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_models import save_tiny, tiny_model, write_gguf

from hubaudit.errors import ModelFileError
from hubaudit.load import ModelSource, content_id


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "model", "llama")
    return tmp_path / "model"


def of(path: Path, kind: str = "dense", option: str | None = None) -> str:
    return content_id(ModelSource(str(path), kind, path, option))  # type: ignore[arg-type]  # a literal


def test_place_and_tokenizer_do_not_matter(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "tokenizer.json").write_text("{}")
    (tmp_path / "copy" / "README.md").write_text("card")
    assert of(folder) == of(tmp_path / "copy")
    assert len(of(folder)) == 64


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_weights_and_configuration_do(name: str, folder: Path) -> None:
    before = of(folder)
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    assert of(folder) != before


def test_code_of_the_repo_matters(folder: Path) -> None:
    before = of(folder)
    (folder / "modeling.py").write_text("pass")
    assert of(folder) != before


def test_format_and_option_matter(folder: Path) -> None:
    ids = [of(folder), *(of(folder, "rtn", option) for option in ("4", "3")), of(folder, "bnb", "nf4")]
    assert len(set(ids)) == len(ids)


def test_a_gguf_file_may_be_renamed(tmp_path: Path) -> None:
    model = tiny_model("llama")
    path = write_gguf(tmp_path / "a.gguf", model)
    before = of(path, "gguf")
    assert of(path.rename(tmp_path / "b.gguf"), "gguf") == before
    assert of(write_gguf(tmp_path / "c.gguf", model, kind="Q8_0"), "gguf") != before


def test_every_shard_counts(tmp_path: Path) -> None:
    model = tiny_model("llama")
    first, second = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    write_gguf(first, model)
    write_gguf(second, model)
    before = of(first, "gguf")
    assert of(second, "gguf") == before
    write_gguf(second, model, kind="Q8_0")
    assert of(first, "gguf") != before


def test_a_pinned_commit_needs_no_hashing(tmp_path: Path) -> None:
    def pinned(revision: str, name: str = "m.gguf", kind: str = "gguf") -> str:
        return content_id(ModelSource("o/r", kind, tmp_path / name, None, "o/r", revision))  # type: ignore[arg-type]

    assert pinned("a" * 40) == pinned("a" * 40)  # though no file is there
    assert pinned("a" * 40) != pinned("b" * 40)
    assert pinned("a" * 40) != pinned("a" * 40, "other.gguf")
    with pytest.raises(ModelFileError, match="got neither"):
        pinned("main")  # a branch moves


def test_a_changed_file_is_read_again(folder: Path) -> None:
    before = of(folder)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"rope_theta": 5.0}))
    assert of(folder) != before


def test_nothing_to_hash(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelFileError, match="got neither"):
            of(path)
