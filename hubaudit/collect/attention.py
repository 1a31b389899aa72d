"""A model's attention weights and features with one projection after the other swapped, block by block."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hubaudit.collect.pack import packed_inputs
from hubaudit.collect.plan import Plan, PlannedSequence
from hubaudit.errors import VariantError
from hubaudit.load import LoadedModel
from hubaudit.load.head_input import head_input
from hubaudit.load.structure import output_module, text_config
from hubaudit.load.swap import Key, swapped
from hubaudit.stats.arrays import Float64
from hubaudit.stats.logits import row_statistics
from hubaudit.stats.sensitivity import SwapSums

__all__ = ["attention_kl", "collect_swaps", "show_attention"]

IMPLEMENTATION = "eager"


@dataclasses.dataclass(frozen=True)
class _Pass:
    attentions: list[torch.Tensor]
    """(rows, heads, queries, keys) of each block that ran."""
    features: torch.Tensor
    """(positions, d) at the scored positions."""


def show_attention(model: LoadedModel) -> None:
    """Switch to an attention that returns its weights, and say so in the model's notes.

    Args:
        model: Is changed.

    Raises:
        VariantError: If it cannot be switched.
    """
    before = getattr(text_config(model.model), "_attn_implementation", None)
    if before == IMPLEMENTATION:
        return
    try:
        model.model.set_attn_implementation(IMPLEMENTATION)  # type: ignore[operator]
    except (AttributeError, ValueError, ImportError) as exc:
        raise VariantError(
            f"{model.source.spec}: attention weights need the attention implementation {IMPLEMENTATION}, to which this "
            f"architecture cannot be switched from {before}; audit it without attention"
        ) from exc
    model.notes.append(f"Attention ran as {IMPLEMENTATION}: {before} computes no attention weights.")


@torch.inference_mode()
def collect_swaps(
    model: LoadedModel,
    plan: Plan,
    swaps: Sequence[Mapping[Key, torch.Tensor]],
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> list[SwapSums]:
    """Run a plan as it is and once a swap.

    Blocks before the first swapped one are not run again: what they put out is known.

    Args:
        model: The base, after `show_attention`; is as before when done.
        plan: Of gold texts only, without branches.
        swaps: The matrices of each swap, by block and projection.
        advance: Called with the number of tokens after every pass.

    Returns:
        The sums of each swap over each item of the plan, in the order of tasks and items.

    Raises:
        VariantError: If the model returns no attention weights of every block.
    """
    sums = [_Sums(plan) for _ in swaps]
    for shard in range(len(plan.shards)):
        for batch in plan.shard_batches(shard):
            _check_plain(batch)
            outputs: list[Any] = []
            base = _run(model, batch, outputs, first=0)
            for entry, matrices in zip(sums, swaps, strict=True):
                first = min(layer for layer, _ in matrices)
                with swapped(model.model, matrices):
                    now = _run(model, batch, outputs, first=first)
                entry.add(model, batch, base, now, first)
                advance(sum(len(sequence.input_ids) for sequence in batch))
    return [entry.sums() for entry in sums]


def attention_kl(base: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """KL(base || now) of attention weights, mean over heads.

    Weights in bfloat16 do not add up to 1; the divergence for measures, `sum p log(p / q) - p + q`, is never negative
    and is the KL where they do.

    Args:
        base: (rows, heads, queries, keys).
        now: The same of the swapped model.

    Returns:
        Nats by row and query, (rows, queries), float64.
    """
    p, q = base.double(), now.double()
    tiny = torch.finfo(torch.float32).tiny
    terms = torch.special.xlogy(p, p.clamp_min(tiny) / q.clamp_min(tiny)) - p + q
    divergence: torch.Tensor = terms.sum(-1).mean(1)
    return divergence


class _Sums:
    """Sums by item, filled batch by batch."""

    def __init__(self, plan: Plan) -> None:
        self._places = {
            (task, item): at
            for at, (task, item) in enumerate(
                (task, item) for task, entry in enumerate(plan.tasks) for item in range(len(entry.items))
            )
        }
        self._table: Float64 = np.zeros((7, len(self._places)))

    def add(self, model: LoadedModel, batch: Sequence[PlannedSequence], base: _Pass, now: _Pass, first: int) -> None:
        # Blocks that did not run again attend as before: they add 0.
        n_layers = len(base.attentions)
        rows = sum(attention_kl(one, other) for one, other in zip(base.attentions[first:], now.attentions, strict=True))
        assert isinstance(rows, torch.Tensor)
        by_position = (rows / n_layers).cpu().numpy()
        device = model.head.weight.device
        kl = row_statistics(base.features.to(device), now.features.to(device), model.head).kl
        z_base, z_now = (entry.features.double().cpu().numpy() for entry in (base, now))
        start = 0
        for row, sequence in enumerate(batch):
            stop = start + len(sequence.scored_positions)
            mine = slice(start, stop)
            figures = (
                by_position[row, : len(sequence.input_ids)].sum(),
                len(sequence.input_ids),
                kl[mine].sum(),
                np.square(z_base[mine]).sum(),
                np.square(z_now[mine]).sum(),
                np.square(z_base[mine] - z_now[mine]).sum(),
                stop - start,
            )
            for scored in sequence.scored:
                self._table[:, self._places[scored.task, scored.item]] += figures
            start = stop

    def sums(self) -> SwapSums:
        return SwapSums(*self._table)


def _check_plain(batch: Sequence[PlannedSequence]) -> None:
    if any(sequence.branches for sequence in batch):
        raise ValueError("expected texts without branches; plan the gold options only")


def _run(model: LoadedModel, batch: Sequence[PlannedSequence], outputs: list[Any], *, first: int) -> _Pass:
    """One pass; the blocks' outputs are kept where `first` is 0 and nothing is known, else reused before `first`."""
    inputs = packed_inputs(batch, dtype=getattr(torch, model.dtype), device=model.device)
    with head_input(output_module(model.model)) as taken, contextlib.ExitStack() as stack:
        if not outputs:
            stack.enter_context(_recorded(model, outputs))
        else:
            stack.enter_context(_replayed(model, outputs, first))
        answer = model.model(input_ids=inputs.input_ids, use_cache=False, output_attentions=True)
    attentions = [entry for entry in answer.attentions or () if entry is not None]
    expected = len(model.layers) - first
    if len(attentions) != expected or any(entry.dim() != 4 for entry in attentions):
        raise VariantError(
            f"{model.source.spec}: expected attention weights of {expected} decoder blocks, got {len(attentions)}; "
            "state-space, linear-attention and hybrid blocks have none, so their attention cannot be compared"
        )
    features = taken[0].reshape(*inputs.input_ids.shape, -1)
    scored = [(row, at) for row, sequence in enumerate(batch) for at in sequence.scored_positions]
    index = torch.tensor(scored, device=features.device)
    return _Pass(attentions, features[index[:, 0], index[:, 1]])


@contextlib.contextmanager
def _recorded(model: LoadedModel, outputs: list[Any]) -> Iterator[None]:
    handles = [layer.register_forward_hook(lambda _, __, out: outputs.append(out)) for layer in model.layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _replayed(model: LoadedModel, outputs: list[Any], first: int) -> Iterator[None]:
    """Blocks before `first` return what they returned for the base."""
    with contextlib.ExitStack() as stack:
        for layer, output in zip(model.layers[:first], outputs, strict=False):
            layer.forward = lambda *_, _output=output, **__: _output
            stack.callback(layer.__dict__.pop, "forward")
        yield
