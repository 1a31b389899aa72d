"""Whether a model may compute shared prefixes once: measured against the plain path, not looked up."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import torch

from hubaudit.collect.forward import BatchOutput
from hubaudit.collect.plan import Plan, PlannedSequence
from hubaudit.collect.score import score_options
from hubaudit.load.memory import is_out_of_memory
from hubaudit.stats.head import Head

__all__ = ["NOTE_BEGINS", "SharedPrefixCheck", "check_shared_prefix"]

NOTE_BEGINS = "Shared prefixes: "

# Log-likelihoods in nats: what another order of additions explains, per target token.
TOLERANCE = {"float32": 2e-3, "bfloat16": 0.25, "float16": 0.05}
RELATIVE_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.06, "float16": 1e-2}


@dataclasses.dataclass(frozen=True)
class SharedPrefixCheck:
    """What computing shared prefixes once changes."""

    allowed: bool
    max_difference: float
    """Largest difference of an option's log-likelihood, nats a token."""
    note: str
    """One sentence for the report; empty where nothing is shared."""


Forward = Callable[[Sequence[PlannedSequence], bool], BatchOutput]
"""Runs sequences, with shared prefixes or every text in full."""


def check_shared_prefix(plan: Plan, forward: Forward, *, head: Head, dtype: str) -> SharedPrefixCheck:
    """Run the longest packed sequence of options, and of prompts, both ways.

    Architectures whose layers do not take the mask (sliding windows shorter than the text, recurrent or linear
    attention) give other numbers here and so keep the plain path. The packed sequences run whole; in full run only
    their first and last branch, the nearest to the prefix and the farthest from it.

    Args:
        plan: What will be run.
        forward: Runs it.
        head: The model's head.
        dtype: Whose rounding the activations go through: it decides what another order of additions explains.
    """
    packed = [sequence for sequence in plan.sequences if sequence.branches]
    if not packed:
        return SharedPrefixCheck(True, 0.0, "")
    options = [sequence for sequence in packed if sequence.scored][:1]
    prompts = [sequence for sequence in packed if sequence.prompts][:1]
    difference, relative = 0.0, 0.0
    for sequence in options + prompts:
        try:
            ours = forward([sequence], True)
        except (RuntimeError, ValueError, TypeError, IndexError) as exc:
            if is_out_of_memory(exc):
                raise
            # This architecture takes no mask of its own shape.
            return SharedPrefixCheck(False, math.inf, f"{NOTE_BEGINS}not used, the architecture does not take the mask")
        ends = _ends(sequence)
        plain = forward([ends.sequence], False)
        ours = BatchOutput(ours.features[list(ends.rows)], ours.hidden[list(ends.prompts)])
        for one, other in ((ours.features, plain.features), (ours.hidden, plain.hidden)):
            if one.numel():
                relative = max(relative, _relative(one, other))
        scores = [score_options(output.features, [ends.sequence], head) for output in (ours, plain)]
        for scored, a, b in zip(ends.sequence.scored, scores[0].log_likelihood, scores[1].log_likelihood, strict=True):
            difference = max(difference, abs(float(a - b)) / len(scored.target_ids))
    allowed = difference <= TOLERANCE[dtype] and relative <= RELATIVE_TOLERANCE[dtype]
    outcome = "computed once" if allowed else "not used, every text runs in full"
    note = f"{NOTE_BEGINS}{outcome} (they change a log-likelihood by at most {difference:.1e} nats a token)"
    return SharedPrefixCheck(allowed, difference, note)


@dataclasses.dataclass(frozen=True)
class _Ends:
    """A packed sequence without its middle branches, and where its rows stand among the whole one's."""

    sequence: PlannedSequence
    rows: tuple[int, ...]
    prompts: tuple[int, ...]


def _ends(sequence: PlannedSequence) -> _Ends:
    prefix, (first, last) = sequence.prefix_length, (sequence.branches[0], sequence.branches[-1])
    kept = list(dict.fromkeys((*range(first[1]), *range(*last))))
    place = {position: index for index, position in enumerate(kept)}
    branches = dict.fromkeys((place[start], place[stop - 1] + 1) for start, stop in (first, last))
    prompts = [(number, prompt) for number, prompt in enumerate(sequence.prompts) if prompt[1] in place]
    short = PlannedSequence(
        tuple(sequence.input_ids[position] for position in kept),
        tuple(branches),
        tuple(
            dataclasses.replace(scored, positions=tuple(place[position] for position in scored.positions))
            for scored in sequence.scored
            if all(position in place for position in scored.positions)
        ),
        tuple((index, place[position]) for _, (index, position) in prompts),
    )
    assert short.prefix_length == prefix
    here = set(short.scored_positions)
    rows = tuple(row for row, position in enumerate(sequence.scored_positions) if place.get(position) in here)
    return _Ends(short, rows, tuple(number for number, _ in prompts))


def _relative(one: torch.Tensor, other: torch.Tensor) -> float:
    scale = float(other.double().norm())
    return float((one.double() - other.double()).norm()) / scale if scale > 0 else 0.0
