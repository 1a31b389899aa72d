"""bitsandbytes made on the spot and loaded from a folder, against transformers' own integration."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import logits_of, save_tiny

from hubaudit.errors import InputError, MissingExtraError
from hubaudit.load import LoadedModel, ModelSource, load_model

pytest.importorskip("bitsandbytes", reason="needs the extra bnb")

from transformers import AutoModelForCausalLM, BitsAndBytesConfig


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    save_tiny(folder, "llama", dtype=torch.bfloat16)
    return folder


def load(folder: Path, option: str, dtype: str = "float32") -> LoadedModel:
    return load_model(ModelSource(f"bnb:{option}", "bnb", folder, option), base=None, dtype=dtype, device="cpu")


def native(folder: Path, option: str, dtype: torch.dtype) -> Any:
    """What a user gets from transformers."""
    if option == "int8":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=option, bnb_4bit_compute_dtype=dtype)
    return AutoModelForCausalLM.from_pretrained(str(folder), quantization_config=config, dtype=dtype).eval()


@pytest.mark.parametrize("option", ["nf4", "fp4"])
def test_expanded_4bit_equals_the_native_model(option: str, folder: Path) -> None:
    ours = load(folder, option)
    difference = (logits_of(ours.model) - logits_of(native(folder, option, torch.float32))).abs().max()
    assert difference < 1e-4
    assert (ours.format, ours.engine) == (f"bnb:{option}", "torch")
    assert any("expanded to dense" in note for note in ours.notes)
    dense = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    assert (logits_of(ours.model) - logits_of(dense)).abs().max() > 1e-2  # it did quantize


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_int8_is_the_native_model(dtype: str, folder: Path) -> None:
    ours = load(folder, "int8", dtype)
    assert torch.equal(logits_of(ours.model), logits_of(native(folder, "int8", getattr(torch, dtype))))
    assert ours.engine == "bitsandbytes"


@pytest.mark.parametrize("model_type", ["gpt2", "phi", "qwen3_moe"])
@pytest.mark.parametrize("option", ["int8", "nf4"])
def test_the_same_modules_as_transformers_converts(option: str, model_type: str, tmp_path: Path) -> None:
    """GPT-2's transposed layers, biases, and experts, which are no linear modules and stay dense (TRAPS 18)."""
    save_tiny(tmp_path, model_type)
    ours, theirs = load(tmp_path, option), native(tmp_path, option, torch.float32)
    torch.testing.assert_close(logits_of(ours.model), logits_of(theirs), rtol=0, atol=1e-4)
    from bitsandbytes.nn import Linear4bit, Linear8bitLt

    converted = [m for m in theirs.modules() if isinstance(m, Linear4bit | Linear8bitLt)]
    n_quantized = sum(m.in_features * m.out_features for m in converted)
    n_parameters = sum(p.numel() for p in AutoModelForCausalLM.from_pretrained(str(tmp_path)).parameters())
    assert ours.quantized_fraction == pytest.approx(n_quantized / n_parameters, abs=1e-12)


def test_weight_error_of_each_kind(folder: Path) -> None:
    """NF4 in blocks of 64 loses about 9 % of normally distributed weights, 8 bits a row about 1 %."""
    errors = {option: load(folder, option).weight_error for option in ("int8", "nf4", "fp4")}
    assert errors["int8"] == pytest.approx(0.006, abs=0.003)
    assert errors["nf4"] == pytest.approx(0.091, abs=0.004)
    assert errors["nf4"] < errors["fp4"] < 0.16


def test_sizes_by_hand(folder: Path) -> None:
    linear = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3)
    rows = 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64)
    others = 2 * 96 * 64 + 5 * 64
    cases = {"nf4": linear * 4 + linear // 64 * 32, "int8": linear * 8 + rows * 32}
    for option, packed in cases.items():
        loaded = load(folder, option)
        assert loaded.quantized_fraction == pytest.approx(linear / (linear + others), abs=1e-12)
        assert loaded.bits_per_weight == pytest.approx((packed + others * 16) / (linear + others), abs=1e-12)


def test_int8_does_not_log_for_every_layer(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(folder, "int8", "bfloat16")
    with caplog.at_level(logging.DEBUG):
        logits_of(loaded.model)
    assert not [record for record in caplog.records if "cast" in record.getMessage()]


@pytest.mark.parametrize("option", ["nf4", "int8"])
def test_a_folder_saved_quantized(option: str, folder: Path, tmp_path: Path) -> None:
    saved = native(folder, option, torch.float32)
    saved.save_pretrained(tmp_path)  # before any forward pass (TRAPS 16)
    loaded = load_model(ModelSource("q", "dense", tmp_path), base=None, dtype="float32", device="cpu")
    on_the_spot = load(folder, option)
    torch.testing.assert_close(logits_of(loaded.model), logits_of(on_the_spot.model), rtol=0, atol=1e-4)
    assert loaded.format == f"bnb:{option}"
    assert loaded.engine == on_the_spot.engine
    assert loaded.quantized_fraction == pytest.approx(on_the_spot.quantized_fraction, abs=1e-12)
    assert loaded.bits_per_weight == pytest.approx(on_the_spot.bits_per_weight, abs=1e-12)
    assert loaded.weight_error is None
    assert not loaded.head.quantized


@pytest.mark.parametrize("option", ["nf4", "int8"])
def test_a_folder_with_a_quantized_head(option: str, folder: Path, tmp_path: Path) -> None:
    """A quantized head is expanded, so that it is a head map, and said to be quantized."""
    if option == "nf4":
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.float32,
            llm_int8_skip_modules=["no_module"],
        )
    else:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["no_module"])
    saved = AutoModelForCausalLM.from_pretrained(str(folder), quantization_config=config, dtype=torch.float32)
    saved.save_pretrained(tmp_path)
    loaded = load_model(ModelSource("q", "dense", tmp_path), base=None, dtype="float32", device="cpu")
    assert loaded.head.quantized
    assert type(loaded.model.get_output_embeddings()) is torch.nn.Linear
    linear = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3) + 96 * 64
    assert loaded.quantized_fraction == pytest.approx(linear / (linear + 96 * 64 + 5 * 64), abs=1e-12)
    assert loaded.bits_per_weight < 16


@pytest.mark.parametrize("option", ["int4", "nf8", "", None])
def test_bad_options(option: str, folder: Path) -> None:
    with pytest.raises(InputError, match="expected one of bnb:int8, bnb:nf4, bnb:fp4"):
        load(folder, option)


def test_the_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hubaudit\[bnb\]'"):
        load(folder, "nf4")
