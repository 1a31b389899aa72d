"""What a report says of all variants, and its table."""

from __future__ import annotations

import csv
import io

from hubaudit.report.across import across_sentences
from hubaudit.report.schema import Report
from hubaudit.report.table import COLUMNS, to_csv


def test_the_sentences_hold_the_figures(report: Report) -> None:
    ranked, by_step, alone = across_sentences(report)
    block = report.ranking_pooled
    assert block is not None
    assert ranked.startswith("rank correlation with the risk gap, mean over tasks, 8 variants: bound +")
    assert by_step == (
        "run on arc, steps 25 to 75: bound 2.00 to 6.00, risk gap -0.0500 to +0.150; "
        "rank correlation of bound and |gap| over 3 steps +1.00"
    )
    assert alone == "run on gsm8k: 1 checkpoint; the series has one checkpoint"


def test_nothing_is_said_where_there_is_nothing(report: Report) -> None:
    assert across_sentences(report.model_copy(update={"ranking_pooled": None, "series": []})) == []


def test_the_table_is_the_papers_with_more_columns(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(report))))
    paper = [
        "model",
        "dataset",
        "family",
        "method",
        "rho_T",
        "rho_P",
        "omega",
        "delta",
        "gamma",
        "bound",
        "abs_risk_gap",
    ]
    assert list(COLUMNS[: len(paper)]) == paper
    assert len(rows) == sum(len(variant.prism_bound) for variant in report.variants)
    first, block = rows[0], report.variants[0].prism_bound["arc"]
    assert float(first["bound"]) == block.bound
    assert float(first["abs_risk_gap"]) == abs(block.risk_gap or 0)
    undefined = [row for row in rows if row["spec"] == "org/tiny-60M-distilled"]
    assert {row["bound"] for row in undefined} == {""}


def test_no_cell_is_a_formula(hostile: Report) -> None:
    hostile.variants[0].spec = "=cmd()"
    text = to_csv(hostile)
    assert "'=cmd()" in text
    assert all(not cell.startswith(("=", "@")) for row in csv.reader(io.StringIO(text)) for cell in row)
