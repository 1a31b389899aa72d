"""The figures of a real report hold together; a changed one is found."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from pydantic import ValidationError

from hubaudit.report.schema import Report
from hubaudit.verify import check_identities

# Not figures, or free within their range: facts of the files, and times.
NOT_FIGURES = {"seconds", "settings", "n_parameters", "head", "seed"}
N_CHANGED = 120
# Measured: 88 % of 128 changed numbers. What has no second witness (KL's quantiles, the similarities, the
# corrected cosine's interval) are what the identities alone cannot pin; the evidence can.
FLOOR = 0.75


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all numbers."""
    if isinstance(value, dict):
        return [one for key, part in value.items() if key not in NOT_FIGURES for one in leaves(part, (*path, key))]
    if isinstance(value, list):
        return [one for at, part in enumerate(value) for one in leaves(part, (*path, at))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


def perturbed(content: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """The report with one number changed: a count by 1, another by a hundredth."""
    made = copy.deepcopy(content)
    inner: Any = made
    for key in path[:-1]:
        inner = inner[key]
    value = inner[path[-1]]
    inner[path[-1]] = value + 1 if isinstance(value, int) else value * 1.01 + 1e-3
    return made


def wrong(report: Report) -> list[str]:
    return [f"{check.where}: {check.name}" for check in check_identities(report) if check.status == "does not hold"]


def test_a_real_report_holds(audited: Any) -> None:
    checks = check_identities(audited.report)
    assert [check for check in checks if check.status != "ok"] == []
    assert len(checks) > 500


def test_changed_numbers_are_found(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    paths = leaves(content)
    chosen = np.random.default_rng(0).choice(len(paths), size=N_CHANGED, replace=False)
    missed = []
    for index in chosen:
        try:
            found = wrong(Report.model_validate(perturbed(content, paths[index])))
        except ValidationError:
            continue
        if not found:
            missed.append(".".join(map(str, paths[index])))
    caught = 1 - len(missed) / N_CHANGED
    print(f"identities alone: {caught:.0%} of {N_CHANGED} changed numbers; missed: {missed}")
    assert caught >= FLOOR


def test_a_verdict_that_its_null_denies_is_found(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    block = content["variants"][1]["direction_floor"]["1"]
    block["verdict"] = "rotation" if block["verdict"] == "within_noise" else "within_noise"
    assert any("verdict = the paper's rule" in line for line in wrong(Report.model_validate(content)))


def test_an_undefined_figure_needs_a_reason(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    content["variants"][0]["divergence"]["choice"]["kl_p90"] = None
    assert any("has a reason" in line for line in wrong(Report.model_validate(content)))


def test_a_finding_taken_out_is_found(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    assert content["variants"][1]["findings"]
    content["variants"][1]["findings"].pop()
    assert any("number of findings" in line for line in wrong(Report.model_validate(content)))


def test_a_part_without_ranking_is_checked_as_a_part(audited: Any) -> None:
    part = audited.report.model_copy(update={"ranking": {}, "variants": audited.report.variants[:2]})
    checks = check_identities(part)
    assert [check for check in checks if check.status == "does not hold"] == []
    assert {check.where for check in checks if check.status == "skipped"} == {"ranking", "report"}
