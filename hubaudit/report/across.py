"""What a report says of all variants together, in words: which figure ranks them, and drift by step."""

from __future__ import annotations

from hubaudit.report.schema import Report
from hubaudit.report.series_block import Series
from hubaudit.report.text import clean, number, plural

__all__ = ["across_sentences"]


def across_sentences(report: Report) -> list[str]:
    """One sentence on the pooled ranking and one a series of checkpoints; none where the report holds neither."""
    said = []
    if (sentence := _ranking(report)) is not None:
        said.append(sentence)
    return said + [_series(block) for block in report.series]


def _ranking(report: Report) -> str | None:
    block = report.ranking_pooled
    if block is None:
        return None
    parts = []
    for name, value in block.spearman.items():
        if value is None or name.endswith("_procrustes"):
            continue
        low, high = block.ci_low.get(name), block.ci_high.get(name)
        span = "" if low is None or high is None else f" ({number(low, signed=True)} to {number(high, signed=True)})"
        parts.append(f"{name} {number(value, signed=True)}{span}")
    if not parts:
        return None
    n = max(block.n_used.values())
    return f"rank correlation with the risk gap, mean over tasks, {plural(n, 'variant')}: {', '.join(parts)}"


def _series(block: Series) -> str:
    where = f"{clean(block.name)} on {clean(block.task)}"
    if block.spearman is None:
        return f"{where}: {plural(len(block.points), 'checkpoint')}; {block.reasons.get('spearman', 'undefined')}"
    first, last = block.points[0], block.points[-1]
    return (
        f"{where}, steps {first.step} to {last.step}: bound {number(first.bound)} to {number(last.bound)}, "
        f"risk gap {number(first.risk_gap, signed=True)} to {number(last.risk_gap, signed=True)}; "
        f"rank correlation of bound and |gap| over {block.n} steps {number(block.spearman, signed=True)}"
    )
