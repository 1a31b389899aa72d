"""A table cell: one figure of one variant, with its meaning, or with the reason why it is undefined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hubaudit.report.schema import Floor, Report, VariantReport
from hubaudit.report.text import DASH, number

__all__ = ["Cell", "compute_floor", "undefined"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of one variant."""

    text: str
    """The figure as shown; a dash where it is undefined."""
    hint: str
    """Meaning, n, the value without any change; or why it is undefined."""
    detail: str = ""
    """Shown small beside the figure: an interval or a split."""
    sort: float | str | None = None
    """What the column sorts by; None sorts last."""
    below_floor: bool = False
    """Whether the computation alone explains a figure of this size."""
    interval: tuple[float, float, float] | None = None
    """Low, value, high on a scale of 0 to 1, where a bar helps."""


def undefined(variant: VariantReport, result: Any, key: str) -> Cell:
    """A dash, with the best reason that the report holds."""
    if result is not None:
        reason = result.reasons.get(key, "the report gives no reason")
    elif variant.error is not None:
        reason = f"the variant could not be audited: {variant.error.message}"
    elif variant.status == "interrupted":
        reason = "the audit was interrupted before this was measured"
    else:
        reason = "not part of this audit; the findings say why where there was an obstacle"
    return Cell(text=DASH, hint=f"Undefined: {reason}")


def compute_floor(report: Report, variant: VariantReport, task: str, key: str) -> tuple[bool, str]:
    """Whether a figure lies below the compute floor, and the sentence about the floor."""
    below = key in variant.below_floor.get(task, [])
    floors: list[float] = []
    if report.compute_floor is not None:
        for part in (report.compute_floor.batch, report.compute_floor.dtype):
            floor: Floor | None = part.get(task)
            value = None if floor is None else getattr(floor, key)
            if value is not None:
                floors.append(abs(value))
    sentence = f" Compute floor: {number(max(floors))}." if floors else ""
    if below:
        sentence += " This figure lies below the compute floor: the computation alone explains it."
    return below, sentence
