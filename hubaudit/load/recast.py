"""A module's own parameters in another dtype while it runs: no second copy of the model."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Recast"]


class Recast:
    """Casts parameters before a module runs and puts the originals back after it."""

    def __init__(self, dtype: torch.dtype) -> None:
        """Cast to a dtype."""
        self._dtype = dtype
        self._kept: dict[int, list[tuple[nn.Parameter, torch.Tensor]]] = {}

    def cast(self, module: nn.Module) -> None:
        """Cast the floating-point parameters that belong to this very module."""
        own = [
            parameter
            for parameter in module.parameters(recurse=False)
            if parameter.is_floating_point() and parameter.dtype != self._dtype
        ]
        self._kept[id(module)] = [(parameter, parameter.data) for parameter in own]
        for parameter in own:
            parameter.data = parameter.data.to(self._dtype)

    def restore(self, module: nn.Module) -> None:
        """Put the originals back; nothing happens where nothing was cast."""
        for parameter, data in self._kept.pop(id(module), []):
            parameter.data = data
