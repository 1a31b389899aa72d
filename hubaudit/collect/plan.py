"""What is run: every token once, sorted by length, in batches that follow from shapes alone.

Sequences that begin alike (the options of an item, the prompts of one chat template) are packed into one: the
shared prefix, then the branches behind it one after the other. Each branch sees the prefix and itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hubaudit.tasks import TokenizedTask

__all__ = ["Plan", "PlanRows", "PlannedSequence", "Scored", "build_plan", "cut_batches"]

BATCHES_PER_SHARD = 8
# A shorter prefix saves less than the mask costs; a longer row costs attention between strangers.
MIN_PREFIX = 4
MAX_PACKED_TOKENS = 256
# What one more call of the model costs, in tokens: two batches without padding beat one with more padding than this.
CALL_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class Scored:
    """One option of an item: its target tokens and the positions that predict them."""

    task: int
    item: int
    option: int
    gold: bool
    target_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Positions in the packed sequence, one a target token."""


@dataclasses.dataclass(frozen=True)
class PlannedSequence:
    """Token ids to feed once, with everything that is read off them."""

    input_ids: tuple[int, ...]
    branches: tuple[tuple[int, int], ...] = ()
    """First and one past the last position of each branch behind the shared prefix; empty for one plain text."""
    scored: tuple[Scored, ...] = ()
    prompts: tuple[tuple[int, int], ...] = ()
    """For each contrast prompt that ends here its index and the position of its last token."""

    @property
    def prefix_length(self) -> int:
        """Tokens that all branches share; all tokens where there are no branches."""
        return self.branches[0][0] if self.branches else len(self.input_ids)

    @cached_property
    def scored_positions(self) -> tuple[int, ...]:
        """Every position that predicts a target token, once, in order."""
        return tuple(sorted({position for scored in self.scored for position in scored.positions}))


@dataclasses.dataclass(frozen=True)
class PlanRows:
    """Which gold token each row of a shard's features predicts."""

    task: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The sequences of one audit in running order.

    The same plan serves base and variants, so that every model sees the same batches.
    """

    tasks: tuple[TokenizedTask, ...]
    sequences: tuple[PlannedSequence, ...]
    shards: tuple[tuple[tuple[int, int], ...], ...]
    """The units that are written and resumed, each a run of batches: first and one past the last sequence."""
    layers: tuple[int, ...]
    """Decoder blocks whose output is read at the last token of contrast prompts."""
    n_prompts: int

    @property
    def n_tokens(self) -> int:
        """Tokens that are fed, padding not counted."""
        return sum(len(sequence.input_ids) for sequence in self.sequences)

    @cached_property
    def token_ids(self) -> frozenset[int]:
        """The token ids that are fed or predicted."""
        fed = {token for sequence in self.sequences for token in sequence.input_ids}
        scored = (option for sequence in self.sequences for option in sequence.scored)
        return frozenset(fed | {token for option in scored for token in option.target_ids})

    @property
    def max_token_id(self) -> int:
        """The largest of them."""
        return max(self.token_ids)

    def prompt_texts(self) -> list[tuple[int, ...]]:
        """Token ids of the contrast prompts in their order."""
        texts: dict[int, tuple[int, ...]] = {}
        for sequence in self.sequences:
            for index, last in sequence.prompts:
                start = max((start for start, _ in sequence.branches if start <= last), default=0)
                prefix = sequence.input_ids[: sequence.prefix_length] if start else ()
                texts[index] = prefix + sequence.input_ids[start : last + 1]
        return [texts[index] for index in sorted(texts)]

    def shard_sequences(self, shard: int) -> tuple[PlannedSequence, ...]:
        """The sequences of one shard in running order."""
        return self.sequences[self.shards[shard][0][0] : self.shards[shard][-1][1]]

    def shard_batches(self, shard: int) -> Iterator[tuple[PlannedSequence, ...]]:
        """The batches of one shard in running order."""
        for start, stop in self.shards[shard]:
            yield self.sequences[start:stop]

    def one_by_one(self) -> Plan:
        """The same sequences and shards, every sequence in a batch of its own."""
        single = tuple(
            tuple((index, index + 1) for start, stop in shard for index in range(start, stop)) for shard in self.shards
        )
        return dataclasses.replace(self, shards=single)

    def shard_rows(self, shard: int) -> PlanRows:
        """Task, item and label of every feature row of one shard."""
        rows = [
            (scored.task, scored.item, token)
            for sequence in self.shard_sequences(shard)
            for scored in sequence.scored
            if scored.gold
            for token in scored.target_ids
        ]
        table = np.asarray(rows, dtype=np.int64).reshape(len(rows), 3)
        return PlanRows(table[:, 0], table[:, 1], table[:, 2])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the forward passes depend on."""
        content = [[dataclasses.astuple(sequence) for sequence in self.sequences], self.shards, self.layers]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class _Text:
    """One text before packing: what is predicted by its last positions, or that its last token is read."""

    input_ids: tuple[int, ...]
    scored: tuple[Scored, ...] = ()
    prompt: int | None = None


def build_plan(
    tasks: Sequence[TokenizedTask],
    prompts: Sequence[tuple[int, ...]],
    *,
    batch_tokens: int,
    layers: Iterable[int],
) -> Plan:
    """Merge equal inputs, pack what begins alike, sort by length and cut into batches.

    Args:
        tasks: Tokenized tasks.
        prompts: Token ids of the contrast prompts, class A first.
        batch_tokens: Tokens of a batch, padding included; a longer sequence gets a batch of its own.
        layers: Decoder blocks to read at the prompts' last tokens.

    Returns:
        The plan; the longest sequences come first, so that a lack of memory shows at once.
    """
    groups = [
        _texts(task_index, task, index) for task_index, task in enumerate(tasks) for index in range(len(task.items))
    ]
    groups.append([_Text(ids, prompt=index) for index, ids in enumerate(prompts)])
    sequences = [sequence for group in groups for sequence in _packed(group)]
    sequences.sort(key=lambda sequence: -len(sequence.input_ids))
    batches = cut_batches([len(sequence.input_ids) for sequence in sequences], batch_tokens)
    shards = (tuple(batches[at : at + BATCHES_PER_SHARD]) for at in range(0, len(batches), BATCHES_PER_SHARD))
    return Plan(tuple(tasks), tuple(sequences), tuple(shards), tuple(layers), len(prompts))


def cut_batches(lengths: Sequence[int], batch_tokens: int) -> list[tuple[int, int]]:
    """Cut falling lengths into runs of the least total cost, padding and calls counted in tokens.

    Args:
        lengths: Tokens of each sequence, the longest first.
        batch_tokens: Most tokens of a run, padding included, unless it is a single sequence.

    Returns:
        First and one past the last sequence of each run.
    """
    cost, first = [0] * (len(lengths) + 1), [0] * (len(lengths) + 1)
    for stop in range(1, len(lengths) + 1):
        # The longest sequence of a run is its first one; a run of one is always allowed.
        start = stop - 1
        cost[stop], first[stop] = cost[start] + CALL_TOKENS + lengths[start], start
        while start > 0 and (stop - start + 1) * lengths[start - 1] <= batch_tokens:
            start -= 1
            padded = cost[start] + CALL_TOKENS + (stop - start) * lengths[start]
            if padded < cost[stop]:
                cost[stop], first[stop] = padded, start
    runs, stop = [], len(lengths)
    while stop:
        runs.append((first[stop], stop))
        stop = first[stop]
    return runs[::-1]


def _texts(task_index: int, task: TokenizedTask, item_index: int) -> list[_Text]:
    """The texts of one item; options that feed the same tokens (single letters) are one text."""
    item = task.items[item_index]
    merged: dict[tuple[int, ...], list[Scored]] = {}
    for index, option in enumerate(item.options):
        end, length = len(option.input_ids), len(option.target_ids)
        merged.setdefault(option.input_ids, []).append(
            Scored(
                task_index, item_index, index, index == item.gold, option.target_ids, tuple(range(end - length, end))
            )
        )
    return [_Text(ids, tuple(scored)) for ids, scored in merged.items()]


def _packed(texts: list[_Text]) -> Iterator[PlannedSequence]:
    """Texts that begin alike as few sequences, each with one copy of the prefix."""
    prefix = _common_prefix([text.input_ids for text in texts])
    if len(texts) < 2 or prefix < MIN_PREFIX:
        for text in texts:
            yield _joined([text], len(text.input_ids))
        return
    row: list[_Text] = []
    length = prefix
    for text in texts:
        more = len(text.input_ids) - prefix
        if row and length + more > MAX_PACKED_TOKENS:
            yield _joined(row, prefix)
            row, length = [], prefix
        row.append(text)
        length += more
    yield _joined(row, prefix)


def _common_prefix(ids: list[tuple[int, ...]]) -> int:
    """Tokens that all begin with."""
    columns = enumerate(zip(*ids, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, ids), default=0))


def _joined(texts: list[_Text], prefix: int) -> PlannedSequence:
    if len(texts) == 1:
        prefix = len(texts[0].input_ids)
    ids = list(texts[0].input_ids[:prefix])
    branches, scored, prompts = [], [], []
    for text in texts:
        start = len(ids)
        ids += text.input_ids[prefix:]
        if len(ids) > start:
            branches.append((start, len(ids)))
        shift = start - prefix
        for option in text.scored:
            positions = tuple(place if place < prefix else place + shift for place in option.positions)
            scored.append(dataclasses.replace(option, positions=positions))
        if text.prompt is not None:
            last = len(text.input_ids) - 1
            prompts.append((text.prompt, last if last < prefix else last + shift))
    return PlannedSequence(tuple(ids), tuple(branches), tuple(scored), tuple(prompts))
