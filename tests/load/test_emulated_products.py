from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hubaudit.load import ModelSource, load_model
from hubaudit.load import assemble as assemble_module
from hubaudit.load.emulated_products import multiply_in_float32


@pytest.fixture
def native(tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """The tiny base in bfloat16 as torch multiplies it on this CPU, fast or slow."""
    monkeypatch.setattr(assemble_module, "products_are_emulated", lambda *_: False)
    return load_model(ModelSource("tiny", "dense", tiny_base), dtype="bfloat16", device="cpu").model


def logits(model: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(4, 100)[None]
    with torch.inference_mode():
        return model(input_ids=ids, use_cache=False).logits[0].double()


def test_products_in_float32_are_those_of_bfloat16(native: torch.nn.Module, tiny_base: Path) -> None:
    exact = load_model(ModelSource("tiny", "dense", tiny_base), dtype="float32", device="cpu").model
    # The same rounded weights, so that only the arithmetic differs.
    with torch.no_grad():
        for ours, theirs in zip(exact.parameters(), native.parameters(), strict=True):
            ours.copy_(theirs.float())
    reference, slow = logits(exact), logits(native)
    before = {name: parameter.clone() for name, parameter in native.named_parameters()}
    end = multiply_in_float32(native)
    fast = logits(native)
    end()
    assert (fast - slow).norm() <= 2 * (slow - reference).norm()
    assert (fast - reference).norm() <= 1.2 * (slow - reference).norm()
    assert (fast - reference).norm() > 1e-4 * reference.norm()  # it rounds: it does not compute in float32
    for name, parameter in native.named_parameters():
        assert torch.equal(parameter, before[name])
    assert torch.equal(logits(native), slow)


def test_a_failing_pass_leaves_the_weights(native: torch.nn.Module) -> None:
    multiply_in_float32(native)
    with pytest.raises(IndexError):
        native(input_ids=torch.tensor([[10_000]]))
    with pytest.raises(RuntimeError):
        native.model.layers[0].mlp.down_proj(torch.zeros(1, 7, dtype=torch.bfloat16))
    assert {parameter.dtype for parameter in native.parameters()} == {torch.bfloat16}


def test_bfloat16_is_loaded_so_where_the_cpu_has_no_units(
    tiny_base: Path, native: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(assemble_module, "products_are_emulated", lambda *_: True)
    monkeypatch.setattr(assemble_module, "multiply_in_float32", seen.append)
    load_model(ModelSource("tiny", "dense", tiny_base), dtype="bfloat16", device="cpu")
    assert len(seen) == 1
