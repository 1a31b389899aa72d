"""What each plot shows, in words, for those who do not see it: made from the figures, never fixed."""

from __future__ import annotations

from collections.abc import Callable

from hubaudit.report.schema import Report, VariantReport
from hubaudit.report.text import DASH, clean, number, percent, plural, short_labels, size

__all__ = ["axes_alt", "bound_alt", "direction_alt", "flips_alt", "monitor_alt", "size_alt"]

_MOST = 24


def bound_alt(report: Report) -> str:
    """Alt text of the plot of bound against risk gap."""
    pairs = [
        (block.bound, abs(block.risk_gap))
        for variant in report.variants
        for block in variant.prism_bound.values()
        if block.bound is not None and block.risk_gap is not None
    ]
    above = sum(bound >= gap for bound, gap in pairs)

    def one(variant: VariantReport, task: str) -> str | None:
        block = variant.prism_bound.get(task)
        if block is None or block.bound is None or block.risk_gap is None:
            return None
        return f"gap {number(abs(block.risk_gap))}, bound {number(block.bound)}"

    return f"Bound against risk gap: the bound holds at {above} of {plural(len(pairs), 'point')}. {_list(report, one)}"


def axes_alt(report: Report) -> str:
    """Alt text of the plot of the bound's axes."""

    def one(variant: VariantReport, task: str) -> str | None:
        block = variant.prism_bound.get(task)
        if block is None or block.bound is None:
            return None
        gamma = percent(None if not block.bound or block.gamma is None else block.gamma / block.bound, digits=0)
        return f"mostly {block.dominant_axis or DASH}, gamma {gamma} of {number(block.bound)}"

    return f"Shares of scale, shape and gamma in each bound. {_list(report, one)}"


def flips_alt(report: Report) -> str:
    """Alt text of the plot of flips."""

    def one(variant: VariantReport, task: str) -> str | None:
        block = variant.correctness_agreement.get(task)
        if block is None:
            return None
        moved = block.wrong_to_other_wrong
        return f"{block.regressions} lost, {block.recoveries} gained, {moved} moved of {block.n}"

    return f"Answers lost, gained, moved between wrong answers and kept. {_list(report, one)}"


def direction_alt(report: Report) -> str:
    """Alt text of the plot of direction cosines."""
    labels = short_labels([variant.spec for variant in report.variants])
    parts = []
    for name, variant in zip(labels, report.variants, strict=True):
        known = {layer: block.cosine for layer, block in variant.direction_floor.items() if block.cosine is not None}
        if known:
            layer = min(known, key=lambda key: known[key])
            parts.append(f"{name}: lowest {number(known[layer], digits=4)} at block {layer}")
    return f"Cosine of each variant's direction with the base's, by decoder block. {_join(parts)}"


def monitor_alt(report: Report) -> str:
    """Alt text of the plot of monitor scores."""
    labels = short_labels([variant.spec for variant in report.variants])
    parts = [
        f"{name}: {block.verdict or 'undefined'}, slope {number(block.slope)}"
        for name, variant in zip(labels, report.variants, strict=True)
        if (block := variant.translation_attenuation) is not None and variant.monitor is not None
    ]
    return f"Each variant's monitor scores against the base's. {_join(parts)}"


def size_alt(report: Report) -> str:
    """Alt text of the plot of quality against size, the smallest variant first."""
    labels = short_labels([variant.spec for variant in report.variants])
    parts = []
    for name, variant in zip(labels, report.variants, strict=True):
        for task in report.tasks:
            kl = block.kl if (block := variant.divergence.get(task.name)) is not None else None
            kept = (
                found.correctness_agreement
                if (found := variant.correctness_agreement.get(task.name)) is not None
                else None
            )
            if variant.model is not None and (kl is not None or kept is not None):
                where = f" on {clean(task.name)}" if len(report.tasks) > 1 else ""
                text = f"{name}{where}: {size(variant.model.size_bytes)}, KL {number(kl)}, kept {percent(kept)}"
                parts.append((variant.model.size_bytes, text))
    return f"KL, kept answers and bound against size. {_join([text for _, text in sorted(parts)])}"


def _list(report: Report, one: Callable[[VariantReport, str], str | None]) -> str:
    """One entry a variant and task; the task is named where there are several."""
    labels = short_labels([variant.spec for variant in report.variants])
    tasks = [task.name for task in report.tasks]
    parts = []
    for name, variant in zip(labels, report.variants, strict=True):
        for task in tasks:
            if (text := one(variant, task)) is not None:
                parts.append(f"{name}{f' on {clean(task)}' if len(tasks) > 1 else ''}: {text}")
    return _join(parts)


def _join(parts: list[str]) -> str:
    shown = clean("; ".join(parts[:_MOST]))
    return f"{shown}; and {len(parts) - _MOST} more." if len(parts) > _MOST else f"{shown}."
