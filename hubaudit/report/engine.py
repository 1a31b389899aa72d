"""A GGUF variant's drift by cause, in a sentence and in a table: its weights, and the engine that runs them."""

from __future__ import annotations

from hubaudit.report.describe import describe
from hubaudit.report.details import FigureRow, FigureTable, Value
from hubaudit.report.schema import EngineStep, VariantReport
from hubaudit.report.text import DASH, clean, number, percent

__all__ = ["engine_sentence", "engine_table"]

_KEYS = ("kl", "kl_se", "risk_gap", "answers_changed", "top1_agreement", "omega", "d_mean_square", "bound")
_STEPS = (("weights", "weights"), ("engine_step", "engine"), ("total", "both"))


def engine_sentence(variant: VariantReport) -> str | None:
    """What the weights and what llama.cpp change, on the task where both together change most; None without a split."""
    split = variant.engine_split
    if split is None or not split.total:
        return None
    task = max(split.total, key=lambda name: split.total[name].kl or 0.0)
    weights, engine, both = (getattr(split, name)[task] for name, _ in _STEPS)
    text = (
        f"in llama.cpp on {clean(task)}, KL from the base is {number(both.kl)}: the weights alone give "
        f"{number(weights.kl)}, llama.cpp's arithmetic on these weights {number(engine.kl)}"
    )
    if both.answers_changed is None:
        return text
    changed = " and ".join(percent(step.answers_changed) for step in (weights, engine))
    return f"{text}; the two steps change {changed} of the answers"


def engine_table(variant: VariantReport) -> FigureTable | None:
    """Both steps and the whole, task by task; None without a split."""
    split = variant.engine_split
    if split is None or not split.total:
        return None
    steps = {f"{clean(task)}: {label}": getattr(split, name)[task] for task in split.total for name, label in _STEPS}
    rows = [FigureRow(key, describe(EngineStep, key), [_value(step, key) for step in steps.values()]) for key in _KEYS]
    title = f"Weights ({clean(split.dense_dtype)}) and engine ({clean(split.engine)})"
    return FigureTable(title, list(steps), rows)


def _value(step: EngineStep, key: str) -> Value:
    value = getattr(step, key)
    if value is None:
        return Value(DASH, f"Undefined: {clean(step.reasons.get(key, 'the report gives no reason'))}")
    return Value(number(value, digits=4), f"{value!r}; {step.n_items} items, {step.n_tokens} positions")
