"""What is run: every sequence once, sorted by length, in batches that follow from shapes alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hubaudit.tasks import TokenizedTask

__all__ = ["Plan", "PlanRows", "PlannedSequence", "Scored", "build_plan"]

BATCHES_PER_SHARD = 8


@dataclasses.dataclass(frozen=True)
class Scored:
    """One option that a sequence predicts at its last positions."""

    task: int
    item: int
    option: int
    target_ids: tuple[int, ...]
    gold: bool


@dataclasses.dataclass(frozen=True)
class PlannedSequence:
    """Token ids to feed once, with everything that is read off them."""

    input_ids: tuple[int, ...]
    scored: tuple[Scored, ...] = ()
    prompt: int | None = None
    """Index of the contrast prompt whose last token is read, or None."""


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
        content = {
            "sequences": [
                [sequence.input_ids, [dataclasses.astuple(scored) for scored in sequence.scored], sequence.prompt]
                for sequence in self.sequences
            ],
            "shards": self.shards,
            "layers": self.layers,
        }
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def build_plan(
    tasks: Sequence[TokenizedTask],
    prompts: Sequence[tuple[int, ...]],
    *,
    batch_tokens: int,
    layers: Iterable[int],
) -> Plan:
    """Merge equal inputs, sort by length and cut into batches.

    Args:
        tasks: Tokenized tasks.
        prompts: Token ids of the contrast prompts, class A first.
        batch_tokens: Tokens of a batch, padding included; a longer sequence gets a batch of its own.
        layers: Decoder blocks to read at the prompts' last tokens.

    Returns:
        The plan; the longest sequences come first, so that a lack of memory shows at once.
    """
    # Options that share all they feed (the letters of one question) are one sequence.
    merged: dict[tuple[int, ...], list[Scored]] = {}
    for task_index, task in enumerate(tasks):
        for item_index, item in enumerate(task.items):
            for option_index, option in enumerate(item.options):
                merged.setdefault(option.input_ids, []).append(
                    Scored(task_index, item_index, option_index, option.target_ids, option_index == item.gold)
                )
    sequences = [PlannedSequence(ids, tuple(scored)) for ids, scored in merged.items()]
    sequences += [PlannedSequence(ids, (), index) for index, ids in enumerate(prompts)]
    sequences.sort(key=lambda sequence: -len(sequence.input_ids))
    batches: list[tuple[int, int]] = []
    start = 0
    while start < len(sequences):
        length = len(sequences[start].input_ids)
        stop = min(start + max(1, batch_tokens // length), len(sequences))
        batches.append((start, stop))
        start = stop
    shards = (tuple(batches[at : at + BATCHES_PER_SHARD]) for at in range(0, len(batches), BATCHES_PER_SHARD))
    return Plan(tuple(tasks), tuple(sequences), tuple(shards), tuple(layers), len(prompts))
