"""The verdicts and the headline."""

from __future__ import annotations

import dataclasses

import pytest

from hubaudit.report.overview import overview
from hubaudit.report.schema import Finding, Report


def finding(name: str, severity: str) -> Finding:
    return Finding.model_validate({"id": name, "severity": severity, "text": f"{name} was found"})


@pytest.mark.parametrize(
    ("findings", "level"),
    [
        ([], "close"),
        ([finding("equivalent_accuracy", "info")], "close"),
        ([finding("drift_shape", "notice"), finding("risk_increase", "notice")], "close"),
        ([finding("answers_changed", "notice")], "some"),
        ([finding("drift_shape", "warning")], "changed"),
        ([finding("answers_changed", "notice"), finding("accuracy_drop", "warning")], "changed"),
    ],
)
def test_verdict_is_the_gravest_finding_about_behaviour(report: Report, findings: list[Finding], level: str) -> None:
    report.variants[0].findings = findings
    view = overview(report).views[0]
    assert view.level == level
    if level in ("some", "changed"):
        assert view.reason == f"{findings[-1].id} was found"
    else:
        assert "right answers lost" in view.reason


def test_without_answers_the_risk_decides(report: Report) -> None:
    variant = report.variants[0]
    variant.findings = [finding("drift_shape", "notice"), finding("risk_increase", "notice")]
    variant.correctness_agreement = {}
    assert overview(report).views[0].level == "some"


def test_failed_interrupted_and_empty_variants(report: Report) -> None:
    report.variants[0].status = "interrupted"
    empty = report.variants[1]
    empty.correctness_agreement, empty.divergence, empty.direction_floor = {}, {}, {}
    views = overview(report).views
    assert [views[0].level, views[1].level, views[-1].level] == ["incomplete", "incomplete", "failed"]
    assert views[-1].reason.startswith("org/tiny-135M-EXL3: the format exl3 cannot be loaded")


def test_ranked_is_by_verdict_then_divergence(report: Report) -> None:
    for variant in report.variants[:-1]:
        variant.findings = []
    report.variants[1].findings = [finding("accuracy_drop", "warning")]
    ranked = overview(report).ranked
    divergences = [max(view.report.divergence[task].kl for task in ("arc", "gsm8k")) for view in ranked[:-2]]
    assert divergences == sorted(divergences)
    assert [view.index for view in ranked[-2:]] == [1, 9]


def test_headline_names_the_smallest_close_variant(report: Report) -> None:
    for variant in report.variants[:-1]:
        variant.findings = [finding("accuracy_drop", "warning")]
    assert overview(report).headline == (
        "None of 9 variants stays close to the base. The least changed is rtn:8@g128 (141 MB)."
    )
    report.variants[0].findings = []
    assert overview(report).headline == "1 of 9 variants stays close to the base: Q8_0 (145 MB)."
    report.variants[1].findings = []
    assert overview(report).headline == (
        "2 of 9 variants stay close to the base. The smallest of them is rtn:8@g128 (141 MB)."
    )


def test_nothing_found_in_a_few_items_is_not_closeness(report: Report) -> None:
    for variant in report.variants[:-1]:
        variant.findings = []
    few = report.variants[0].correctness_agreement
    report.variants[0].correctness_agreement = {
        task: dataclasses.replace(cell, ci_low=0.51) for task, cell in few.items()
    }
    views = overview(report).views
    assert [views[0].level, views[1].level] == ["unclear", "close"]
    report.variants = report.variants[:1]
    assert overview(report).headline.startswith("No change was found in 1 variant, but these items are too few")


def test_headline_of_one_none_and_only_failures(report: Report) -> None:
    everything = report.variants
    everything[0].findings = []
    report.variants = everything[:1]
    assert overview(report).headline == "The only audited variant stays close to the base: Q8_0 (145 MB)."
    everything[0].findings = [finding("accuracy_drop", "warning")]
    assert overview(report).headline == "The only audited variant does not stay close to the base."
    report.variants = everything[-1:]
    assert overview(report).headline == "No variant was audited completely."
    report.variants = []
    assert overview(report).headline == "This audit has no variants."


def test_counts_cover_every_variant(report: Report) -> None:
    view = overview(report)
    assert sum(count for _, count in view.counts) == len(report.variants)
    assert view.n_items == "arc 256, gsm8k 128"
    assert len(view.rows) == 9 * 2 + 1


def test_sentence_tells_the_weakest_task(report: Report) -> None:
    view = overview(report).views[3]
    kept = {task: block.correctness_agreement for task, block in view.report.correctness_agreement.items()}
    assert view.task == min(kept, key=lambda task: kept[task])
    assert f"keeps {100 * min(kept.values()):.1f}% of the base's right answers on {view.task}" in view.sentence
