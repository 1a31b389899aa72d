"""How far quantized weights are from those they came from."""

from __future__ import annotations

import dataclasses
import math

import torch

__all__ = ["WeightError"]

# Numbers that are compared at once, so that float32 copies of a large weight stay small.
_BLOCK_ELEMENTS = 1 << 20


@dataclasses.dataclass
class WeightError:
    """Accumulates `||W_variant - W_base||_F / ||W_base||_F` over tensors, in float64."""

    squared_error: float = 0.0
    squared_norm: float = 0.0

    @torch.no_grad()
    def add(self, base: torch.Tensor, variant: torch.Tensor, row_scale: torch.Tensor | None = None) -> None:
        """Count a weight.

        Args:
            base: Shape (outputs, inputs), any dtype.
            variant: The same shape; any dtype, integers too.
            row_scale: Shape (outputs,), multiplied into the variant's rows, or None.
        """
        block = max(1, _BLOCK_ELEMENTS // base.shape[1])
        for start in range(0, base.shape[0], block):
            rows = base[start : start + block].float()
            other = variant[start : start + block].to(rows.device).float()
            if row_scale is not None:
                other = other * row_scale[start : start + block, None].to(other)
            self.squared_error += float(torch.sum((other - rows).square(), dtype=torch.float64))
            self.squared_norm += float(torch.sum(rows.square(), dtype=torch.float64))

    @property
    def relative(self) -> float | None:
        """The relative error; None where there was nothing, or only zeros."""
        return math.sqrt(self.squared_error / self.squared_norm) if self.squared_norm else None
