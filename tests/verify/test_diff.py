"""Two reports side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from report_example import agreement, changed, divergence, example_report

from hubaudit.cli import app
from hubaudit.diff import compare_reports, rows
from hubaudit.report.schema import Report


@pytest.fixture
def old() -> Report:
    return example_report()


@pytest.fixture
def new(old: Report) -> Report:
    return old.model_copy(deep=True)


def outcomes(old: Report, new: Report, spec: str) -> dict[str, Any]:
    rows = compare_reports(old, new).rows
    return {f"{row.where}.{row.key}": row.outcome for row in rows if row.variant == spec}


def test_a_report_against_itself_is_within_noise(old: Report, new: Report) -> None:
    difference = compare_reports(old, new)
    assert difference.warnings == []
    assert {row.outcome for row in difference.rows} <= {"within noise", "not comparable"}
    assert (difference.added, difference.gone, difference.new_findings) == ([], [], [])


def test_more_lost_answers_and_more_kl_are_worse(old: Report, new: Report) -> None:
    variant = new.variants[0]
    cell = agreement(256, 141, 60, 0, 5)
    variant.correctness_agreement["arc"], variant.changed_items["arc"] = cell, changed("arc", cell)
    variant.divergence["arc"] = divergence(5.0, 3120)
    found = outcomes(old, new, variant.spec)
    assert found["correctness_agreement.arc.variant_accuracy"] == "worse"
    assert found["divergence.arc.kl"] == "worse"
    back = outcomes(new, old, variant.spec)
    assert back["correctness_agreement.arc.variant_accuracy"] == "better"
    assert back["divergence.arc.kl"] == "better"


def test_a_small_change_of_kl_is_noise(old: Report, new: Report) -> None:
    block = old.variants[0].divergence["arc"]
    new.variants[0].divergence["arc"] = divergence(0.03 * 1.05, 3120)
    assert block.kl != new.variants[0].divergence["arc"].kl
    assert outcomes(old, new, old.variants[0].spec)["divergence.arc.kl"] == "within noise"


def test_another_base_compares_nothing(old: Report, new: Report) -> None:
    new.base.content_id = "another"
    difference = compare_reports(old, new)
    assert "another base" in difference.warnings[0]
    assert {row.outcome for row in difference.rows} == {"not comparable"}


def test_other_items_are_warned_about_and_not_compared(old: Report, new: Report) -> None:
    new.tasks[0].item_ids[0] = "another"
    difference = compare_reports(old, new)
    assert any("task arc has other items" in line for line in difference.warnings)
    assert outcomes(old, new, old.variants[0].spec)["correctness_agreement.arc.variant_accuracy"] == "not comparable"


def test_added_gone_and_renamed_variants(old: Report, new: Report) -> None:
    for index, variant in enumerate(old.variants):
        if variant.model is not None:
            variant.model.content_id = f"content {index}"
            new.variants[index].model.content_id = f"content {index}"
    new.variants[0].spec = "org/moved-GGUF:Q8_0"
    del old.variants[3], new.variants[2]
    difference = compare_reports(old, new)
    assert difference.renamed == [("org/tiny-135M-GGUF:Q8_0", "org/moved-GGUF:Q8_0")]
    assert difference.added == ["org/tiny-135M-GGUF:Q5_0"]
    assert difference.gone == ["bnb:int8"]


def test_the_command_fails_on_worse_only(old: Report, new: Report, tmp_path: Path) -> None:
    new.variants[0].divergence["arc"] = divergence(5.0, 3120)
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, report in zip(paths, (old, new), strict=True):
        path.write_text(report.to_json())
    files = [str(path) for path in paths]
    runner = CliRunner()
    assert runner.invoke(app, ["diff", *files]).exit_code == 0
    worse = runner.invoke(app, ["diff", *files, "--fail-on", "worse"])
    assert worse.exit_code == 1
    assert "divergence.arc.kl got worse" in worse.stderr
    assert runner.invoke(app, ["diff", *reversed(files), "--fail-on", "worse"]).exit_code == 0
    assert runner.invoke(app, ["diff", *files, "--fail-on", "kl>1e9"]).exit_code == 0


@pytest.mark.parametrize("n", [24, 64, 256])
@pytest.mark.parametrize("tail", [0.5, 1.5])
def test_equal_variants_are_rarely_called_better_or_worse(n: int, tail: float) -> None:
    """Two audits whose items differ by chance only: log-normal KL an item, as skewed as real ones and more."""
    rng, audits = np.random.default_rng(n), 4000
    values = rng.lognormal(-3.0, tail, (2, audits, n))
    means, errors = values.mean(axis=2), values.std(axis=2, ddof=1) / np.sqrt(n)
    called = 0
    for audit in range(audits):
        sides = [
            SimpleNamespace(spec="v", divergence={"t": SimpleNamespace(kl=float(mean), kl_se=float(error))})
            for mean, error in zip(means[:, audit], errors[:, audit], strict=True)
        ]
        called += rows._kl(sides[0], sides[1], "t").outcome != "within noise"
    # 1 %, with three Monte Carlo standard errors of 4,000 audits, and what a normal quantile costs at small n.
    assert called / audits <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / audits) + 0.15 / n
