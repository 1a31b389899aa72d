"""Every way of running out of memory is one error; nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hubaudit.errors import OutOfMemoryError
from hubaudit.load import ModelSource, load_model
from hubaudit.load.memory import memory_guard, release


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ],
)
def test_out_of_memory(error: Exception) -> None:
    message = r"No memory for the model m.*--batch-tokens"
    with pytest.raises(OutOfMemoryError, match=message) as caught, memory_guard("the model m"):
        raise error
    assert caught.value.__cause__ is error


def test_a_real_allocation_that_cannot_succeed() -> None:
    with pytest.raises(OutOfMemoryError), memory_guard("a test"):
        torch.empty(2**55, dtype=torch.uint8)


def test_other_errors_pass() -> None:
    error = RuntimeError("size mismatch")
    with pytest.raises(RuntimeError) as caught, memory_guard("a test"):
        raise error
    assert caught.value is error


def test_loading_is_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("hubaudit.load.dense.load_dense", fail)
    with pytest.raises(OutOfMemoryError, match="the model big"):
        load_model(ModelSource("big", "dense", tmp_path), base=None, device="cpu")


def test_release_leaves_live_memory_alone() -> None:
    kept = torch.arange(1000)
    release(torch.device("cpu"))
    assert kept.sum() == 499500
