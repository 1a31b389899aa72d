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
from hubaudit.load.bnb import dequantize_4bit

pytest.importorskip("bitsandbytes", reason="needs the extra bnb")

from transformers import AutoModelForCausalLM, BitsAndBytesConfig

WHOLE_BLOCKS = {"intermediate_size": 128, "num_key_value_heads": 4}
LINEAR = 2 * (64 * 64 * 4 + 128 * 64 * 3)  # q k v o, gate up down of two layers
ROWS = 2 * (64 * 4 + 128 + 128 + 64)
OTHERS = 2 * 96 * 64 + 5 * 64  # embedding, head, norms


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    # Rows of whole blocks of 64: bitsandbytes' own CPU kernel is wrong for others, see the last test.
    save_tiny(folder, "llama", dtype=torch.bfloat16, **WHOLE_BLOCKS)
    return folder


def load(folder: Path, option: str, dtype: str = "float32") -> LoadedModel:
    return load_model(ModelSource(f"bnb:{option}", "bnb", folder, option), base=None, dtype=dtype, device="cpu")


def native(folder: Path, option: str, dtype: torch.dtype) -> Any:
    """What a user gets from transformers."""
    if option == "int8":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=option, bnb_4bit_compute_dtype=dtype)
    return unfused(AutoModelForCausalLM.from_pretrained(str(folder), quantization_config=config, dtype=dtype))


def unfused(model: Any) -> Any:
    """Let bitsandbytes multiply in the dtype asked for: its fused 4-bit kernel of AVX512-BF16 CPUs rounds to bfloat16.

    Without it, what a test sees depends on the CPU it runs on.
    """
    from bitsandbytes.nn import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False
    return model.eval()


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
    sizes = {} if model_type == "gpt2" else {"intermediate_size": 128, "moe_intermediate_size": 64}
    save_tiny(tmp_path, model_type, **sizes)
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
    # 127 levels to the largest of 64 or 128 normal numbers, 2.5 to 2.7 SDs: a step of .02, an error of .02 / sqrt(12).
    assert errors["int8"] == pytest.approx(0.006, abs=0.001)
    assert errors["nf4"] == pytest.approx(0.092, abs=0.002)
    assert errors["fp4"] == pytest.approx(0.122, abs=0.003)


def test_sizes_by_hand(folder: Path) -> None:
    cases = {"nf4": LINEAR * 4 + LINEAR // 64 * 32, "int8": LINEAR * 8 + ROWS * 32}
    for option, packed in cases.items():
        loaded = load(folder, option)
        assert loaded.quantized_fraction == pytest.approx(LINEAR / (LINEAR + OTHERS), abs=1e-12)
        assert loaded.bits_per_weight == pytest.approx((packed + OTHERS * 16) / (LINEAR + OTHERS), abs=1e-12)


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
    assert loaded.quantized_fraction == pytest.approx((LINEAR + 96 * 64) / (LINEAR + OTHERS), abs=1e-12)
    assert loaded.bits_per_weight < 16


@pytest.mark.parametrize("kind", ["nf4", "int8"])
def test_a_folder_with_nested_scales_and_modules_left_dense(kind: str, folder: Path, tmp_path: Path) -> None:
    left_dense = ["lm_head", "down_proj"]
    if kind == "nf4":
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.float32,
            llm_int8_skip_modules=left_dense,
        )
    else:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=left_dense)
    saved = unfused(AutoModelForCausalLM.from_pretrained(str(folder), quantization_config=config, dtype=torch.float32))
    saved.save_pretrained(tmp_path)
    loaded = load_model(ModelSource("q", "dense", tmp_path), base=None, dtype="float32", device="cpu")
    torch.testing.assert_close(logits_of(loaded.model), logits_of(saved), rtol=0, atol=1e-4)
    assert loaded.quantized_fraction == pytest.approx((LINEAR - 2 * 64 * 128) / (LINEAR + OTHERS), abs=1e-12)
    assert not loaded.head.quantized


@pytest.mark.parametrize("option", ["int4", "nf8", "", None])
def test_bad_options(option: str, folder: Path) -> None:
    with pytest.raises(InputError, match="expected one of bnb:int8, bnb:nf4, bnb:fp4"):
        load(folder, option)


def test_the_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hubaudit\[bnb\]'"):
        load(folder, "nf4")


@pytest.mark.parametrize("option", ["nf4", "fp4"])
@pytest.mark.parametrize("columns", [96, 80, 33, 64])
def test_blocks_run_across_the_ends_of_rows(columns: int, option: str) -> None:
    """The definition: packed halves of bytes, the table of 16 values, one scale for 64 weights in a row."""
    from bitsandbytes import functional

    weight = torch.randn(64, columns, generator=torch.Generator().manual_seed(0))
    packed, state = functional.quantize_4bit(weight, blocksize=64, quant_type=option)
    halves = torch.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], dim=1).reshape(-1)[: weight.numel()]
    expected = (state.code[halves.long()] * state.absmax.repeat_interleave(64)[: weight.numel()]).reshape(weight.shape)
    torch.testing.assert_close(dequantize_4bit(packed, state), expected, rtol=1e-6, atol=0)
    assert (expected - weight).norm() / weight.norm() < 0.13
