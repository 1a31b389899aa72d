"""A dense base quantized on the spot with bitsandbytes: `bnb:int8`, `bnb:nf4`, `bnb:fp4`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from hubaudit.errors import InputError
from hubaudit.load.assemble import assemble
from hubaudit.load.dense import read_folder_model
from hubaudit.load.extras import require
from hubaudit.load.folder import check_weights
from hubaudit.load.memory import trim
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.quiet import silence_int8_casts
from hubaudit.load.sizes import StoredSize, count_parameters, unique_parameters
from hubaudit.load.structure import is_linear, output_matrix
from hubaudit.load.weight_error import WeightError

__all__ = ["EXPANDED_NOTE", "INT8_THRESHOLD", "dequantize_4bit", "expand_4bit", "expand_int8", "load_bnb"]

_OPTIONS = ("int8", "nf4", "fp4")
_BLOCK = 64  # weights that share a float32 scale in 4-bit formats, bitsandbytes' default
_TRIM_AFTER = 1 << 24  # quantized weights between two returns of freed memory
INT8_THRESHOLD = 6.0
"""Activations above it are multiplied in 16 bit, transformers' default."""
EXPANDED_NOTE = "4-bit weights were expanded to dense ones on the CPU: the same numbers, multiplied faster."


def load_bnb(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool = False
) -> LoadedModel:
    """Load the base and quantize each linear layer that transformers would, one after the other.

    INT8 also quantizes activations, so it always runs natively. 4-bit formats run natively on a GPU; on
    the CPU their weights are expanded in place, which gives the same result several times faster.

    Raises:
        InputError: If the option is not `int8`, `nf4` or `fp4`.
        MissingExtraError: If bitsandbytes is not installed.
        ModelFileError: If the base cannot be loaded.
    """
    option = source.option
    if option not in _OPTIONS:
        raise InputError(f"bnb:{option}: expected one of bnb:{', bnb:'.join(_OPTIONS)}.")
    require("bitsandbytes", extra="bnb", what=source.spec)
    weights = check_weights(source.path)
    # Read on the CPU even for a GPU, so that a layer reaches the GPU in its small form.
    cpu = torch.device("cpu")
    model = read_folder_model(source.path, dtype=dtype, device=cpu, trust_remote_code=trust_remote_code)
    n_parameters = count_parameters(model)
    native = option == "int8" or device.type != "cpu"
    error = WeightError()
    n_quantized, quantized_bits, trimmed_at = 0, 0.0, 0
    for name in [name for name, _ in _quantizable(model)]:
        module = model.get_submodule(name)
        matrix = output_matrix(module)
        n_quantized += matrix.numel()
        if option == "int8":
            quantized_bits += 8 * matrix.numel() + 32 * matrix.shape[0]
            model.set_submodule(name, _int8_layer(module, device, error))
        else:
            quantized_bits += 4 * matrix.numel() + 32 * -(-matrix.numel() // _BLOCK)
            expanded = expand_4bit(matrix, option, error)
            if native:
                model.set_submodule(name, _native_4bit_layer(module, option, dtype, device))
            else:
                matrix.copy_(expanded)
        if n_quantized - trimmed_at > _TRIM_AFTER:
            trim()
            trimmed_at = n_quantized
    if native:
        _leave_file(model)
    if option == "int8":
        silence_int8_casts()
    bits = quantized_bits + (n_parameters - n_quantized) * weights.bits_per_element
    return assemble(
        source,
        model,
        file_format=f"bnb:{option}",
        engine="bitsandbytes" if native else "torch",
        dtype=dtype,
        device=device,
        size=StoredSize(n_parameters, n_quantized, bits),
        weight_error=error.relative,
        notes=[] if native else [EXPANDED_NOTE],
    )


def _quantizable(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that transformers' bitsandbytes integration converts: linear ones, the head left out."""
    from transformers.quantizers.base import get_keys_to_not_convert
    from transformers.quantizers.quantizers_utils import should_convert_module

    skipped = [*get_keys_to_not_convert(model), *(getattr(model, "_keep_in_fp32_modules", None) or [])]
    for name, module in model.named_modules():
        if is_linear(module) and should_convert_module(name, skipped):
            yield name, module


def _leave_file(model: nn.Module) -> None:
    """Copy what is still dense out of the mapped safetensors, or the whole file stays in memory beside it."""
    for parameter in unique_parameters(model):
        if parameter.device.type == "cpu" and parameter.is_floating_point():
            parameter.data = parameter.data.clone()


def expand_4bit(matrix: torch.Tensor, option: str, error: WeightError) -> torch.Tensor:
    """What a weight becomes by 4-bit quantization in blocks of 64, in its own dtype."""
    from bitsandbytes import functional

    packed, state = functional.quantize_4bit(
        matrix.contiguous(), blocksize=_BLOCK, quant_type=option, compress_statistics=False
    )
    expanded = dequantize_4bit(packed, state)
    error.add(matrix, expanded)
    return expanded


def dequantize_4bit(packed: torch.Tensor, state: Any) -> torch.Tensor:
    """The numbers that a packed 4-bit weight stands for.

    Blocks run over the whole weight, across the ends of rows. bitsandbytes' kernel for the CPU (0.50.2)
    starts each row with a new block, which corrupts weights whose rows are no multiple of the block; so
    the weight is expanded as a single row.
    """
    from bitsandbytes import functional

    flat = copy.copy(state)
    flat.shape = torch.Size((1, state.shape.numel()))
    expanded = functional.dequantize_4bit(packed, flat)
    assert isinstance(expanded, torch.Tensor)
    return expanded.reshape(state.shape)


def _native_4bit_layer(module: nn.Module, option: str, dtype: torch.dtype, device: torch.device) -> nn.Module:
    from bitsandbytes.nn import Linear4bit, Params4bit

    matrix = output_matrix(module)
    layer = Linear4bit(
        matrix.shape[1],
        matrix.shape[0],
        bias=module.bias is not None,
        compute_dtype=dtype,
        compress_statistics=False,
        quant_type=option,
        device="meta",
    )
    layer.weight = Params4bit(
        matrix.contiguous(),
        requires_grad=False,
        compress_statistics=False,
        quant_type=option,
        blocksize=_BLOCK,
        module=layer,
    ).to(device)
    return _with_bias(layer, module, device)


def expand_int8(matrix: torch.Tensor) -> torch.Tensor:
    """The numbers that a weight stands for after 8-bit quantization with a scale a row, float32, on the CPU."""
    from bitsandbytes.nn import Int8Params

    weight = Int8Params(matrix.contiguous(), requires_grad=False, has_fp16_weights=False).to(torch.device("cpu"))
    values: torch.Tensor = weight.CB.float() * weight.SCB.float()[:, None] / 127
    return values


def _int8_layer(module: nn.Module, device: torch.device, error: WeightError) -> nn.Module:
    from bitsandbytes.nn import Int8Params, Linear8bitLt

    matrix = output_matrix(module)
    layer = Linear8bitLt(
        matrix.shape[1],
        matrix.shape[0],
        bias=module.bias is not None,
        has_fp16_weights=False,
        threshold=INT8_THRESHOLD,
        device="meta",
    )
    # Quantization happens in `to`. A copy, because on the CPU the parameter's own data is replaced.
    weight = Int8Params(matrix.contiguous(), requires_grad=False, has_fp16_weights=False).to(device)
    error.add(matrix, weight.CB, weight.SCB / 127)
    layer.weight = weight
    return _with_bias(layer, module, device)


def _with_bias(layer: Any, module: nn.Module, device: torch.device) -> nn.Module:
    if isinstance(module.bias, torch.Tensor):
        layer.bias = nn.Parameter(module.bias.detach().to(device), requires_grad=False)
    assert isinstance(layer, nn.Module)
    return layer
