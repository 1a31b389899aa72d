"""GPTQ folders: made by GPTQModel against its own logits, and packed by the tests against the definition."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.hub.source import ModelSource
from hubaudit.load import LoadedModel, load_model
from hubaudit.load.folder import read_config
from hubaudit.load.packed_folder import load_packed_folder
from hubaudit.load.packed_weights import PackedLayer, expand_awq, expand_gptq

FIXTURES = Path(__file__).parent / "fixtures"
MADE = sorted(path.name for path in FIXTURES.glob("gptq_*") if path.is_dir())


def load(folder: Path) -> LoadedModel:
    return load_model(ModelSource("g", "dense", folder), dtype="float32", device="cpu")


@pytest.mark.parametrize("name", MADE)
def test_expanded_weights_are_the_librarys_own(name: str) -> None:
    model = load(FIXTURES / name)
    expected = load_file(FIXTURES / name / "expected.safetensors")
    ids, logits = expected.pop("ids"), expected.pop("logits")
    weights = dict(model.model.named_parameters())
    for layer, weight in expected.items():
        # The library multiplies scales in bfloat16.
        torch.testing.assert_close(weights[layer], weight.float(), rtol=2**-7, atol=1e-4)
    assert len(expected) >= 14
    with torch.no_grad():
        found = model.model(ids).logits
    assert (found - logits).abs().max() <= 0.02 * logits.abs().max()
    bits = int(name.split("bit")[0][-1]) if "bit" in name else 4
    assert model.format.startswith(f"gptq:{bits}")
    assert model.quantized_fraction > 0.3
    assert bits < model.bits_per_weight < 32


@pytest.mark.parametrize("name", [name for name in MADE if "one_group" not in name and "head" not in name])
def test_packed_weights_run_by_the_library_give_the_same(name: str) -> None:
    pytest.importorskip("gptqmodel", reason="the extra gptq is not installed")
    pytest.importorskip("optimum")
    folder = FIXTURES / name
    config = read_config(folder)
    settings = json.loads((folder / "quantize_config.json").read_text())
    source = ModelSource("g", "dense", folder)
    ways = {
        native: load_packed_folder(
            source, read_config(folder), settings, dtype=torch.bfloat16, device=torch.device("cpu"), native=native
        )
        for native in (True, False)
    }
    assert config.vocab_size == ways[True].head.n_rows
    assert [ways[native].engine for native in (True, False)] == ["gptqmodel", "torch"]
    assert ways[True].quantized_fraction == pytest.approx(ways[False].quantized_fraction, rel=1e-6)
    ids = load_file(folder / "expected.safetensors")["ids"]
    with torch.no_grad():
        packed, dense = (ways[native].model(ids).logits.float() for native in (True, False))
    assert (packed - dense).abs().max() <= 0.02 * dense.abs().max()


def pack(values: np.ndarray, bits: int) -> torch.Tensor:
    """Values down the columns into 32-bit words, bit by bit, as the format is described."""
    rows = values.shape[0] * bits // 32
    words = np.zeros((rows, values.shape[1]), dtype=np.uint64)
    for row, line in enumerate(values):
        for bit in range(bits):
            place = row * bits + bit
            words[place // 32] |= ((line >> bit) & 1).astype(np.uint64) << np.uint64(place % 32)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("less_one", [True, False])
@pytest.mark.parametrize("act_order", [True, False])
def test_gptq_is_its_definition(bits: int, less_one: bool, act_order: bool) -> None:
    rng = np.random.default_rng(bits)
    inputs, outputs, group = 96, 64, 32
    values, zeros = rng.integers(2**bits, size=(inputs, outputs)), rng.integers(2**bits, size=(3, outputs))
    scales = torch.from_numpy(rng.uniform(0.01, 0.1, (3, outputs))).half()
    groups = rng.permutation(inputs) // group if act_order else np.arange(inputs) // group
    stored = (zeros - 1) % 2**bits if less_one else zeros
    layer = PackedLayer(
        "layer", pack(values, bits), pack(stored.T, bits).T.contiguous(), scales,
        torch.from_numpy(groups.astype(np.int32)) if act_order else None,
    )  # fmt: skip
    dense = expand_gptq(layer, bits=bits, group_size=group, zeros_less_one=less_one)
    expected = (values - zeros[groups]) * scales.float().numpy()[groups]
    np.testing.assert_allclose(dense.numpy(), expected.T, rtol=1e-6)


def test_awq_as_the_library_packs_it() -> None:
    folder = FIXTURES / "awq_llama_g32"
    model = load(folder)
    weights = dict(model.model.named_parameters())
    expected = load_file(folder / "expected.safetensors")
    assert len(expected) == 14
    for layer, weight in expected.items():
        # The library multiplies in float16.
        torch.testing.assert_close(weights[layer], weight.float(), rtol=2**-10, atol=1e-6)
    assert model.format == "awq:4@g32"
    assert 4 < model.bits_per_weight < 32


def awq_words(values: np.ndarray) -> torch.Tensor:
    words = np.zeros((values.shape[0], values.shape[1] // 8), dtype=np.uint32)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        words |= values[:, column::8].astype(np.uint32) << np.uint32(4 * place)
    return torch.from_numpy(words.view(np.int32))


@pytest.mark.parametrize("outputs", [64, 1024 + 512])
def test_awq_is_its_definition(outputs: int) -> None:
    rng = np.random.default_rng(0)
    values, zeros = rng.integers(16, size=(64, outputs)), rng.integers(16, size=(2, outputs))
    scales = torch.from_numpy(rng.uniform(0.01, 0.1, (2, outputs))).half()
    dense = expand_awq(PackedLayer("layer", awq_words(values), awq_words(zeros), scales), group_size=32)
    expected = (values - zeros.repeat(32, axis=0)) * scales.float().numpy().repeat(32, axis=0)
    np.testing.assert_allclose(dense.numpy(), expected.T, rtol=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "gptq_llama_4bit_g32", tmp_path / "model"))


def edit(folder: Path, **changes: Any) -> None:
    for name in ("config.json", "quantize_config.json"):
        file = folder / name
        content = json.loads(file.read_text())
        (content.get("quantization_config", content) if name == "config.json" else content).update(changes)
        file.write_text(json.dumps(content))


def retensor(folder: Path, **changes: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    for ending, change in changes.items():
        name = next(name for name in sorted(tensors) if name.endswith("." + ending))
        tensors[name] = change(tensors[name])
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / "model.safetensors")


def test_either_config_file_is_enough(folder: Path) -> None:
    expected = load(folder).head.weight
    (folder / "quantize_config.json").rename(folder / "kept.json")
    assert torch.equal(load(folder).head.weight, expected)
    (folder / "kept.json").rename(folder / "quantize_config.json")
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    model = load(folder)
    assert model.format == "gptq:4@g32"
    assert torch.equal(model.head.weight, expected)


def test_a_quantized_head_is_told() -> None:
    assert load(FIXTURES / "gptq_llama_4bit_g32").head.quantized is False
    assert load(FIXTURES / "gptq_llama_head").head.quantized is True


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda folder: edit(folder, bits=5), VariantError, "GPTQ of 2, 3, 4 or 8 bits, got 5"),
        (lambda folder: edit(folder, bits="4"), ModelFileError, "whole bits"),
        (lambda folder: edit(folder, bits=8), ModelFileError, "do not belong together"),
        (lambda folder: edit(folder, checkpoint_format="marlin"), VariantError, "got marlin"),
        (lambda folder: edit(folder, quant_method="awq", bits=3), VariantError, "AWQ of 4 bits"),
        (lambda folder: retensor(folder, scales=lambda _: None), ModelFileError, r"expected .*\.scales beside"),
        (lambda folder: retensor(folder, qweight=lambda t: t[:-1]), ModelFileError, "a group from 0"),
        (lambda folder: retensor(folder, g_idx=lambda t: t + 1000), ModelFileError, "a group from 0"),
        (lambda folder: retensor(folder, qzeros=lambda t: t.float()), ModelFileError, "int32 words"),
    ],
)
def test_broken_folders(folder: Path, change: Any, error: type[Exception], message: str) -> None:
    change(folder)
    with pytest.raises(error, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
