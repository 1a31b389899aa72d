"""How much of a model is quantized, and what it takes to store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

__all__ = ["StoredSize", "count_parameters", "unique_parameters"]


@dataclasses.dataclass(frozen=True)
class StoredSize:
    """Parameters, those that are stored quantized, and the bits that all of them take."""

    n_parameters: int
    n_quantized: int
    n_bits: float
    """Scales and zero points included."""

    @property
    def quantized_fraction(self) -> float:
        """Share of the parameters that is stored quantized, 0 to 1."""
        return self.n_quantized / self.n_parameters

    @property
    def bits_per_weight(self) -> float:
        """Stored bits over parameters."""
        return self.n_bits / self.n_parameters

    @property
    def size_bytes(self) -> int:
        """Bytes of the stored tensors."""
        return round(self.n_bits / 8)


def unique_parameters(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Parameters, a tied matrix once."""
    yield from dict.fromkeys(model.parameters())


def count_parameters(model: torch.nn.Module) -> int:
    """Number of parameters of a model whose weights are dense, a tied matrix once."""
    return sum(parameter.numel() for parameter in unique_parameters(model))
