"""One batch through a model: features at the head's input and hidden states, nothing else kept."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hubaudit.collect.pack import ModelInputs, packed_inputs, plain_paths
from hubaudit.collect.plan import PlannedSequence, cut_batches
from hubaudit.errors import NonFiniteError, VariantError
from hubaudit.load import LoadedModel
from hubaudit.load.head_input import head_input
from hubaudit.load.non_finite import first_non_finite

__all__ = ["BatchOutput", "forward_batch"]


@dataclasses.dataclass(frozen=True)
class BatchOutput:
    """What one batch leaves, in the model's dtype, on the CPU."""

    features: torch.Tensor
    """(positions, d) head inputs; for each sequence its scored positions in order."""
    hidden: torch.Tensor
    """(prompts, layers, width) outputs of the chosen blocks at the prompts' last tokens."""


@torch.inference_mode()
def forward_batch(
    model: LoadedModel, sequences: Sequence[PlannedSequence], layers: Sequence[int], *, shared: bool = True
) -> BatchOutput:
    """Run sequences of about equal length.

    Args:
        model: The model.
        sequences: At least one.
        layers: Decoder blocks to read at the last token of contrast prompts.
        shared: Whether branches share their prefix's computation; otherwise every text runs in full.

    Returns:
        Features and hidden states; the same rows in the same order either way.

    Raises:
        NonFiniteError: If any of them is NaN or infinite; names the first block where it happens.
        VariantError: If the model's head does not receive one row a token.
    """
    if shared or not any(sequence.branches for sequence in sequences):
        return _run(model, sequences, layers)
    return _run_plain(model, sequences, layers)


def _run(model: LoadedModel, sequences: Sequence[PlannedSequence], layers: Sequence[int]) -> BatchOutput:
    scored = [(row, at) for row, sequence in enumerate(sequences) for at in sequence.scored_positions]
    prompts = [(row, at) for row, sequence in enumerate(sequences) for _, at in sequence.prompts]
    return _read(model, sequences, layers, scored, prompts)


def _run_plain(model: LoadedModel, sequences: Sequence[PlannedSequence], layers: Sequence[int]) -> BatchOutput:
    """Every text in full, in batches of their own: what a packed batch holds is several times longer so."""
    texts: list[PlannedSequence] = []
    scored, prompts = [], []
    for sequence in sequences:
        own, places = plain_paths(sequence)
        scored += [(len(texts) + places[at][0], places[at][1]) for at in sequence.scored_positions]
        prompts += [(len(texts) + places[at][0], places[at][1]) for _, at in sequence.prompts]
        texts += own
    order = sorted(range(len(texts)), key=lambda text: -len(texts[text].input_ids))
    budget = len(sequences) * max(len(sequence.input_ids) for sequence in sequences)
    parts: list[BatchOutput] = []
    rows: tuple[list[int], list[int]] = ([], [])
    for start, stop in cut_batches([len(texts[text].input_ids) for text in order], budget):
        row_of = {text: row for row, text in enumerate(order[start:stop])}
        chosen = [[index for index, (text, _) in enumerate(wanted) if text in row_of] for wanted in (scored, prompts)]
        here = [
            [(row_of[wanted[index][0]], wanted[index][1]) for index in indices]
            for wanted, indices in zip((scored, prompts), chosen, strict=True)
        ]
        parts.append(_read(model, [texts[text] for text in order[start:stop]], layers, *here))
        rows[0].extend(chosen[0])
        rows[1].extend(chosen[1])
    features = torch.cat([part.features for part in parts])
    hidden = torch.cat([part.hidden for part in parts])
    return BatchOutput(features[_inverse(rows[0])], hidden[_inverse(rows[1])])


def _inverse(order: list[int]) -> torch.Tensor:
    return torch.argsort(torch.tensor(order, dtype=torch.long))


def _read(
    model: LoadedModel,
    sequences: Sequence[PlannedSequence],
    layers: Sequence[int],
    scored: list[tuple[int, int]],
    prompts: list[tuple[int, int]],
) -> BatchOutput:
    """Run the sequences and read (row, position) pairs: head inputs at `scored`, block outputs at `prompts`."""
    inputs = packed_inputs(sequences, dtype=getattr(torch, model.dtype), device=model.device)
    captured: dict[int, torch.Tensor] = {}
    with head_input(_head(model)) as taken, contextlib.ExitStack() as hooks:
        if prompts:
            for layer in layers:
                hooks.enter_context(_block_output(model, layer, prompts, captured))
        _call(model, inputs)
    rows = _rows_of(taken, inputs.input_ids.shape)
    features = _pick(rows, scored)
    hidden = (
        torch.stack([captured[layer] for layer in layers], dim=1)
        if prompts
        else features.new_zeros((0, len(layers), rows.shape[-1]))
    )
    if not (torch.isfinite(features).all() and torch.isfinite(hidden).all()):
        raise NonFiniteError(_non_finite(model, inputs))
    return BatchOutput(features.cpu(), hidden.cpu())


def _call(model: LoadedModel, inputs: ModelInputs) -> None:
    if inputs.position_ids is None:
        model.model(input_ids=inputs.input_ids, use_cache=False)
    else:
        model.model(
            input_ids=inputs.input_ids,
            position_ids=inputs.position_ids,
            attention_mask=inputs.attention_mask,
            use_cache=False,
        )


def _pick(states: torch.Tensor, places: list[tuple[int, int]]) -> torch.Tensor:
    index = torch.tensor(places, dtype=torch.long, device=states.device).reshape(len(places), 2)
    return states[index[:, 0], index[:, 1]]


def _head(model: LoadedModel) -> torch.nn.Module:
    head: torch.nn.Module = model.model.get_output_embeddings()  # type: ignore[operator]  # every causal LM has it
    return head


@contextlib.contextmanager
def _block_output(
    model: LoadedModel, layer: int, places: list[tuple[int, int]], captured: dict[int, torch.Tensor]
) -> Iterator[None]:
    def after(_: torch.nn.Module, __: Any, output: Any) -> None:
        captured[layer] = _pick(_state(output), places).to(model.device)

    handle = model.layers[layer].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def _state(output: Any) -> torch.Tensor:
    state: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return state


def _rows_of(taken: list[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    if len(taken) != 1 or taken[0].numel() % shape.numel():
        raise VariantError(
            f"the model's head was called {len(taken)} times in one pass; expected once, with a row a token; "
            "this architecture cannot be audited yet"
        )
    return taken[0].reshape(*shape, -1)


def _non_finite(model: LoadedModel, inputs: ModelInputs) -> str:
    def again() -> None:
        with head_input(_head(model)):
            _call(model, inputs)

    where = first_non_finite(model.layers, again)
    remedy = "try --dtype float32" if model.dtype == "bfloat16" else "try --dtype bfloat16"
    return f"{model.source.spec}: activations are NaN or infinite from {where} on; {remedy}"
