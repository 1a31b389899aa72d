"""Cells: what is shown, what the hover text says, and why a figure is undefined."""

# ruff: noqa: RUF001 - the pages use the typographic minus, dash and multiplication sign

from __future__ import annotations

import pytest
from report_example import fill

from hubaudit.report.describe import describe
from hubaudit.report.figures import COLUMNS, cells
from hubaudit.report.schema import Report, VariantReport
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound


def named(report: Report, part: str) -> VariantReport:
    (found,) = [entry for entry in report.variants if part in entry.spec]
    return found


def test_every_cell_says_what_it_is(report: Report) -> None:
    shown = cells(report, named(report, "Q4_0"), "arc")
    assert list(shown) == [column.key for column in COLUMNS]
    for key, cell in shown.items():
        assert cell.text != "–", key
        assert cell.sort is not None, key
        assert len(cell.hint) > 20, key
    assert "n = 3120 tokens" in shown["kl"].hint
    assert "Without any change: 0." in shown["kl"].hint
    assert describe(Divergence, "kl") in shown["kl"].hint
    assert "Compute floor: 0.000400." in shown["kl"].hint
    assert "n = 141 items that the base gets right, of 256" in shown["agreement"].hint
    assert "Without any change: 100%" in shown["agreement"].hint


def test_cells_agree_with_the_blocks(report: Report) -> None:
    variant = named(report, "Q4_0")
    shown = cells(report, variant, "arc")
    block, bound = variant.correctness_agreement["arc"], variant.prism_bound["arc"]
    assert shown["agreement"].text == f"{100 * block.correctness_agreement:.1f}%"
    assert shown["agreement"].interval == (block.ci_low, block.correctness_agreement, block.ci_high)
    assert shown["flips"].text == str(block.regressions + block.recoveries)
    assert shown["flips"].detail == f"−{block.regressions} +{block.recoveries}"
    assert shown["gap"].sort == abs(bound.risk_gap)
    assert shown["bound"].sort == bound.bound
    assert shown["axis"].text == bound.dominant_axis


def test_gap_is_shown_without_its_sign(report: Report) -> None:
    variant = named(report, "Q4_0")
    assert variant.prism_bound["gsm8k"].risk_gap < 0
    cell = cells(report, variant, "gsm8k")["gap"]
    assert cell.sort == -variant.prism_bound["gsm8k"].risk_gap
    assert "Signed: -0.0796" in cell.hint


def test_below_the_floor_is_marked_and_said(report: Report) -> None:
    variant = named(report, "rtn:8")
    variant.below_floor = {"arc": ["kl"]}
    shown = cells(report, variant, "arc")
    assert shown["kl"].below_floor
    assert "lies below the compute floor" in shown["kl"].hint
    assert not shown["bound"].below_floor
    assert not cells(report, variant, "gsm8k")["kl"].below_floor


def test_undefined_gives_the_blocks_reason(report: Report) -> None:
    shown = cells(report, named(report, "distilled"), "arc")
    for key in ("bound", "gap", "axis", "direction", "monitor"):
        assert shown[key].text == "–"
        assert shown[key].sort is None
        assert shown[key].hint.startswith("Undefined: the variant's features are 384 wide")
    assert shown["kl"].text != "–"


def test_undefined_gives_the_failure_as_reason(report: Report) -> None:
    for key, cell in cells(report, named(report, "EXL3"), None).items():
        assert cell.text == "–", key
        assert "could not be audited: org/tiny-135M-EXL3: the format exl3" in cell.hint


def test_undefined_without_contrast_and_after_an_interruption(report: Report) -> None:
    variant = named(report, "Q4_0")
    variant.direction_floor, variant.translation_attenuation, variant.divergence = {}, None, {}
    variant.status = "interrupted"
    shown = cells(report, variant, "arc")
    assert "interrupted before this was measured" in shown["kl"].hint
    report.contrast = None
    shown = cells(report, variant, "arc")
    assert "no contrast set was audited" in shown["direction"].hint
    assert "no contrast set was audited" in shown["monitor"].hint


@pytest.mark.parametrize(
    ("verdicts", "text", "detail"),
    [
        (("preserved", "preserved"), "preserved", "2 blocks"),
        (("preserved", "inconclusive"), "inconclusive", "1 of 2 blocks"),
        (("preserved", None), "inconclusive", "1 of 2 blocks"),
        (("rotation", "preserved"), "rotation", "1 of 2 blocks, ≤ 12.0°"),
        (("rotation", "rotation"), "rotation", "2 of 2 blocks, ≤ 12.0°"),
    ],
)
def test_direction_sums_up_the_layers(
    report: Report, verdicts: tuple[str | None, str | None], text: str, detail: str
) -> None:
    variant = named(report, "Q4_0")
    variant.direction_floor = {
        layer: fill(DirectionFloor, n_a=96, n_b=96, calibrated_verdict=verdict, rotation_degrees=12.0 - layer)
        for layer, verdict in enumerate(verdicts)
    }
    cell = cells(report, variant, "arc")["direction"]
    assert (cell.text, cell.detail) == (text, detail)
    assert "n = 96 + 96 prompts" in cell.hint


def test_descriptions_are_plain_text() -> None:
    assert "`" not in describe(PrismBound, "k_feat_case")
    with pytest.raises(KeyError):
        describe(PrismBound, "no_such_key")
