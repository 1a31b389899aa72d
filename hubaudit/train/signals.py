"""What a run without the regularizer tells about whether one would help: numbers with intervals, no verdict."""

from __future__ import annotations

import dataclasses
import io

from rich.console import Console
from rich.table import Table

from hubaudit.stats.shape_drift import (
    Estimate,
    estimate_forgetting,
    estimate_shape_drift,
    estimate_shape_share,
    mean_of,
)
from hubaudit.train.base_state import State, predicted_tokens, sequence_sums
from hubaudit.train.reference import Reference

__all__ = ["GatingSignals", "SetSignals", "set_signals"]


@dataclasses.dataclass(frozen=True)
class SetSignals:
    """The signals of one set of sequences."""

    name: str
    shape_drift: Estimate
    """`1 - Omega`, identity alignment: condition (i) of the paper asks that it be substantial."""
    shape_share: Estimate
    """Share of shape in the squared drift of the features: condition (ii) asks that shape dominate."""
    forgetting: Estimate
    """Change of the loss, current minus base, in nats a token: what the drift has done to it."""
    n_sequences: int
    n_tokens: int


@dataclasses.dataclass(frozen=True)
class GatingSignals:
    """The paper's two signals, for each set and as the mean over sets.

    Source:
        PRISM, appendix H and table 22, which takes the means over five benchmarks.
    """

    sets: tuple[SetSignals, ...]
    shape_drift: Estimate
    """Mean of `1 - Omega` over the sets."""
    shape_share: Estimate
    """Mean share of shape over the sets."""
    forgetting: Estimate
    """Mean change of the loss over the sets, in nats a token."""

    @classmethod
    def of(cls, sets: tuple[SetSignals, ...]) -> GatingSignals:
        """The sets and their means."""
        return cls(
            sets,
            mean_of([entry.shape_drift for entry in sets], positive=True),
            mean_of([entry.shape_share for entry in sets]),
            mean_of([entry.forgetting for entry in sets]),
        )

    def __str__(self) -> str:
        table = Table("set", "sequences", "tokens", "1 - Omega", "share of shape", "loss, nats a token")
        rows: list[tuple[str, int, int, SetSignals | GatingSignals]]
        rows = [(entry.name, entry.n_sequences, entry.n_tokens, entry) for entry in self.sets]
        if len(rows) > 1:
            rows.append(("mean of sets", sum(row[1] for row in rows), sum(row[2] for row in rows), self))
        for name, sequences, tokens, entry in rows:
            figures = [_text(entry.shape_drift), _text(entry.shape_share), _text(entry.forgetting, signed=True)]
            table.add_row(name, str(sequences), f"{tokens:,}", *figures)
        out = io.StringIO()
        Console(file=out, width=120).print(table)
        return out.getvalue().rstrip()


def set_signals(name: str, reference: Reference, base: State, now: State) -> SetSignals:
    """The signals of one set, from what base and current model make of it."""
    sums = sequence_sums(reference, base, now)
    return SetSignals(
        name=name,
        shape_drift=estimate_shape_drift(sums),
        shape_share=estimate_shape_share(sums),
        forgetting=estimate_forgetting(base.losses.numpy(), now.losses.numpy(), predicted_tokens(reference)),
        n_sequences=len(reference.input_ids),
        n_tokens=reference.n_tokens,
    )


def _text(estimate: Estimate, *, signed: bool = False) -> str:
    if estimate.value is None:
        return f"- ({estimate.reason})"
    form = "+.4g" if signed else ".4g"
    interval = "" if estimate.ci_low is None else f" ({estimate.ci_low:{form}} to {estimate.ci_high:{form}})"
    return f"{estimate.value:{form}}{interval}"
