"""What a model's head receives: the features that PRISM compares."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["head_input"]


@contextlib.contextmanager
def head_input(head: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    """Take what the head receives, and let it multiply one position only.

    Args:
        head: The module of `get_output_embeddings()`.

    Yields:
        A list that holds the features of each call, of any shape (..., d), with their graph where gradients are on.
    """
    taken: list[torch.Tensor] = []

    def before(_: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states = args[0]
        taken.append(states)
        # One row, contiguous: for a strided batch, torch would copy the whole head once a sequence.
        return (states[(slice(0, 1),) * (states.dim() - 1)].contiguous(), *args[1:])

    handle = head.register_forward_pre_hook(before)
    try:
        yield taken
    finally:
        handle.remove()
