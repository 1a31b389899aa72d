"""A folder that was saved quantized with bitsandbytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hubaudit.load.assemble import assemble
from hubaudit.load.bnb import EXPANDED_NOTE, dequantize_4bit
from hubaudit.load.dense import read_folder_model
from hubaudit.load.extras import require
from hubaudit.load.folder import check_weights
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.quiet import silence_int8_casts
from hubaudit.load.sizes import StoredSize, unique_parameters
from hubaudit.load.structure import output_module

__all__ = ["load_bnb_folder"]

_DENSE_BITS = 16


def load_bnb_folder(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool = False
) -> LoadedModel:
    """Load pre-quantized bitsandbytes weights; 4-bit ones are expanded on the CPU, and a quantized head anywhere.

    Raises:
        MissingExtraError: If bitsandbytes is not installed.
        ModelFileError: If the files cannot be read or do not fill the model.
    """
    require("bitsandbytes", extra="bnb", what=source.spec)
    check_weights(source.path)
    model = read_folder_model(source.path, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    silence_int8_casts()
    size, label = _stored_size(model)
    head = output_module(model)
    head_quantized = _kind(head) is not None
    native = False
    for name, module in list(model.named_modules()):
        kind = _kind(module)
        # The head must be a dense matrix to be a head map at all.
        if kind is not None and (module is head or (kind != "int8" and device.type == "cpu")):
            model.set_submodule(name, _dense_layer(module, dtype))
        elif kind is not None:
            native = True
    return assemble(
        source,
        model,
        file_format=f"bnb:{label}",
        engine="bitsandbytes" if native else "torch",
        dtype=dtype,
        device=device,
        size=size,
        head_quantized=head_quantized,
        notes=[EXPANDED_NOTE] if label != "int8" and device.type == "cpu" else [],
    )


def _kind(module: nn.Module) -> str | None:
    """`int8`, `nf4` or `fp4` for a quantized layer."""
    from bitsandbytes.nn import Linear4bit, Linear8bitLt

    if isinstance(module, Linear8bitLt):
        return "int8"
    return str(module.weight.quant_state.quant_type) if isinstance(module, Linear4bit) else None


def _stored_size(model: nn.Module) -> tuple[StoredSize, str]:
    """Size from the quantized modules, and the kind that most of them have."""
    n_quantized, bits, kinds = 0, 0.0, dict[str, int]()
    packed = set()
    for module in model.modules():
        kind = _kind(module)
        if kind is None:
            continue
        weight: Any = module.weight
        n_inputs, n_outputs = int(module.in_features), int(module.out_features)  # type: ignore[arg-type]  # torch types attributes loosely
        packed.add(weight)
        n_quantized += n_inputs * n_outputs
        kinds[kind] = kinds.get(kind, 0) + n_inputs * n_outputs
        if kind == "int8":
            bits += 8 * n_inputs * n_outputs + 32 * n_outputs
        else:
            bits += 4 * n_inputs * n_outputs + _scale_bits(weight.quant_state)
    n_dense = sum(parameter.numel() for parameter in unique_parameters(model) if parameter not in packed)
    size = StoredSize(n_dense + n_quantized, n_quantized, bits + n_dense * _DENSE_BITS)
    return size, max(kinds, key=lambda kind: kinds[kind], default="none")


def _scale_bits(state: Any) -> int:
    """Bits of a 4-bit weight's scales, which may themselves be quantized."""
    bits = 8 * state.absmax.element_size() * state.absmax.numel()
    if state.nested:
        bits += 8 * state.state2.absmax.element_size() * state.state2.absmax.numel() + 32
    return int(bits)


def _dense_layer(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A plain linear layer with the numbers that a quantized one stands for."""
    weight: Any = module.weight
    if _kind(module) == "int8":
        values = weight.data.float() * weight.SCB.float()[:, None] / 127
    else:
        values = dequantize_4bit(weight.data, weight.quant_state)
    layer = nn.Linear(values.shape[1], values.shape[0], bias=module.bias is not None, device="meta")
    layer.weight = nn.Parameter(values.to(dtype), requires_grad=False)
    if isinstance(module.bias, torch.Tensor):
        layer.bias = nn.Parameter(module.bias.detach().to(dtype), requires_grad=False)
    return layer
