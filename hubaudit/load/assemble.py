"""From a filled model to a `LoadedModel`: freeze it, find its parts, check its head."""

from __future__ import annotations

import torch

from hubaudit.load.emulated_products import multiply_in_float32, products_are_emulated
from hubaudit.load.head_map import measure_head
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.placement import dtype_name
from hubaudit.load.quiet import quiet_transformers
from hubaudit.load.sizes import StoredSize
from hubaudit.load.structure import decoder_layers

__all__ = ["assemble"]


def assemble(
    source: ModelSource,
    model: torch.nn.Module,
    *,
    file_format: str,
    dtype: torch.dtype,
    device: torch.device,
    size: StoredSize,
    engine: str = "torch",
    head_quantized: bool = False,
    weight_error: float | None = None,
    notes: list[str] | None = None,
) -> LoadedModel:
    """Move a model to its device, switch it to inference, and check its head map.

    Args:
        source: What was loaded.
        model: A causal language model with all weights in place.
        file_format: As `LoadedModel.format`.
        dtype: Of activations and dense weights.
        device: Where it runs.
        size: What storing it takes.
        engine: As `LoadedModel.engine`.
        head_quantized: Whether the head's weight is stored quantized.
        weight_error: As `LoadedModel.weight_error`.
        notes: Sentences for the report.

    Raises:
        VariantError: If the head cannot be observed or does not give the model's logits.
    """
    model = model.to(device).eval().requires_grad_(False)
    if products_are_emulated(dtype, device):
        multiply_in_float32(model)
    with quiet_transformers():
        head, check = measure_head(model, quantized=head_quantized)
    return LoadedModel(
        source=source,
        format=file_format,
        engine=engine,
        dtype=dtype_name(dtype),
        device=device,
        model=model,
        head=head,
        layers=decoder_layers(model),
        quantized_fraction=size.quantized_fraction,
        bits_per_weight=size.bits_per_weight,
        size_bytes=size.size_bytes,
        weight_error=weight_error,
        head_check=check,
        notes=list(notes or []),
    )
