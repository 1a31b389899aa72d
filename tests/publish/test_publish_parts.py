"""What of a report goes where, and in which words: targets, evaluation results, the command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results
from report_example import HOSTILE

from hubaudit.errors import InputError
from hubaudit.publish.command import audit_command
from hubaudit.publish.results import model_index_results
from hubaudit.publish.targets import choose_targets, part_of
from hubaudit.report.markdown import card_section
from hubaudit.report.schema import Report, read_report

GGUF, DISTILLED = "org/tiny-135M-GGUF", "org/tiny-60M-distilled"
URL = "https://huggingface.co/org/x/blob/main/hubaudit/report.json"


def test_one_target_a_repo_and_reasons_for_the_rest(report: Report) -> None:
    chosen = choose_targets(report)
    assert [(target.repo_id, len(target.report.variants)) for target in chosen.targets] == [(GGUF, 3), (DISTILLED, 1)]
    reasons = dict(chosen.skipped)
    assert reasons["bnb:nf4"] == "made on the spot from the base, so it is in no repo"
    assert reasons["org/tiny-135M-EXL3"] == "failed, so its figures are not complete"
    assert len(reasons) == 6


def test_repo_and_variant_choose(report: Report) -> None:
    (target,) = choose_targets(report, repo=DISTILLED).targets
    assert [entry.spec for entry in target.report.variants] == [DISTILLED]
    (target,) = choose_targets(report, variants=[f"{GGUF}:Q5_0"]).targets
    assert [entry.spec for entry in target.report.variants] == [f"{GGUF}:Q5_0"]


def test_local_variants_need_a_repo(report: Report) -> None:
    local = report.variants[0]
    local.spec = "/home/someone/models/x-Q8_0.gguf"
    assert local.model is not None
    local.model.spec, local.model.repo_id, local.model.revision = local.spec, None, None
    local.findings[0].text = f"{local.spec} is small"
    chosen = choose_targets(report)
    assert dict(chosen.skipped)[local.spec] == "read from local files; name its repo with --repo"
    (target,) = choose_targets(report, repo="me/x-GGUF").targets
    assert [entry.spec for entry in target.report.variants] == ["x-Q8_0.gguf"]
    assert target.report.variants[0].findings[0].text == "x-Q8_0.gguf is small"
    assert "someone" not in target.report.to_json()
    # A repo of the report takes what was read from it, not what lies here.
    (target,) = choose_targets(report, repo=GGUF).targets
    assert [entry.spec for entry in target.report.variants] == [f"{GGUF}:Q5_0", f"{GGUF}:Q4_0"]


def test_the_bases_own_repo_only_by_name(report: Report) -> None:
    model = report.variants[8].model
    assert model is not None
    model.repo_id = "org/tiny-135M"
    chosen = choose_targets(report)
    assert "base's own repo" in dict(chosen.skipped)[DISTILLED]
    (target,) = choose_targets(report, repo="org/tiny-135M").targets
    assert [entry.spec for entry in target.report.variants] == [DISTILLED]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repo": "nobody/nothing"}, "nothing to publish: 'org/tiny-135M-GGUF:Q8_0': in the repo 'org/tiny-135M-GGUF'"),
        ({"repo": "no-owner"}, "'no-owner': expected a Hub id as ORG/NAME"),
        ({"repo": "a/b/c"}, "'a/b/c': expected a Hub id"),
        ({"repo": "../x"}, "expected a Hub id"),
        ({"variants": ["bnb:nf4"]}, "nothing to publish: 'bnb:nf4': made on the spot"),
        ({"variants": ["x"]}, "--variant 'x' is not in this report; it holds: 'org/tiny-135M-GGUF:Q8_0'"),
    ],
)
def test_nothing_to_publish(report: Report, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_targets(report, **options)


def test_a_hostile_repo_id_is_refused(hostile: Report) -> None:
    with pytest.raises(InputError, match="expected a Hub id as ORG/NAME") as caught:
        choose_targets(hostile)
    assert "\x1b" not in str(caught.value)


def test_the_part_is_a_report_with_the_same_figures(report: Report, tmp_path: Path) -> None:
    part = choose_targets(report).targets[0].report
    path = tmp_path / "report.json"
    path.write_text(part.to_json())
    assert read_report(path) == part
    assert part.variants == [entry for entry in report.variants if entry.spec.startswith(GGUF)]
    assert (part.ranking, part.seconds) == ({}, {})
    assert part.base == report.base
    assert report.ranking, "the whole report is as before"


def test_paths_keep_their_last_name_only(report: Report) -> None:
    report.base.spec, report.base.repo_id, report.base.revision = "/home/someone/base", None, None
    report.base.notes = ["read from /home/someone/base/config.json"]
    report.tasks[0].source = "./private/items.jsonl"
    assert report.contrast is not None
    report.contrast.source = "/data/someone/a.txt, /data/someone/b.txt"
    part = part_of(report, {GGUF + ":Q8_0"})
    assert part.base.spec == "base"
    assert part.base.notes == ["read from base/config.json"]
    assert part.tasks[0].source == "items.jsonl"
    assert part.contrast is not None
    assert part.contrast.source == "a.txt, b.txt"
    assert "someone" not in part.to_json()


def test_results_of_one_variant(report: Report) -> None:
    part = choose_targets(report, variants=[f"{GGUF}:Q5_0"]).targets[0].report
    results = model_index_results(part, url=URL)
    name, found = model_index_to_eval_results([{"name": "tiny", "results": results}])
    assert name == "tiny"
    figures = {(entry.dataset_type, entry.metric_type): entry for entry in found}
    agreement = figures["allenai/ai2_arc", "correctness_agreement"]
    block = part.variants[0].correctness_agreement["arc"]
    assert agreement.metric_value == pytest.approx(block.correctness_agreement, rel=1e-5)
    assert (agreement.dataset_config, agreement.dataset_split, agreement.dataset_revision) == (
        "ARC-Challenge",
        "test",
        "a" * 40,
    )
    assert agreement.metric_name is not None
    assert agreement.metric_name.startswith("Correctness agreement with the base (share")
    assert {entry.source_url for entry in found} == {URL}
    assert {entry.source_name for entry in found} == {"hubaudit"}
    assert {(kind, dataset) for dataset, kind in figures} >= {
        ("prism_bound", "openai/gsm8k"),
        ("divergence", "openai/gsm8k"),
        ("direction_floor", "builtin"),
        ("translation_attenuation", "builtin"),
    }
    for entry in found:
        assert "(" in (entry.metric_name or ""), "every name holds its unit"
        assert type(entry.metric_value) is float
    angles = [result.rotation_degrees for result in part.variants[0].direction_floor.values()]
    assert figures["builtin", "direction_floor"].metric_value == max(angle for angle in angles if angle is not None)


def test_results_of_several_variants_are_named(report: Report) -> None:
    results = model_index_results(choose_targets(report).targets[0].report, url=URL)
    names = [metric["name"] for result in results for metric in result["metrics"]]
    assert len(names) == 3 * (2 * 3 + 1 + 2)
    assert {name.split(":")[0] for name in names} == {"Q8_0", "Q5_0", "Q4_0"}
    assert len(results) == 3, "one entry a task, one for the contrast set"


def test_undefined_figures_are_left_out(report: Report) -> None:
    results = model_index_results(choose_targets(report, repo=DISTILLED).targets[0].report, url=URL)
    kinds = {metric["type"] for result in results for metric in result["metrics"]}
    assert not kinds & {"prism_bound", "direction_floor"}
    assert {"correctness_agreement", "divergence"} <= kinds
    assert "null" not in json.dumps(results)


def test_the_command_is_pinned(report: Report) -> None:
    install, command = (audit_command(choose_targets(report).targets[0].report) or "").split("\n")
    assert install == "pip install hubaudit==0.1.0"
    words = shlex.split(command)
    sha = "7e27bd9f95328f0f3b08261d1252705110c806f8"
    assert words[:4] == ["hubaudit", "audit", f"org/tiny-135M@{sha}", f"{GGUF}@{sha}:Q8_0"]
    options = dict(zip(words[6::2], words[7::2], strict=True))
    assert options == {
        "--tasks": "arc,gsm8k",
        "--contrast": "builtin",
        "--layers": "3,6,9,12,15,18,21,24,27",
        "--limit": "256",
        "--batch-tokens": "8192",
        "--dtype": "bfloat16",
        "--seed": "0",
    }


def test_the_command_of_local_files_and_builtin_tasks(report: Report) -> None:
    report.tasks[0].source, report.tasks[1].source = "hubaudit builtin", "/x/y/my items.jsonl"
    report.contrast = None
    report.settings["limit"] = None
    report.base.spec, report.base.repo_id, report.base.revision = "/home/someone/base", None, None
    command = audit_command(part_of(report, {"rtn:4@g128"}))
    assert command is not None
    assert "hubaudit audit base rtn:4@g128 --tasks 'builtin,my items.jsonl' --contrast none --limit 0" in command


def test_hostile_texts_reach_neither_metadata_nor_markup(hostile: Report) -> None:
    for entry in hostile.variants:
        if entry.model is not None:
            entry.model.repo_id = GGUF
    hostile.hubaudit_version = HOSTILE
    assert audit_command(hostile) is None
    part = choose_targets(hostile).targets[0].report
    results = model_index_results(part, url=URL)
    assert yaml.safe_load(yaml.safe_dump(results)) == results
    texts = json.dumps(results, ensure_ascii=False)
    assert "\x1b" not in texts
    assert "\\n" not in texts
    section = card_section(part, plot_folder="hubaudit/plots", command=audit_command(part), report_file="r.json")
    assert section.count("<!--") == section.count("-->") == 2
    assert "<script" not in section
    assert "```" not in section


@pytest.mark.parametrize("version", ["0.1.0`\n```\nx", "0.1.0 <!-- hubaudit:end -->", "", "a--b", "1 --index-url=x"])
def test_no_command_rather_than_a_strange_one(report: Report, version: str) -> None:
    report.hubaudit_version = version
    assert audit_command(report) is None
