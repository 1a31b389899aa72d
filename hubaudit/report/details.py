"""The part of the HTML page that answers the second question: every figure of a variant, with its meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hubaudit.report.describe import describe, descriptions
from hubaudit.report.schema import ChangedItem, ComputeFloor, Floor, ModelReport, Report, VariantReport
from hubaudit.report.text import DASH, clean, clip, number, percent, size
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.ranking import PooledRanking, Ranking
from hubaudit.stats.result import Result
from hubaudit.stats.translation_attenuation import TranslationAttenuation

__all__ = [
    "Answers",
    "FigureTable",
    "answers",
    "facts",
    "figure_tables",
    "floor_meanings",
    "floor_rows",
    "model_facts",
    "ranking_table",
]

ITEMS_SHOWN = 60
_ANSWER_CHARACTERS = 500

_BLOCKS: tuple[tuple[str, str, type[Result]], ...] = (
    ("correctness_agreement", "Agreement: all figures", CorrectnessAgreement),
    ("prism_bound", "PRISM bound: all figures", PrismBound),
    ("divergence", "Divergence: all figures", Divergence),
    ("direction_floor", "Direction by decoder block: all figures", DirectionFloor),
    ("translation_attenuation", "Linear monitor: all figures", TranslationAttenuation),
)


@dataclass(frozen=True)
class Value:
    """One figure as shown, with the reason where it is undefined."""

    text: str
    hint: str


@dataclass(frozen=True)
class FigureRow:
    """One key of a block and its value in every column."""

    key: str
    meaning: str
    values: list[Value]


@dataclass(frozen=True)
class FigureTable:
    """All figures of one block: keys down, tasks or layers across."""

    title: str
    columns: list[str]
    rows: list[FigureRow]


@dataclass(frozen=True)
class Answers:
    """Changed answers of one task."""

    task: str
    items: list[ChangedItem]
    left_out: int


def figure_tables(variant: VariantReport) -> list[FigureTable]:
    """Every figure that the report holds on a variant."""
    tables = []
    for name, title, cls in _BLOCKS:
        held = getattr(variant, name)
        if held is None or held == {}:
            continue
        tables.append(_figure_table(title, cls, held if isinstance(held, dict) else {"": held}))
    return tables


def ranking_table(report: Report) -> FigureTable | None:
    """Rank correlation of each predictor with the risk gap, tasks across; None where there is none."""
    if not report.ranking:
        return None
    names = list(dict.fromkeys(name for block in report.ranking.values() for name in block.spearman))
    columns = {clean(task): block for task, block in report.ranking.items()}
    rows = [FigureRow(name, "", [_correlation(block, name) for block in columns.values()]) for name in names]
    tasks = list(columns)
    if (pooled := report.ranking_pooled) is not None:
        tasks.append("mean over tasks")
        rows = [FigureRow(row.key, row.meaning, [*row.values, _mean_correlation(pooled, row.key)]) for row in rows]
    return FigureTable("Rank correlation with the risk gap", tasks, rows)


def _correlation(block: Ranking, name: str) -> Value:
    value = block.spearman.get(name)
    if value is None:
        return Value(DASH, f"Undefined: {clean(block.reasons.get(name, 'the report gives no reason'))}")
    n_used = block.n_used.get(name, block.n)
    why = f"n = {n_used} variants, p = {number(block.p_value.get(name))}"
    return Value(_with_interval(value, block, name), why)


def _mean_correlation(block: PooledRanking, name: str) -> Value:
    value = block.spearman.get(name)
    if value is None:
        return Value(DASH, f"Undefined: {clean(block.reasons.get(name, 'the report gives no reason'))}")
    why = f"{block.n_tasks[name]} tasks, {block.n_used[name]} variants, standard error {number(block.sem[name])}"
    return Value(_with_interval(value, block, name), why)


def _with_interval(value: float, block: Ranking | PooledRanking, name: str) -> str:
    low, high = block.ci_low.get(name), block.ci_high.get(name)
    text = number(value, signed=True)
    return (
        text if low is None or high is None else f"{text} ({number(low, signed=True)} to {number(high, signed=True)})"
    )


def _figure_table(title: str, cls: type[Result], columns: Mapping[Any, Result]) -> FigureTable:
    meanings = descriptions(cls)
    rows = [
        FigureRow(field.name, meanings.get(field.name, ""), [_value(block, field.name) for block in columns.values()])
        for field in dataclasses.fields(cls)
        if field.name != "reasons" and any(_is_plain(getattr(block, field.name)) for block in columns.values())
    ]
    return FigureTable(title, [clean(str(column)) for column in columns], rows)


def answers(variant: VariantReport) -> list[Answers]:
    """The changed answers by task, lost ones first, long ones shortened."""
    order = ("regression", "recovery", "wrong_to_other_wrong")
    listed = []
    for task, items in variant.changed_items.items():
        if not items:
            continue
        chosen = sorted(items, key=lambda item: order.index(item.kind))[:ITEMS_SHOWN]
        shown = [
            item.model_copy(
                update={
                    "item_id": clip(clean(item.item_id), 80),
                    **{
                        key: clip(clean(getattr(item, key), keep_newlines=True), _ANSWER_CHARACTERS)
                        for key in ("gold", "base_answer", "variant_answer")
                    },
                }
            )
            for item in chosen
        ]
        listed.append(Answers(clean(task), shown, len(items) - len(shown)))
    return listed


def model_facts(model: ModelReport) -> list[tuple[str, str, str]]:
    """Name, value and meaning of what was loaded."""
    head = model.head
    shown = (
        ("reference", "spec", clean(model.spec)),
        ("repo", "repo_id", clean(model.repo_id or DASH)),
        ("revision", "revision", clean(model.revision or DASH)),
        ("content", "content_id", clean(model.content_id)),
        ("format", "format", clean(model.format)),
        ("engine", "engine", clean(model.engine)),
        ("dtype", "dtype", clean(model.dtype)),
        ("parameters", "n_parameters", f"{model.n_parameters:,}"),
        ("quantized share", "quantized_fraction", percent(model.quantized_fraction)),
        ("bits per weight", "bits_per_weight", number(model.bits_per_weight)),
        ("size", "size_bytes", size(model.size_bytes)),
        ("weight error", "weight_error", number(model.weight_error)),
    )
    listed = [(name, value, describe(ModelReport, key)) for name, key, value in shown]
    kind = ", ".join(
        [
            f"{head.vocabulary:,} × {head.width:,}",  # noqa: RUF001 - a multiplication sign
            "tied" if head.tied else "untied",
            "quantized" if head.quantized else "not quantized",
            *(["with bias"] if head.bias else []),
            *([f"scale {number(head.scale)}"] if head.scale != 1 else []),
            *([f"soft cap {number(head.softcap)}"] if head.softcap is not None else []),
        ]
    )
    check = f"{number(head.check_max_difference)} (rounding allows {number(head.check_tolerance)})"
    return [
        *listed,
        ("head", kind, describe(ModelReport, "head")),
        ("head check", check, describe(type(head), "check_max_difference")),
    ]


def floor_rows(report: Report) -> list[tuple[str, str, list[Value]]]:
    """What the computation alone changes: task, what was varied, and the figures in `FLOOR_KEYS` order."""
    floor: ComputeFloor | None = report.compute_floor
    if floor is None:
        return []
    return [
        (clean(task), varied, [_value_of(getattr(part, key), {}, key) for key in FLOOR_KEYS])
        for varied, parts in (("other batches", floor.batch), (f"{clean(floor.other_dtype)}", floor.dtype))
        for task, part in parts.items()
    ]


FLOOR_KEYS = ("n_items", "bound", "d_mean_square", "kl", "risk_gap", "flips")
"""The columns of `floor_rows`."""


def floor_meanings() -> list[tuple[str, str]]:
    """Key and meaning of each column of `floor_rows`."""
    return [(key, describe(Floor, key)) for key in FLOOR_KEYS]


def facts(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Keys and values of a plain dictionary, such as the settings or the environment."""
    return [(clean(str(key)), DASH if value is None else clean(str(value))) for key, value in values.items()]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _value(block: Result, key: str) -> Value:
    return _value_of(getattr(block, key), block.reasons, key)


def _value_of(value: Any, reasons: dict[str, str], key: str) -> Value:
    if value is None:
        return Value(DASH, f"Undefined: {clean(reasons.get(key, 'the report gives no reason'))}")
    if isinstance(value, bool):
        return Value("yes" if value else "no", "")
    if isinstance(value, float):
        return Value(number(value, digits=4), repr(value))
    if isinstance(value, int):
        return Value(f"{value:,}", "")
    return Value(clean(value), "") if isinstance(value, str) else Value("see report.json", "")
