"""The answer first: which variants stay close to the base, which do not, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hubaudit.report.cell import Cell
from hubaudit.report.figures import cells
from hubaudit.report.schema import Finding, Report, VariantReport
from hubaudit.report.text import clean, percent, plural, short_labels, size

__all__ = ["LEVELS", "Level", "Overview", "Row", "VariantView", "overview"]

Level = Literal["close", "unclear", "some", "changed", "incomplete", "failed"]

LEVELS: dict[Level, tuple[str, str, str]] = {
    "close": ("✓", "Close to the base", "no warning or notice, and at least 90 % of the right answers surely kept"),
    "unclear": ("?", "Too few items", "no warning or notice, but these items cannot show that 90 % is kept"),
    "some": ("≈", "Some change", "a notice says what moved; read it before use"),
    "changed": ("!", "Check before use", "a warning says what broke, or may have"),
    "incomplete": ("…", "Incomplete", "not all figures were measured"),
    "failed": ("×", "Not audited", "no figures"),  # noqa: RUF001 - a sign, not the letter
}
"""Sign, name and meaning of each verdict, best first. The sign carries it where there is no colour."""

_SEVERITIES = ("info", "notice", "warning")
# Nothing found in a few items is no evidence of closeness: the agreement's interval must lie above this.
_CLOSE_AGREEMENT = 0.9
# These say where a difference sits, which every lossy format has; they alone do not make a verdict.
_LOCATING = frozenset({"drift_scale", "drift_shape", "drift_head", "risk_increase"})


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table of variants: one variant on one task."""

    view: VariantView
    task: str | None
    cells: dict[str, Cell]


@dataclass(frozen=True, kw_only=True)
class VariantView:
    """One variant as a reader meets it."""

    index: int
    label: str
    spec: str
    report: VariantReport
    level: Level
    sentence: str
    """What was measured, in one sentence, without the variant's name."""
    reason: str
    """Why it got this verdict."""
    findings: list[Finding]
    """Its findings, the gravest first."""
    judging: list[Finding]
    """Those of them that make the verdict, the gravest first."""
    task: str | None
    """The task where it keeps least of the base's right answers."""
    cells: dict[str, Cell]
    """Its figures on that task."""

    @property
    def sign(self) -> str:
        """The verdict's sign."""
        return LEVELS[self.level][0]

    @property
    def verdict(self) -> str:
        """The verdict's name."""
        return LEVELS[self.level][1]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole audit as a reader meets it."""

    headline: str
    """The answer in a sentence or two."""
    counts: list[tuple[Level, int]]
    """How many variants got each verdict that occurs, best first."""
    views: list[VariantView]
    """In the order of the report."""
    ranked: list[VariantView]
    """Best verdict first, then the least divergence."""
    rows: list[Row]
    tasks: list[str]
    n_items: str
    """How many items of which task, e.g. `arc 256, gsm8k 128`."""
    base: str
    """The base's repo, or the last part of its local path: the rest of a path is nobody's business."""


def overview(report: Report) -> Overview:
    """Read a report into what a page shows first.

    The verdict of a variant is the severity of its gravest finding about behaviour, so it follows the rules
    of `hubaudit.diagnose` and adds no threshold of its own.
    """
    labels = short_labels([variant.spec for variant in report.variants])
    views = [
        _view(report, variant, index, label)
        for index, (variant, label) in enumerate(zip(report.variants, labels, strict=True))
    ]
    tasks = [task.name for task in report.tasks]
    rows = [
        Row(view=view, task=task, cells=cells(report, view.report, task))
        for view in views
        for task in _measured(view.report, tasks)
    ]
    ranked = sorted(views, key=lambda view: (list(LEVELS).index(view.level), _divergence(view.report)))
    return Overview(
        headline=_headline(ranked),
        counts=[(level, n) for level in LEVELS if (n := sum(view.level == level for view in views))],
        views=views,
        ranked=ranked,
        rows=rows,
        tasks=tasks,
        n_items=", ".join(f"{clean(task.name)} {task.n_items}" for task in report.tasks) or "no task",
        base=clean(report.base.repo_id or report.base.spec.rstrip("/").rsplit("/", 1)[-1]),
    )


def _view(report: Report, variant: VariantReport, index: int, label: str) -> VariantView:
    judging = _judging(variant)
    findings = sorted(variant.findings, key=lambda found: -_SEVERITIES.index(found.severity))
    level = _level(variant)
    task = _weakest_task(variant)
    shown = cells(report, variant, task)
    agreement, rest = _answers(variant, task), _other_figures(variant, shown)
    sentence = _joined([*agreement, *rest])
    if variant.error is not None:
        reason = clean(variant.error.message)
    elif level in ("some", "changed"):
        reason = clean(judging[0].text)
    else:
        reason = _joined([*agreement[1:], *rest])  # the page shows the agreement itself as a bar
    return VariantView(
        index=index,
        label=label,
        spec=clean(variant.spec),
        report=variant,
        level=level,
        sentence=sentence,
        reason=reason,
        findings=findings,
        judging=judging,
        task=task,
        cells=shown,
    )


def _level(variant: VariantReport) -> Level:
    if variant.status == "failed":
        return "failed"
    blocks = (variant.correctness_agreement, variant.divergence, variant.direction_floor)
    if variant.status == "interrupted" or not any(blocks):
        return "incomplete"
    worst = max((_SEVERITIES.index(found.severity) for found in _judging(variant)), default=0)
    if worst:
        return "some" if worst == 1 else "changed"
    lows = [cell.ci_low for cell in variant.correctness_agreement.values()]
    surely_kept = all(low is not None and low >= _CLOSE_AGREEMENT for low in lows)
    return "close" if surely_kept else "unclear"


def _judging(variant: VariantReport) -> list[Finding]:
    """The findings that make the verdict, the gravest first.

    Where answers were compared, they tell whether behaviour changed, and the findings that only locate the
    drift stay out. Without answers (a text corpus), the risk is all there is.
    """
    left_out = _LOCATING if variant.correctness_agreement else _LOCATING - {"risk_increase"}
    judging = [found for found in variant.findings if found.severity == "warning" or found.id not in left_out]
    return sorted(judging, key=lambda found: -_SEVERITIES.index(found.severity))


def _measured(variant: VariantReport, tasks: list[str]) -> Sequence[str | None]:
    """The tasks that the variant has any figure on, in the report's order; None alone where there is none."""
    blocks = (variant.correctness_agreement, variant.prism_bound, variant.divergence)
    return [task for task in tasks if any(task in block for block in blocks)] or [None]


def _divergence(variant: VariantReport) -> float:
    """The largest mean KL divergence over the tasks; infinite where none was measured."""
    known = [block.kl for block in variant.divergence.values() if block.kl is not None]
    return max(known, default=float("inf"))


def _weakest_task(variant: VariantReport) -> str | None:
    """The task with the lowest agreement; where there is none, the first that was measured."""
    known = {
        task: block.correctness_agreement
        for task, block in variant.correctness_agreement.items()
        if block.correctness_agreement is not None
    }
    if known:
        return min(known, key=lambda task: known[task])
    return next(iter([*variant.correctness_agreement, *variant.divergence]), None)


def _answers(variant: VariantReport, task: str | None) -> list[str]:
    """What became of the answers on the weakest task: agreement and accuracy, then the flips."""
    block = variant.correctness_agreement.get(task or "")
    if variant.error is not None or block is None or task is None:
        return []
    several = len(variant.correctness_agreement)
    where = f"{clean(task)}, its weakest of {several} tasks" if several > 1 else clean(task)
    kept = percent(block.correctness_agreement)
    interval = f" (95% CI {percent(block.ci_low)} to {percent(block.ci_high)})" if block.ci_low is not None else ""
    accuracy = f"accuracy {percent(block.base_accuracy)} → {percent(block.variant_accuracy)}"
    agreed = f"keeps {kept} of the base's right answers on {where}{interval}, {accuracy}"
    return [
        agreed if block.correctness_agreement is not None else f"{accuracy} on {where}",
        f"{plural(block.regressions, 'right answer')} lost and {block.recoveries} gained of {plural(block.n, 'item')}",
    ]


def _other_figures(variant: VariantReport, shown: dict[str, Cell]) -> list[str]:
    """Divergence, direction and monitor, where they were measured."""
    if variant.error is not None:
        return [f"could not be audited: {clean(variant.error.message)}"]
    parts = []
    if shown["kl"].sort is not None:
        parts.append(f"KL {shown['kl'].text} nats per token")
    if shown["direction"].sort is not None:
        parts.append(f"direction: {shown['direction'].text} ({shown['direction'].detail})")
    if shown["monitor"].sort is not None:
        moved = shown["monitor"].text
        parts.append(f"monitor: {'translation and attenuation' if moved == 'both' else moved}")
    return parts


def _joined(parts: list[str]) -> str:
    return "; ".join(parts) if parts else "no figure was measured"


def _headline(ranked: list[VariantView]) -> str:
    """How many variants stay close, and the smallest that does, or else the one that changed least."""
    if not ranked:
        return "This audit has no variants."
    audited = [view for view in ranked if view.level in ("close", "unclear", "some", "changed")]
    if not audited:
        return "No variant was audited completely."
    close = [view for view in audited if view.level == "close"]
    if not close:
        if all(view.level == "unclear" for view in audited):
            found = f"No change was found in {plural(len(audited), 'variant')}"
            return f"{found}, but these items are too few to show closeness."
        unclear = sum(view.level == "unclear" for view in audited)
        if unclear:
            surely = f"None of {len(audited)} variants is surely close to the base"
            return f"{surely}; for {unclear} the items are too few to tell."
        none = (
            "The only audited variant does not stay" if len(audited) == 1 else f"None of {len(audited)} variants stays"
        )
        least = "" if len(audited) == 1 else f" The least changed is {_sized(audited[0])}."
        return f"{none} close to the base.{least}"
    if len(close) == 1:
        which = "The only audited variant" if len(audited) == 1 else f"1 of {len(audited)} variants"
        return f"{which} stays close to the base: {_sized(close[0])}."
    smallest = min(close, key=lambda view: view.report.model.size_bytes if view.report.model else float("inf"))
    several = "All" if len(close) == len(audited) else f"{len(close)} of"
    return f"{several} {len(audited)} variants stay close to the base. The smallest of them is {_sized(smallest)}."


def _sized(view: VariantView) -> str:
    return view.label if view.report.model is None else f"{view.label} ({size(view.report.model.size_bytes)})"
