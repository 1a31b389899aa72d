"""What a task is, as text: items with options to score, or an answer to force."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from hubaudit.errors import InputError

__all__ = ["Item", "Task", "TaskKind", "sample_items"]

TaskKind = Literal["multiple_choice", "answer", "corpus"]


@dataclasses.dataclass(frozen=True)
class Item:
    """One item: for every option the text before it and the text whose probability counts.

    For answers and corpora there is one option, the gold text.
    """

    item_id: str
    contexts: tuple[str, ...]
    """Text before each option; the same one repeated where options share it."""
    continuations: tuple[str, ...]
    """Text scored for each option, with its leading space."""
    options: tuple[str, ...]
    """What is shown for each option; its length in characters divides `acc_norm`."""
    gold: int
    """Which option is right."""
    subject: str | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit each other."""
        if not len(self.contexts) == len(self.continuations) == len(self.options):
            raise InputError(f"item {self.item_id}: every option needs a context and a continuation")
        if not 0 <= self.gold < len(self.options):
            raise InputError(
                f"item {self.item_id}: the answer must be one of {len(self.options)} options, but is number {self.gold}"
            )


@dataclasses.dataclass(frozen=True)
class Task:
    """A named list of items and how their answers count."""

    name: str
    kind: TaskKind
    source: str
    """Dataset id with revision, or file."""
    headline_metric: str
    """`acc`, `acc_norm`, `exact_match`, or `none` for a corpus."""
    items: tuple[Item, ...]
    joined_tokens: bool = True
    """Context and continuation are tokenized as one string (lm-eval's way) or apart."""


def sample_items(items: list[Item], limit: int | None, *, seed: int) -> tuple[Item, ...]:
    """A sample without replacement in the original order.

    Args:
        items: All items.
        limit: How many to keep; None or more than there are keeps all.
        seed: Seed of the sample.

    Returns:
        The chosen items.
    """
    if limit is None or limit >= len(items):
        return tuple(items)
    chosen = np.random.default_rng(seed).choice(len(items), size=limit, replace=False)
    return tuple(items[index] for index in sorted(chosen.tolist()))
