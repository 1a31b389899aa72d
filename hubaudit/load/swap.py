"""Some of a model's projections replaced for a while by a variant's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch

from hubaudit.load.projection_names import Place, place_of, split, write_parts
from hubaudit.load.structure import text_config

__all__ = ["Key", "projection_shapes", "swapped"]

Key = tuple[int, str]
"""Decoder block, 0 = the first, and projection."""


def projection_shapes(model: torch.nn.Module, parts: tuple[str, ...]) -> dict[Key, torch.Size]:
    """The projections that can be replaced, with the shapes (outputs, inputs) of their matrices.

    Args:
        model: A causal language model with plain weights.
        parts: Which projections.
    """
    return {
        (layer, part): matrix.shape
        for parameter, layer, place in _in_blocks(model)
        for part, matrix in split(parameter.detach(), place, text_config(model)).items()
        if part in parts
    }


@contextlib.contextmanager
def swapped(model: torch.nn.Module, matrices: Mapping[Key, torch.Tensor]) -> Iterator[None]:
    """Put matrices in the place of the model's own; what was there returns bit for bit.

    Args:
        model: The model.
        matrices: By block and projection, of the shapes of `projection_shapes`; biases stay the model's.
    """
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        for parameter, layer, place in _in_blocks(model):
            wanted = {part: matrices[layer, part] for part in place.parts if (layer, part) in matrices}
            if not wanted:
                continue
            weight = parameter.detach()
            kept.append((weight, weight.clone()))
            write_parts(weight, place, text_config(model), wanted)
        yield
    finally:
        for weight, before in kept:
            weight.copy_(before)


def _in_blocks(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Parameter, int, Place]]:
    """The plain projections of decoder blocks; those of experts are left out."""
    for name, parameter in model.named_parameters():
        place = place_of(name)
        if place is not None and place.layer is not None and place.expert is None and parameter.is_floating_point():
            yield parameter, place.layer, place
