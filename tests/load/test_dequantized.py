"""Folders of compressed-tensors (written by the library itself) and FP8 weights, against what they stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model

from hubaudit.errors import VariantError
from hubaudit.hub.source import ModelSource
from hubaudit.load import LoadedModel, load_model


def load(folder: Path) -> LoadedModel:
    return load_model(ModelSource("c", "dense", folder), dtype="float32", device="cpu")


def compressed(folder: Path, preset: str, form: str) -> dict[str, torch.Tensor]:
    """A tiny llama compressed by the library; returns the dense weights that it stands for."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    model = tiny_model("llama")
    scheme: Any = preset_name_to_scheme(preset, ["Linear"])
    if scheme.weights.group_size:
        scheme.weights.group_size = 32
    settings = QuantizationConfig(
        config_groups={"group_0": scheme}, ignore=["lm_head"], format=form, quantization_status="frozen"
    )
    apply_quantization_config(model, settings)
    dense = {}
    for name, module in model.named_modules():
        if not hasattr(module, "weight_scale"):
            continue
        weight, group = module.weight.data, scheme.weights.group_size
        rows = weight.reshape(weight.shape[0], -1, group) if group else weight[:, None]
        scale, zero = calculate_qparams(rows.amin(-1), rows.amax(-1), scheme.weights)
        module.weight_scale.data.copy_(scale.reshape(module.weight_scale.shape))
        dense[f"{name}.weight"] = fake_quantize(weight, module.weight_scale.data, zero.to(torch.int8), scheme.weights)
    compressor = ModelCompressor(quantization_config=settings)
    compressor.compress_model(model)
    model.config.save_pretrained(folder)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    compressor.update_config(str(folder))
    return dense


@pytest.mark.parametrize(
    ("preset", "form", "bits"),
    [("W4A16", "pack-quantized", 4), ("W8A16", "pack-quantized", 8), ("FP8_DYNAMIC", "float-quantized", 8)],
)
def test_compressed_tensors(tmp_path: Path, preset: str, form: str, bits: int) -> None:
    dense = compressed(tmp_path, preset, form)
    model = load(tmp_path)
    assert model.format == f"compressed-tensors:{form}"
    assert bits < model.bits_per_weight < 32
    assert 0.3 < model.quantized_fraction < 1
    assert model.head.quantized is False
    weights = dict(model.model.named_parameters())
    assert len(dense) == 14
    for name, weight in dense.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-6, atol=1e-7)


def blockwise_fp8(folder: Path) -> dict[str, torch.Tensor]:
    """A tiny llama in blocks of 128 x 128 with one scale each, as DeepSeek's checkpoints."""
    tiny_model("llama", hidden_size=192, intermediate_size=256).save_pretrained(folder)
    tensors, dense = load_file(folder / "model.safetensors"), {}
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        weight = tensors[name]
        rows, columns = weight.shape
        scale = torch.zeros(-(-rows // 128), -(-columns // 128))
        for i in range(scale.shape[0]):
            for j in range(scale.shape[1]):
                scale[i, j] = weight[128 * i : 128 * (i + 1), 128 * j : 128 * (j + 1)].abs().max() / 448
        wide = scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
        tensors[name] = (weight / wide).to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scale
        dense[name] = tensors[name].float() * wide
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return dense


def test_fp8_in_blocks(tmp_path: Path) -> None:
    dense = blockwise_fp8(tmp_path)
    model = load(tmp_path)
    assert model.format == "fp8"
    weights = dict(model.model.named_parameters())
    for name, weight in dense.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-6, atol=1e-7)
    assert 8 < model.bits_per_weight < 32
    assert "activations are not quantized" in model.notes[0]


def test_settings_without_quantized_weights(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(VariantError, match="none has a scale"):
        load(tmp_path)
