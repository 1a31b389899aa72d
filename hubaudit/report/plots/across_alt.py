"""Alt texts of the plots over all variants."""

from __future__ import annotations

from hubaudit.report.across import across_sentences
from hubaudit.report.schema import Report
from hubaudit.report.text import clean, number

__all__ = ["ranking_alt", "series_alt"]


def ranking_alt(report: Report) -> str:
    """Alt text of the plot of rank correlations."""
    parts = []
    for task, block in report.ranking.items():
        known = [f"{name} {number(value, signed=True)}" for name, value in block.spearman.items() if value is not None]
        parts.append(f"{clean(task)}: {', '.join(known)}")
    return f"Rank correlation of each figure with the risk gap. {'; '.join(parts)}."


def series_alt(report: Report) -> str:
    """Alt text of the plot of checkpoints."""
    said = across_sentences(report.model_copy(update={"ranking_pooled": None}))
    return f"Bound and risk gap by training step. {'; '.join(said)}."
