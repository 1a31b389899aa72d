"""A folder of compressed-tensors or FP8 weights, expanded to dense ones.

compressed-tensors are expanded by the library of that name. FP8 weights with a scale a block are expanded here:
transformers 5.24 takes the wrong block for matrices whose sides are no multiple of it.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.load.assemble import assemble
from hubaudit.load.dense import filled_model, read_folder_model
from hubaudit.load.extras import require
from hubaudit.load.folder import check_weights, read_tensors
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.sizes import StoredSize, count_parameters
from hubaudit.load.structure import output_module

__all__ = ["load_dequantized_folder"]

_SCALES = ("weight_scale", "weight_scale_inv")
_NOTE = "The stored weights were expanded to dense ones; activations are not quantized."


def load_dequantized_folder(
    source: ModelSource,
    config: Any,
    quantization: dict[str, Any],
    *,
    method: str,
    dtype: torch.dtype,
    device: torch.device,
) -> LoadedModel:
    """Load weights that are stored with scales, compressed-tensors or FP8.

    Args:
        source: The folder.
        config: The model's configuration, as read from it.
        quantization: Its quantization settings.
        method: `compressed-tensors` or `fp8`.
        dtype: Of activations and expanded weights.
        device: Where it runs.

    Raises:
        MissingExtraError: If the package compressed-tensors is needed and not installed.
        ModelFileError: If the files are broken, or do not fill the model.
        VariantError: If nothing in the folder is quantized.
    """
    if method == "compressed-tensors":
        require("compressed_tensors", extra="compressed", what=source.spec)
    stored = check_weights(source.path)
    stems = {stem for stem, _, ending in (name.rpartition(".") for name in stored.names) if ending in _SCALES}
    model: Any
    if method == "fp8":
        config.quantization_config = None
        model = filled_model(source.path, config, _expanded_fp8(source, quantization, dtype), dtype=dtype)
    else:
        from transformers import CompressedTensorsConfig

        with warnings.catch_warnings():
            # transformers says that it takes the file's own settings, which is what is wanted.
            warnings.simplefilter("ignore")
            expanding = CompressedTensorsConfig(dequantize=True)
            model = read_folder_model(source.path, dtype=dtype, device=device, quantization_config=expanding)
    weights = dict(model.named_parameters())
    quantized = {f"{stem}.weight" for stem in stems} & set(weights)
    if not quantized:
        raise VariantError(
            f"{source.spec}: expected quantized weights by its settings ({method}), but none has a scale; "
            "check that the right files were published"
        )
    # The settings are spent: a later save or copy must not take the weights for packed ones.
    model.config.quantization_config = None
    head = output_module(model)
    n_quantized = sum(weights[name].numel() for name in quantized)
    return assemble(
        source,
        model,
        file_format=_label(method, quantization),
        dtype=dtype,
        device=device,
        size=StoredSize(count_parameters(model), n_quantized, 8 * stored.n_bytes),
        head_quantized=any(weights[name] is head.weight for name in quantized),
        notes=[_NOTE],
    )


def _expanded_fp8(source: ModelSource, quantization: dict[str, Any], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All tensors under their names, the 8-bit ones times their scales."""
    block = quantization.get("weight_block_size") or [1, 1]
    if not (isinstance(block, list | tuple) and len(block) == 2 and all(isinstance(n, int) and n > 0 for n in block)):
        raise ModelFileError(f"{source.spec}: expected weight_block_size as two numbers, got {str(block)[:60]}")
    stored = dict(read_tensors(source.path))
    scales = {name: stored.pop(name) for name in list(stored) if name.rpartition(".")[2] in _SCALES}
    for name, scale in scales.items():
        weight_name = f"{name.rpartition('.')[0]}.weight"
        weight = stored.get(weight_name)
        if weight is None or weight.dim() != 2:
            raise ModelFileError(f"{source.spec}: expected a matrix {weight_name[:120]} for its scale, got none")
        rows, columns = weight.shape
        shape = (-(-rows // block[0]), -(-columns // block[1]))
        if scale.dim() == 2 and tuple(scale.shape) == shape:
            scale = scale.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
        elif scale.numel() not in (1, rows):
            raise ModelFileError(
                f"{source.spec}: expected a scale for each of {shape[0]} x {shape[1]} blocks of {weight_name[:120]}, "
                f"got {list(scale.shape)}; download the model again"
            )
        else:
            scale = scale.reshape(-1, 1)
        stored[weight_name] = (weight.float() * scale.float()).to(dtype)
    return stored


def _label(method: str, quantization: dict[str, Any]) -> str:
    """`compressed-tensors:pack-quantized`, `fp8`."""
    form = quantization.get("format")
    return (
        f"{method}:{form}"
        if method == "compressed-tensors" and isinstance(form, str) and form.isprintable()
        else method
    )
