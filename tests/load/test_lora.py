"""LoRA adapters saved by peft: merged weights against the definition, and every way in which one does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.hub.source import ModelSource
from hubaudit.load import LoadedModel, load_model
from hubaudit.load.lora import load_lora

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_model("llama").save_pretrained(folder)
    return folder


def adapter(folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Save a random adapter as peft does; returns its tensors."""
    config = LoraConfig(**({"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"]} | options))
    model = get_peft_model(tiny_model("llama"), config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    model.save_pretrained(folder)
    return load_file(folder / "adapter_model.safetensors")


def load(base: Path, folder: Path, dtype: torch.dtype = torch.float32) -> LoadedModel:
    return load_lora(ModelSource("a", "lora", folder, base_path=base), dtype=dtype, device=CPU)


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_the_merge_is_the_definition(base: Path, tmp_path: Path) -> None:
    tensors = adapter(tmp_path)
    merged = load(base, tmp_path)
    plain = dict(tiny_model("llama").named_parameters())
    found = dict(merged.model.named_parameters())
    for name, weight in plain.items():
        stem = "base_model.model." + name.removesuffix(".weight")
        expected = weight
        if f"{stem}.lora_A.weight" in tensors:
            expected = weight + 16 / 4 * tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
        torch.testing.assert_close(found[name], expected, atol=1e-6, rtol=1e-6)
    assert merged.format == "lora"
    assert merged.quantized_fraction == 0.0
    assert "rank 4" in merged.notes[0]
    assert load_model(ModelSource("a", "lora", tmp_path, base_path=base), dtype="float32").format == "lora"


@pytest.mark.parametrize(
    "options",
    [
        {"use_rslora": True},
        {"use_dora": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 1}},
        {"modules_to_save": ["lm_head"]},
        {"modules_to_save": ["embed_tokens", "lm_head"]},
        {"bias": "lora_only", "target_modules": "all-linear"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_kind_gives_what_peft_gives(base: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    from peft import PeftModel

    adapter(tmp_path, **options)
    ids = torch.arange(20).view(2, 10)
    with torch.no_grad():
        expected = PeftModel.from_pretrained(tiny_model("llama"), tmp_path).eval()(ids).logits
        found = load(base, tmp_path).model(ids).logits
        plain = tiny_model("llama")(ids).logits
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    assert (plain - expected).abs().max() > 1e-2


def test_resized_embeddings(base: Path, tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.resize_token_embeddings(100, mean_resizing=False)
    wrapped = get_peft_model(
        model, LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])
    )
    wrapped.save_pretrained(tmp_path)
    merged = load(base, tmp_path)
    assert merged.head.n_rows == 100
    assert any("have 100 rows, the base's 96" in note for note in merged.notes)
    torch.testing.assert_close(merged.head.weight, model.lm_head.weight.data)


def test_the_file_cannot_choose_code_or_other_weights(base: Path, tmp_path: Path) -> None:
    adapter(tmp_path)
    expected = load(base, tmp_path).model.state_dict()
    edit(
        tmp_path,
        auto_mapping={"base_model_class": "system", "parent_library": "os"},
        base_model_name_or_path="../../../etc/passwd",
        init_lora_weights="loftq",
        megatron_core="os",
        loftq_config={"loftq_bits": 4},
    )
    for name, tensor in load(base, tmp_path).model.state_dict().items():
        assert torch.equal(tensor, expected[name])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda folder: edit(folder, peft_type="IA3"), VariantError, "peft_type IA3; merge it yourself"),
        (lambda folder: edit(folder, target_modules=["no_such"]), VariantError, "an adapter that fits the base"),
        (lambda folder: edit(folder, r=8), VariantError, "an adapter that fits the base"),
        (lambda folder: edit(folder, r=300_000), VariantError, "ranks from 1 to 512"),
        (lambda folder: edit(folder, r="4"), VariantError, "ranks from 1 to 512"),
        (lambda folder: edit(folder, rank_pattern={"q_proj": 10**9}), VariantError, "got 1000000000"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), ModelFileError, "names its peft_type"),
        (lambda folder: (folder / "adapter_config.json").write_text("[]"), ModelFileError, "names its peft_type"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), ModelFileError, "pickled ones are refused"),
        (lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"x" * 40), ModelFileError, "is broken"),
    ],
)
def test_adapters_that_do_not_fit(
    base: Path, tmp_path: Path, change: Any, error: type[Exception], message: str
) -> None:
    adapter(tmp_path)
    change(tmp_path)
    with pytest.raises(error, match=message) as caught:
        load(base, tmp_path)
    assert "\n" not in str(caught.value)


def test_tensors_without_a_place_or_not_finite(base: Path, tmp_path: Path) -> None:
    tensors = adapter(tmp_path)
    name, tensor = next(iter(tensors.items()))
    save_file(
        {**tensors, "base_model.model.other.lora_A.weight": torch.ones(4, 4)}, tmp_path / "adapter_model.safetensors"
    )
    with pytest.raises(VariantError, match="1 tensors have no place"):
        load(base, tmp_path)
    save_file({**tensors, name: torch.full_like(tensor, torch.nan)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(VariantError, match="holds NaN or infinity"):
        load(base, tmp_path)
