"""Evidence and items run again, on a real audit of a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hubaudit.progress import Silent
from hubaudit.report.schema import Report
from hubaudit.verify.evidence import check_evidence
from hubaudit.verify.rerun import check_rerun


def wrong(checks: list[Any]) -> list[str]:
    return [f"{check.where}: {check.name}" for check in checks if check.status == "does not hold"]


def tampered(report: Report, variant: int, block: str, key: str, value: Any) -> Report:
    content = report.model_dump(mode="json")
    content["variants"][variant][block][key] |= value
    return Report.model_validate(content)


def test_the_evidence_gives_every_figure_again(audited: Any) -> None:
    checks = check_evidence(audited.report, cache_dir=audited.cache, progress=Silent())
    assert wrong(checks) == []
    skipped = [check.where for check in checks if check.status == "skipped"]
    assert skipped == ["./missing"]
    assert len(checks) > 30


def test_the_evidence_finds_what_no_identity_can(audited: Any) -> None:
    kl_p90 = audited.report.variants[1].divergence["choice"].kl_p90
    changed = tampered(audited.report, 1, "divergence", "choice", {"kl_p90": kl_p90 * 1.000001})
    found = wrong(check_evidence(changed, cache_dir=audited.cache, progress=Silent()))
    assert found == ["rtn:3@g16: divergence from the evidence: choice.kl_p90"]


def test_without_evidence_it_is_skipped_and_said(audited: Any, tmp_path: Path) -> None:
    (check,) = check_evidence(audited.report, cache_dir=tmp_path, progress=Silent())
    assert check.status == "skipped"
    assert "the cache holds no evidence" in check.reason


def test_items_run_again_agree(audited: Any) -> None:
    specs = ["rtn:3@g16", "./missing"]
    checks = check_rerun(audited.report, n_items=4, variants=specs, cache_dir=audited.cache, progress=Silent())
    assert wrong(checks) == []
    names = {(check.where, check.status) for check in checks}
    assert {("base, choice", "ok"), ("rtn:3@g16, choice", "ok"), ("rtn:3@g16, forced", "ok")} <= names
    assert ("./missing", "skipped") in names


def test_items_run_again_find_other_answers(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    content["variants"][1]["changed_items"] = {"choice": [], "forced": []}
    report = Report.model_validate(content)
    assert audited.report.variants[1].changed_items["choice"]
    checks = check_rerun(report, n_items=12, variants=["rtn:3@g16"], cache_dir=audited.cache, progress=Silent())
    assert any(name.startswith("rtn:3@g16, choice: changed answers") for name in wrong(checks))


def test_the_evidence_finds_every_changed_figure_of_a_variant(audited: Any) -> None:
    content = audited.report.model_dump(mode="json")
    changed: set[str] = set()
    for block in FIGURES:
        content["variants"][1][block] = shifted(content["variants"][1][block], f"{block} from the evidence: ", changed)
    checks = check_evidence(Report.model_validate(content), cache_dir=audited.cache, progress=Silent())
    found = {check.name for check in checks if check.where == "rtn:3@g16" and check.status == "does not hold"}
    assert len(changed) > 150
    assert changed <= found


FIGURES = ("correctness_agreement", "agreement_by_metric", "prism_bound", "divergence", "direction_floor")


def shifted(value: Any, path: str, changed: set[str]) -> Any:
    """Every number moved a little; `changed` names them."""
    if isinstance(value, dict):
        joined = path if path.endswith(": ") else f"{path}."
        return {key: shifted(part, f"{joined}{key}", changed) for key, part in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        changed.add(path)
        return value + 1 if isinstance(value, int) else value * 1.00001 + 1e-6
    return value
