"""What is run: every sequence once, sorted by length, in batches that follow from shapes alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
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
    batches: tuple[tuple[int, int], ...]
    """First and one past the last sequence of each batch."""
    layers: tuple[int, ...]
    """Decoder blocks whose output is read at the last token of contrast prompts."""
    n_prompts: int

    @property
    def shards(self) -> tuple[tuple[int, int], ...]:
        """First and one past the last batch of each shard: the unit that is written and resumed."""
        n = len(self.batches)
        return tuple((start, min(start + BATCHES_PER_SHARD, n)) for start in range(0, n, BATCHES_PER_SHARD))

    @property
    def n_tokens(self) -> int:
        """Tokens that are fed, padding not counted."""
        return sum(len(sequence.input_ids) for sequence in self.sequences)

    @cached_property
    def max_token_id(self) -> int:
        """The largest token id that is fed or predicted."""
        return max(
            max((*sequence.input_ids, *(token for scored in sequence.scored for token in scored.target_ids)))
            for sequence in self.sequences
        )

    def shard_sequences(self, shard: int) -> tuple[PlannedSequence, ...]:
        """The sequences of one shard in running order."""
        first, last = self.shards[shard]
        return self.sequences[self.batches[first][0] : self.batches[last - 1][1]]

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
            "batches": self.batches,
            "layers": self.layers,
        }
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def build_plan(
    tasks: Sequence[TokenizedTask],
    prompts: Sequence[tuple[int, ...]],
    *,
    batch_tokens: int,
    layers: Iterable[int],
    one_by_one: bool = False,
) -> Plan:
    """Merge equal inputs, sort by length and cut into batches.

    Args:
        tasks: Tokenized tasks.
        prompts: Token ids of the contrast prompts, class A first.
        batch_tokens: Tokens of a batch, padding included; a longer sequence gets a batch of its own.
        layers: Decoder blocks to read at the prompts' last tokens.
        one_by_one: Every sequence in a batch of its own, for the compute floor.

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
        count = 1 if one_by_one else max(1, batch_tokens // length)
        stop = min(start + count, len(sequences))
        batches.append((start, stop))
        start = stop
    return Plan(tuple(tasks), tuple(sequences), tuple(batches), tuple(layers), len(prompts))
