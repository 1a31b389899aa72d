"""The comparison of two prediction files as tables for the terminal and as a plot."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hubaudit.agree import Agreement, Counts
from hubaudit.report.plots.style import BLUE, GREEN, GREY, INK, SKY, VERMILLION, figure, label, style
from hubaudit.report.text import DASH, MINUS, clean, clip, number, percent, plural, sentence
from hubaudit.stats.correctness_agreement import SubjectAgreement

__all__ = ["agreement_plot", "print_agreement"]

MAX_SUBJECTS_SHOWN = 40
_COLOURS = {
    "kept": (BLUE, "kept: right in both"),
    "lost": (VERMILLION, f"{MINUS} lost"),
    "gained": (GREEN, "+ gained"),
    "changed_wrong": (SKY, "~ wrong to other wrong"),
    "same_wrong": (GREY, "wrong in both"),
}


def print_agreement(agreement: Agreement, console: Console) -> None:
    """Print the figures, the subjects and what to keep in mind.

    Nothing from the files is read as markup or reaches the terminal as a control sequence.

    Args:
        agreement: The comparison.
        console: Where it goes.
    """
    read = ", ".join(
        part
        for part in (
            agreement.form,
            f"metric {agreement.metric}" if agreement.metric else "",
            f"filter {agreement.filter_name}" if agreement.filter_name else "",
        )
        if part
    )
    for name, path in (("base", agreement.base), ("variant", agreement.variant)):
        console.print(Text(clean(f"{name}: {path}")), soft_wrap=True)
    console.print(Text(clean(f"read as {read}")), soft_wrap=True)
    console.print()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(style="dim", overflow="fold")
    for cells in _figures(agreement):
        grid.add_row(*(Text(cell) for cell in cells))
    console.print(grid)
    if agreement.result.by_subject:
        console.print()
        console.print(_subjects(agreement, agreement.result.by_subject))
    remarks = [_difference_lines(agreement), *map(list, (agreement.warnings, agreement.result.notes.values()))]
    lines = [line for group in remarks for line in group]
    if lines:
        console.print()
        console.print(Text("Keep in mind", style="bold"))
        for line in lines:
            console.print(Text(f" ! {sentence(clean(line))}"), soft_wrap=True)


def agreement_plot(agreement: Agreement, *, width: float = 8.0) -> Figure:
    """Shares of items kept, lost, gained and changed while wrong, of all items and of each subject.

    Args:
        agreement: The comparison; of more than 40 subjects, those with the most flips are shown.
        width: Width in inches.
    """
    rows = [("all items", agreement.counts)]
    rows += [(name, agreement.by_subject[name]) for name in _shown_subjects(agreement)]
    with style():
        made = figure(width, 0.27 * len(rows) + 1.1)
        axes = made.subplots()
        for row, (_, counts) in enumerate(rows):
            left = 0.0
            for part, (colour, _) in _COLOURS.items():
                share = getattr(counts, part) / _total(counts)
                axes.barh(row, share, left=left, height=0.62, color=colour, linewidth=0)
                left += share
            moved = f" ~{counts.changed_wrong}" if agreement.answers_known else ""
            axes.text(1.02, row, f"{MINUS}{counts.lost} +{counts.gained}{moved}", va="center", color=INK, fontsize=8.5)
        axes.set_title(
            f"{label(agreement.base.stem, 44)} → {label(agreement.variant.stem, 44)}", loc="left", fontweight="bold"
        )
        axes.tick_params(length=0)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(rows)), [label(name, 28) for name, _ in rows])
        axes.set(xlim=(0, 1.25), ylim=(len(rows) - 0.4, -0.6))
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100%"])
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_bounds(0, 1)
        shown = [part for part in _COLOURS if part != "changed_wrong" or agreement.answers_known]
        made.legend(
            handles=[Patch(facecolor=_COLOURS[part][0], label=_COLOURS[part][1]) for part in shown],
            loc="outside upper left",
            ncols=len(shown),
            handlelength=1,
            columnspacing=1.2,
        )
    return made


def _figures(agreement: Agreement) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each figure."""
    found, counts = agreement.result, agreement.counts
    kept = (
        f"95% CI {percent(found.ci_low)} to {percent(found.ci_high)}; {counts.kept} of "
        f"{plural(found.n_base_correct, 'right answer')} of the base"
    )
    if found.correctness_agreement is None:
        kept = found.reasons.get("correctness_agreement", "")
    delta = f"95% CI {_points(found.accuracy_delta_ci_low)} to {_points(found.accuracy_delta_ci_high)}"
    moved = str(counts.changed_wrong) if agreement.answers_known else DASH
    return [
        ("Items", str(found.n), "that both files hold"),
        ("Accuracy, base", percent(found.base_accuracy), ""),
        ("Accuracy, variant", percent(found.variant_accuracy), f"{_points(found.accuracy_delta)} points, {delta}"),
        ("Kept", percent(found.correctness_agreement), kept),
        ("Ceiling", percent(found.ceiling), "the most that these two accuracies allow"),
        ("Lost", f"{MINUS}{counts.lost}", "right in the base only"),
        ("Gained", f"+{counts.gained}", "right in the variant only"),
        ("Changed while wrong", moved, "from one wrong answer to another"),
        ("Flips", percent(found.flip_rate), "lost or gained, of all items"),
        ("McNemar p", number(found.mcnemar_p), "exact, for equal accuracies"),
        (
            "Equivalent",
            "yes" if found.equivalent else "not shown",
            f"within {percent(found.tost_margin)}, Tango p {number(found.tost_p)}",
        ),
        ("Detectable", percent(found.mde), "smallest accuracy difference seen with 80% power at this n"),
    ]


def _points(value: float) -> str:
    return percent(value, signed=True).removesuffix("%")


def _subjects(agreement: Agreement, subjects: dict[str, SubjectAgreement]) -> Table:
    names = _shown_subjects(agreement)
    hidden = len(subjects) - len(names)
    title = plural(len(subjects), "subject")
    table = Table(
        title=Text(f"{title}, the {len(names)} with the most flips; --json has all" if hidden else title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("Subject", no_wrap=True)
    for heading in ("n", "Accuracy", "Kept (95% CI)", "Flips", "Holm p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in names:
        entry, counts = subjects[name], agreement.by_subject[name]
        accuracies = f"{percent(entry.base_accuracy, digits=0)} → {percent(entry.variant_accuracy, digits=0)}"
        interval = f"{percent(entry.ci_low, digits=0)} to {percent(entry.ci_high, digits=0)}".replace("%", "")
        kept = percent(entry.correctness_agreement, digits=0)
        table.add_row(
            Text(clip(clean(name), 30)),
            str(entry.n),
            accuracies,
            f"{kept} ({interval})" if entry.ci_low is not None else kept,
            f"{MINUS}{counts.lost} +{counts.gained}",
            number(entry.mcnemar_p_holm, digits=2),
        )
    return table


def _shown_subjects(agreement: Agreement) -> list[str]:
    """The subjects by name, or of too many the ones with the most flips."""
    by_flips = sorted(
        agreement.by_subject, key=lambda name: -(agreement.by_subject[name].lost + agreement.by_subject[name].gained)
    )
    return sorted(by_flips[:MAX_SUBJECTS_SHOWN])


def _difference_lines(agreement: Agreement) -> list[str]:
    """How the sets of items differ, one sentence each."""
    return [
        f"{plural(entry.count, 'item')} {'with a ' if entry.kind.startswith('different') else ''}{entry.kind}, "
        f"{'compared' if entry.compared else 'left out'}; the first is {clip(clean(entry.first), 60)}"
        for entry in agreement.differences
    ]


def _total(counts: Counts) -> int:
    return counts.kept + counts.lost + counts.gained + counts.changed_wrong + counts.same_wrong
