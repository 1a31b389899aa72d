"""Sequences of a plan through llama.cpp: prefixes first, then their branches from copies of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from hubaudit.collect.llamacpp_context import Context, Outputs, Run
from hubaudit.collect.pack import plain_paths
from hubaudit.collect.plan import PlannedSequence, cut_batches

__all__ = ["forward_sequences", "longest_slot"]


@dataclasses.dataclass(frozen=True)
class _Text:
    """What runs in a slot of its own, and what goes on from copies of it."""

    run: Run
    branches: tuple[Run, ...]


def longest_slot(sequences: Sequence[PlannedSequence]) -> int:
    """Tokens that a slot must hold: the longest text, with the padding that its block may bring."""
    texts = [text for sequence in sequences for text in _texts(sequence, 0, shared=True)]
    prefix = max((len(text.run.ids) for text in texts), default=1)
    # A branch is padded to the longest one of its block, which may have begun behind a shorter prefix.
    return prefix + max((len(run.ids) for text in texts for run in text.branches), default=0)


def forward_sequences(
    context: Context,
    sequences: Sequence[PlannedSequence],
    *,
    shared: bool,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Outputs]:
    """Run sequences of any lengths and read their scored positions.

    Args:
        context: With slots of at least `longest_slot` tokens.
        sequences: At least one.
        shared: Whether branches go on from a copy of their prefix; otherwise every text runs in full.
        advance: Called with the number of tokens that were run.

    Yields:
        Features and logits; rows are the scored positions of all sequences in running order.
    """
    texts: list[_Text] = []
    row = 0
    for sequence in sequences:
        if sequence.scored:
            texts += _texts(sequence, row, shared=shared)
        row += len(sequence.scored_positions)
    texts.sort(key=lambda text: -len(text.run.ids))
    branched = any(text.branches for text in texts)
    # Most prefixes have several branches.
    n_prefixes = max(1, context.n_slots // 4) if branched else context.n_slots
    for block in _blocks([text.run for text in texts], context.batch_tokens, n_prefixes):
        context.clear()
        here = [texts[at] for at in block]
        yield from context.run([text.run for text in here], 0)
        advance(sum(len(text.run.ids) for text in here))
        yield from _branches(context, here, n_prefixes, advance)


def _branches(
    context: Context, texts: Sequence[_Text], first_slot: int, advance: Callable[[int], None]
) -> Iterator[Outputs]:
    for slot, text in enumerate(texts):
        if text.branches:
            context.cut(slot, len(text.run.ids))  # the padding
    work = [(slot, run) for slot, text in enumerate(texts) for run in text.branches]
    work.sort(key=lambda pair: -len(pair[1].ids))
    for block in _blocks([run for _, run in work], context.batch_tokens, context.n_slots - first_slot):
        for target, at in enumerate(block, start=first_slot):
            context.copy(work[at][0], target)
        yield from context.run([work[at][1] for at in block], first_slot)
        advance(sum(len(work[at][1].ids) for at in block))


def _blocks(runs: Sequence[Run], batch_tokens: int, n_slots: int) -> Iterator[range]:
    """Runs of neighbours, the longest first, that fit into a call and into the slots."""
    for start, stop in cut_batches([len(run.ids) for run in runs], batch_tokens):
        for at in range(start, stop, n_slots):
            yield range(at, min(at + n_slots, stop))


def _texts(sequence: PlannedSequence, first_row: int, *, shared: bool) -> list[_Text]:
    row_of = {position: first_row + row for row, position in enumerate(sequence.scored_positions)}
    if not shared:
        texts, places = plain_paths(sequence)
        outputs: list[dict[int, int]] = [{} for _ in texts]
        for position, row in row_of.items():
            text, place = places[position]
            outputs[text][place] = row
        return [_Text(Run(text.input_ids, 0, out), ()) for text, out in zip(texts, outputs, strict=True) if out]
    prefix = sequence.prefix_length

    def part(start: int, stop: int) -> Run:
        outputs = {position - start: row_of[position] for position in range(start, stop) if position in row_of}
        return Run(sequence.input_ids[start:stop], min(start, prefix), outputs)

    return [_Text(part(0, prefix), tuple(part(start, stop) for start, stop in sequence.branches))]
