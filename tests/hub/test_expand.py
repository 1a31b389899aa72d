from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remote_models import gguf_bytes

from hubaudit.errors import AccessError, InputError
from hubaudit.hub import expand_variants
from hubaudit.hub.source import ModelSource


def base(path: Path = Path("/models/base")) -> ModelSource:
    return ModelSource(str(path), "dense", path)


def folder(path: Path, name: str = "config.json") -> Path:
    path.mkdir(parents=True)
    (path / name).write_text("{}")
    return path


def test_other_references_pass_unchanged(tmp_path: Path) -> None:
    specs = ["rtn:4", "org/name:Q4_0", "org/name@main", str(folder(tmp_path / "model")), "bnb:nf4"]
    assert expand_variants(specs, base()) == specs


def test_every_quant_of_a_repo_pinned(hub: Any, tmp_path: Path) -> None:
    made = gguf_bytes(tmp_path)
    files = {
        "m-Q4_0.gguf": made[:100],
        "m-Q8_0.gguf": made[:300],
        "big/m-BF16-00002-of-00002.gguf": made[:200],
        "big/m-BF16-00001-of-00002.gguf": made[:200],
        "mmproj-F16.gguf": made,
        "README.md": "# quants",
    }
    hub.add("org/gguf", files)
    sha = hub.add("org/gguf", files | {"m-Q2_K.gguf": made[:50]}).history["main"][1]
    found = expand_variants([f"org/gguf@{sha}:*", "rtn:4", f"org/gguf@{sha}:m-Q4_0.gguf"], base())
    names = ["big/m-BF16-00001-of-00002.gguf", "m-Q8_0.gguf", "m-Q4_0.gguf"]
    assert found == [*(f"org/gguf@{sha}:{name}" for name in names), "rtn:4"]
    assert len(expand_variants(["org/gguf:*"], base())) == 4
    assert not any("/resolve/" in request for request in hub.requests)


def test_a_repo_without_gguf_and_one_that_does_not_exist(hub: Any) -> None:
    hub.add("org/plain", {"config.json": "{}", "model.safetensors": b"x"})
    with pytest.raises(InputError, match="expected a repo of GGUF files"):
        expand_variants(["org/plain:*"], base())
    with pytest.raises(AccessError, match="no such model"):
        expand_variants(["org/nowhere:*"], base())


def test_a_folder_of_quants(tmp_path: Path) -> None:
    for name, size in (("m-Q4_0.gguf", 4), ("m-Q8_0.gguf", 8), ("mmproj-F16.gguf", 99), ("notes.txt", 1)):
        (tmp_path / name).write_bytes(bytes(size))
    assert expand_variants([f"{tmp_path}:*"], base()) == [str(tmp_path / "m-Q8_0.gguf"), str(tmp_path / "m-Q4_0.gguf")]


def test_checkpoints_in_order_of_steps(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for step in (900, 50, 1000):
        folder(run / f"checkpoint-{step}", "adapter_config.json" if step == 50 else "config.json")
    (run / "checkpoint-2000").mkdir()  # being written: no model in it yet
    (run / "checkpoint-last").mkdir()
    series = [str(run / f"checkpoint-{step}") for step in (50, 900, 1000)]
    assert expand_variants([str(run)], base()) == series
    (run / "config.json").write_text("{}")
    assert expand_variants([str(run)], base()) == [str(run)]
    assert expand_variants([f"{run}:*"], base()) == [*series, str(run)]
    assert expand_variants([f"{run}:*"], base(run / "checkpoint-50")) == [*series[1:], str(run)]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("./nowhere:*", AccessError, "no such folder"),
        ("/nowhere:*", AccessError, "no such folder"),
        ("noslash:*", InputError, "expected ORG/NAME:"),
        ("org/../etc:*", InputError, "expected ORG/NAME:"),
        (":*", InputError, "expected ORG/NAME:"),
    ],
)
def test_what_stands_for_nothing(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        expand_variants([spec], base())


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected \.gguf files or checkpoint-N folders"):
        expand_variants([f"{tmp_path}:*"], base())
