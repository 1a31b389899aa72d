"""One batch through a model: features at the head's input and hidden states, nothing else kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hubaudit.collect.plan import PlannedSequence
from hubaudit.errors import NonFiniteError, VariantError
from hubaudit.load import LoadedModel

__all__ = ["BatchOutput", "forward_batch"]

PAD_ID = 0


class BatchOutput:
    """What one batch leaves: head inputs of scored positions and hidden states of prompts."""

    def __init__(self, features: torch.Tensor, hidden: torch.Tensor) -> None:
        """Keep the tensors.

        Args:
            features: (positions, d) head inputs; for each sequence its scored positions in order.
            hidden: (prompts, layers, width) outputs of the chosen blocks at the last token.
        """
        self.features = features
        self.hidden = hidden


def scored_length(sequence: PlannedSequence) -> int:
    """Positions at the end of a sequence that some option is predicted from."""
    return max((len(scored.target_ids) for scored in sequence.scored), default=0)


@torch.inference_mode()
def forward_batch(model: LoadedModel, sequences: Sequence[PlannedSequence], layers: Sequence[int]) -> BatchOutput:
    """Run sequences of about equal length, padded at the right.

    Attention is causal and the padding comes last, so no real token sees it and no mask is needed.

    Args:
        model: The model.
        sequences: At least one.
        layers: Decoder blocks to read at the last token of contrast prompts.

    Returns:
        Features and hidden states in the model's dtype.

    Raises:
        NonFiniteError: If any of them is NaN or infinite; names the first block where it happens.
        VariantError: If the model's head does not receive one row a token.
    """
    lengths = [len(sequence.input_ids) for sequence in sequences]
    ids = torch.full((len(sequences), max(lengths)), PAD_ID, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : lengths[row]] = torch.tensor(sequence.input_ids, dtype=torch.long)
    ids = ids.to(model.device)
    with_prompt = [row for row, sequence in enumerate(sequences) if sequence.prompt is not None]
    last = torch.tensor([lengths[row] - 1 for row in with_prompt], dtype=torch.long, device=model.device)
    rows = torch.tensor(with_prompt, dtype=torch.long, device=model.device)
    captured: dict[int, torch.Tensor] = {}
    with _head_input(model) as head_input, contextlib.ExitStack() as hooks:
        if with_prompt:
            for layer in layers:
                hooks.enter_context(_block_output(model, layer, rows, last, captured))
        model.model(input_ids=ids, use_cache=False)
    features = _rows_of(head_input, ids.shape)
    scored = torch.cat(
        [features[row, lengths[row] - scored_length(sequence) : lengths[row]] for row, sequence in enumerate(sequences)]
    )
    width = captured[layers[0]].shape[-1] if captured else 0
    hidden = (
        torch.stack([captured[layer] for layer in layers], dim=1)
        if captured
        else torch.zeros((0, len(layers), width), dtype=scored.dtype)
    )
    if not (torch.isfinite(scored).all() and torch.isfinite(hidden).all()):
        raise NonFiniteError(_first_non_finite(model, ids))
    return BatchOutput(scored.cpu(), hidden.cpu())


@contextlib.contextmanager
def _head_input(model: LoadedModel) -> Iterator[list[torch.Tensor]]:
    """Take what the head receives, and let the model multiply one position only."""
    taken: list[torch.Tensor] = []

    def before(_: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        taken.append(args[0])
        return (args[0][..., -1:, :], *args[1:])

    head = model.model.get_output_embeddings()  # type: ignore[operator]  # every causal LM of transformers has it
    handle = head.register_forward_pre_hook(before)
    try:
        yield taken
    finally:
        handle.remove()


@contextlib.contextmanager
def _block_output(
    model: LoadedModel, layer: int, rows: torch.Tensor, last: torch.Tensor, captured: dict[int, torch.Tensor]
) -> Iterator[None]:
    def after(_: torch.nn.Module, __: Any, output: Any) -> None:
        state = output[0] if isinstance(output, tuple) else output
        captured[layer] = state[rows.to(state.device), last.to(state.device)].to(model.device)

    handle = model.layers[layer].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def _rows_of(head_input: list[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    if len(head_input) != 1 or head_input[0].numel() % shape.numel():
        raise VariantError(
            f"the model's head was called {len(head_input)} times in one pass; expected once, with a row a token; "
            "this architecture cannot be audited yet"
        )
    return head_input[0].reshape(*shape, -1)


def _first_non_finite(model: LoadedModel, ids: torch.Tensor) -> str:
    """Run the batch again and say where it breaks."""
    broken: list[int] = []
    with contextlib.ExitStack() as hooks:
        for index, block in enumerate(model.layers):

            def after(_: torch.nn.Module, __: Any, output: Any, index: int = index) -> None:
                state = output[0] if isinstance(output, tuple) else output
                if not broken and not torch.isfinite(state).all():
                    broken.append(index)

            hooks.callback(block.register_forward_hook(after).remove)
        hooks.enter_context(_head_input(model))
        model.model(input_ids=ids, use_cache=False)
    where = f"decoder block {broken[0]}" if broken else "the last norm, before the head"
    remedy = "try --dtype float32" if model.dtype == "bfloat16" else "try --dtype bfloat16"
    return f"{model.source.spec}: activations are NaN or infinite from {where} on; {remedy}"
