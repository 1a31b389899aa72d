"""16-bit products on a CPU without instructions for them: in float32, rounded as the 16-bit kernels round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from hubaudit.load.placement import cpu_multiplies_bfloat16
from hubaudit.load.recast import Recast
from hubaudit.load.structure import is_linear, output_matrix, output_module

__all__ = ["multiply_in_float32", "products_are_emulated"]


def products_are_emulated(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch would emulate products of this dtype on this device, several times slower than float32's."""
    return device.type == "cpu" and dtype == torch.bfloat16 and not cpu_multiplies_bfloat16()


def multiply_in_float32(model: nn.Module) -> Callable[[], None]:
    """Let the linear maps of a 16-bit model multiply in float32, one at a time, and round their outputs.

    A product of two bfloat16 numbers is exact in float32, and the kernels add such products in float32 as well, so
    only the order of additions differs from theirs. Weights stay 16-bit in memory; the one in use is converted.

    Args:
        model: A causal language model whose linear maps have the dtype that its activations have.

    Returns:
        A function that ends it.
    """
    recast = Recast(torch.float32)

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        recast.cast(module)
        return (args[0].float(), *args[1:])

    def after(module: nn.Module, _: Any, output: torch.Tensor | None) -> torch.Tensor | None:
        recast.restore(module)
        return output.to(output_matrix(module).dtype) if output is not None else None

    handles = []
    head = output_module(model)  # multiplies one row, which is not worth its conversion
    for module in model.modules():
        if is_linear(module) and module is not head:
            handles.append(module.register_forward_pre_hook(before))
            # Whoever put the weights there before us takes them away after us.
            handles.append(module.register_forward_hook(after, prepend=True, always_call=True))

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end
