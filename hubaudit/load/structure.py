"""The parts of a causal language model that every loader needs: head, blocks, linear weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from hubaudit.errors import VariantError

__all__ = ["decoder_layers", "is_linear", "linear_modules", "output_matrix", "output_module", "text_config"]


def text_config(model: nn.Module) -> Any:
    """The configuration of a model's language part."""
    return model.config.get_text_config()  # type: ignore[operator, union-attr]  # torch types attributes loosely


def output_module(model: nn.Module) -> nn.Module:
    """The module that maps features to raw logits, `get_output_embeddings()`.

    Raises:
        VariantError: If the model has none.
    """
    get = getattr(model, "get_output_embeddings", None)
    head = get() if callable(get) else None
    if not isinstance(head, nn.Module) or getattr(head, "weight", None) is None:
        raise VariantError(
            f"{type(model).__name__}: expected a causal language model with an output head, got none. "
            "Encoders and sequence-to-sequence models cannot be audited."
        )
    return head


def decoder_layers(model: nn.Module) -> list[nn.Module]:
    """The decoder's blocks, in order.

    Raises:
        VariantError: If no list of as many blocks as the configuration states is found.
    """
    n_layers = text_config(model).num_hidden_layers
    get_decoder = getattr(model, "get_decoder", None)
    decoder = get_decoder() if callable(get_decoder) else model
    # A vision tower may have as many blocks: the decoder is searched first, the whole model after it.
    for root in (decoder, model):
        for module in root.modules() if isinstance(root, nn.Module) else ():
            if isinstance(module, nn.ModuleList) and len(module) == n_layers:
                return list(module)
    raise VariantError(
        f"{type(model).__name__}: expected a list of {n_layers} decoder blocks in the model, got none. "
        "This architecture is not supported."
    )


def is_linear(module: nn.Module) -> bool:
    """Whether it is a plain linear map (also GPT-2's transposed one), as quantizers see it."""
    return type(module) is nn.Linear or isinstance(module, Conv1D)


def linear_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Names and modules of the linear maps inside the decoder's blocks."""
    inside = {module for layer in decoder_layers(model) for module in layer.modules()}
    head = output_module(model)
    for name, module in model.named_modules():
        if module in inside and module is not head and is_linear(module):
            yield name, module


def output_matrix(module: nn.Module) -> torch.Tensor:
    """The weight of a linear map as a view of shape (outputs, inputs)."""
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return weight.detach().T if isinstance(module, Conv1D) else weight.detach()
