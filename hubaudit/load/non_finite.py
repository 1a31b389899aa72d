"""Where in a model NaN or infinity begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["first_non_finite"]


def first_non_finite(layers: Sequence[nn.Module], call: Callable[[], object]) -> str:
    """Run a model once more and name the first block whose output is not finite.

    Args:
        layers: Decoder blocks in order.
        call: Runs the forward pass that gave NaN or infinity.

    Returns:
        `decoder block 3`, or that it begins behind the last block.
    """
    broken: list[int] = []
    with contextlib.ExitStack() as hooks:
        for index, block in enumerate(layers):

            def after(_: nn.Module, __: Any, output: Any, index: int = index) -> None:
                state = output[0] if isinstance(output, tuple) else output
                if not broken and not torch.isfinite(state).all():
                    broken.append(index)

            hooks.callback(block.register_forward_hook(after).remove)
        with torch.inference_mode():
            call()
    return f"decoder block {broken[0]}" if broken else "the last norm or the head"
