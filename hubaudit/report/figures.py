"""The table of variants: its columns, and one variant's figures in them.

Markdown, HTML and terminal read the same cells, so that they cannot disagree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from hubaudit.report.cell import Cell
from hubaudit.report.cell_makers import (
    accuracy_cell,
    agreement_cell,
    axis_cell,
    bits_cell,
    bound_cell,
    direction_cell,
    flips_cell,
    gap_cell,
    kl_cell,
    monitor_cell,
    size_cell,
)
from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.text import clean

__all__ = ["COLUMNS", "Column", "cells"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table of variants."""

    key: str
    title: str
    meaning: str
    make: Callable[[Report, VariantReport, str | None], Cell]
    numeric: bool = True


def cells(report: Report, variant: VariantReport, task: str | None) -> dict[str, Cell]:
    """All cells of one variant and task, by column key.

    Args:
        report: The report that holds the variant.
        variant: The variant.
        task: Name of the task, or None where the variant has no task at all.
    """
    return {column.key: _cleaned(column.make(report, variant, task)) for column in COLUMNS}


def _cleaned(cell: Cell) -> Cell:
    """The cell without control characters: a stored report may hold anything in its texts."""
    sort = clean(cell.sort) if isinstance(cell.sort, str) else cell.sort
    return dataclasses.replace(cell, text=clean(cell.text), hint=clean(cell.hint), detail=clean(cell.detail), sort=sort)


COLUMNS: tuple[Column, ...] = (
    Column(key="size", title="Size", make=size_cell, meaning="Stored size of the weights."),
    Column(
        key="bits",
        title="Bits",
        make=bits_cell,
        meaning="Stored bits per weight, scales and zero points included.",
    ),
    Column(
        key="accuracy",
        title="Accuracy",
        make=accuracy_cell,
        meaning="Share of right answers, base → variant.",
    ),
    Column(
        key="agreement",
        title="Kept",
        make=agreement_cell,
        meaning="Share of the base's right answers that the variant also gets right, with its 95% interval. "
        "100% = nothing lost.",
    ),
    Column(
        key="flips",
        title="Flips",
        make=flips_cell,
        meaning="Answers that went from right to wrong (−) or from wrong to right (+).",  # noqa: RUF001 - minus
    ),
    Column(
        key="kl",
        title="KL",
        make=kl_cell,
        meaning="Mean divergence of the variant's token probabilities from the base's, nats per token. 0 = equal.",
    ),
    Column(
        key="bound",
        title="Bound",
        make=bound_cell,
        meaning="PRISM's upper bound of the risk gap, delta (features) + gamma (head), nats per token. It ranks "
        "variants and tells where the drift sits; the gap itself is far smaller.",
    ),
    Column(
        key="gap",
        title="|Risk gap|",
        make=gap_cell,
        meaning="Change of the mean loss on the right answers, nats per token; after ≤ the most that any labels "
        "on these tokens could show.",
    ),
    Column(
        key="axis",
        title="Main axis",
        make=axis_cell,
        numeric=False,
        meaning="Largest part of the bound: scale (length of the features), shape (their arrangement), "
        "head (gamma, the output head).",
    ),
    Column(
        key="direction",
        title="Direction",
        make=direction_cell,
        numeric=False,
        meaning="Whether the direction between the two classes of prompts turned, beyond what the noise of this "
        "many prompts explains.",
    ),
    Column(
        key="monitor",
        title="Monitor",
        make=monitor_cell,
        numeric=False,
        meaning="What happened to a linear monitor's scores: no shift, translation (move the threshold), "
        "attenuation (refit the probe), or both.",
    ),
)
"""The columns of the table of variants, after the variant's name and the task."""
