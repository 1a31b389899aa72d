"""The same model in another dtype, one module at a time: no second copy in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from hubaudit.load import LoadedModel
from hubaudit.load.emulated_products import multiply_in_float32, products_are_emulated
from hubaudit.load.recast import Recast

__all__ = ["computed_in"]


@contextlib.contextmanager
def computed_in(model: LoadedModel, dtype: torch.dtype) -> Iterator[None]:
    """Run the model's floating-point modules in another dtype while the context is open.

    Each module's own parameters are cast just before it runs and put back after, so that memory grows by
    the largest module only. Meant for the compute floor of a dense base.

    Args:
        model: A model whose parameters are floating point.
        dtype: The dtype to compute in.
    """
    recast = Recast(dtype)

    def before(module: torch.nn.Module, _: Any) -> None:
        recast.cast(module)

    def after(module: torch.nn.Module, _: Any, __: Any) -> None:
        recast.restore(module)

    stated = model.dtype
    with contextlib.ExitStack() as hooks:
        # Masks and tolerances follow the model's dtype, so they must follow this one meanwhile.
        model.dtype = str(dtype).removeprefix("torch.")
        hooks.callback(setattr, model, "dtype", stated)
        for module in model.model.modules():
            if next(module.parameters(recurse=False), None) is not None:
                hooks.callback(module.register_forward_pre_hook(before, prepend=True).remove)
                hooks.callback(module.register_forward_hook(after, always_call=True).remove)
        if products_are_emulated(dtype, model.device):
            hooks.callback(multiply_in_float32(model.model))
        yield
