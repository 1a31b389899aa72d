"""Checkpoints of a run: how they are recognised and what is said of them."""

from __future__ import annotations

import pytest

from hubaudit.report.schema import VariantReport
from hubaudit.series import find_series, step_of
from hubaudit.stats.prism_bound import PrismBound, undefined_prism_bound


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("out/checkpoint-200", ("out", 200)),
        ("/a b/run/checkpoint-5/", ("/a b/run", 5)),
        ("org/model@step1000", ("org/model", 1000)),
        ("org/model@main-checkpoint-50", ("org/model", 50)),
        ("org/model", None),
        ("rtn:4", None),
        ("org/model@7f3a", None),
        ("out/checkpoint-200/other", None),
    ],
)
def test_step_of(spec: str, expected: tuple[str, int] | None) -> None:
    assert step_of(spec) == expected


def _bound(bound: float, gap: float) -> PrismBound:
    blank = undefined_prism_bound("not needed").to_dict()
    return PrismBound(**{**blank, "bound": bound, "risk_gap": gap, "kl": 0.1, "omega": 0.9})


def _variant(spec: str, bound: float, gap: float) -> VariantReport:
    return VariantReport(spec=spec, status="done", prism_bound={"arc": _bound(bound, gap)})


def test_a_series_is_ordered_by_step_and_ranks_bound_against_forgetting() -> None:
    variants = [_variant("r/checkpoint-100", 3, 0.3), _variant("rtn:4", 9, 9), _variant("r/checkpoint-20", 1, -0.1)]
    variants.append(_variant("r/checkpoint-60", 2, 0.2))
    (block,) = find_series(variants, ["arc"])
    assert (block.name, block.task, block.n) == ("r", "arc", 3)
    assert [point.step for point in block.points] == [20, 60, 100]
    assert block.points[0].risk_gap == -0.1
    assert block.spearman == 1.0


def test_one_checkpoint_is_told_what_to_do() -> None:
    (block,) = find_series([_variant("r/checkpoint-100", 3, 0.3)], ["arc"])
    assert block.spearman is None
    assert "one checkpoint; audit the folder" in block.reasons["spearman"]


def test_two_runs_and_failed_checkpoints_stay_apart() -> None:
    failed = VariantReport(spec="a/checkpoint-3", status="failed")
    blocks = find_series([_variant("a/checkpoint-1", 1, 1), failed, _variant("b/checkpoint-1", 1, 1)], ["arc", "csqa"])
    assert [(block.name, block.task, len(block.points)) for block in blocks] == [("a", "arc", 1), ("b", "arc", 1)]
