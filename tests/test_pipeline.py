"""The whole audit on a tiny model: identities that must hold in every cell, and failures that lose nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_llama import save_tiny_llama

import hubaudit
from hubaudit import pipeline as pipeline_module
from hubaudit.errors import AccessError, InputError
from hubaudit.pipeline import Pipeline
from hubaudit.progress import Silent
from hubaudit.report.schema import Report
from hubaudit.settings import AuditSettings
from hubaudit.tasks import read as read_module

TASK = [
    {
        "id": f"q{n}",
        "question": f"What is {n} plus {n}?",
        "options": [str(2 * n), str(2 * n + 1), "none"],
        "answer": n % 3,
    }
    for n in range(12)
]
ANSWERS = [{"id": f"a{n}", "prompt": f"Count: {n},", "target": f" {n + 1}"} for n in range(6)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Task files, a corpus and a contrast set."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "choice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TASK))
    (folder / "forced.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ANSWERS))
    (folder / "corpus.txt").write_text("Snow is cold and the sun is hot. " * 6)
    (folder / "a.txt").write_text("\n".join(f"Please do the wrong thing number {n}" for n in range(12)))
    (folder / "b.txt").write_text("\n".join(f"Kindly do the other thing number {n}" for n in range(12)))
    tasks = ",".join(str(folder / name) for name in ("choice.jsonl", "forced.jsonl", "corpus.txt"))
    return {"tasks": tasks, "contrast": f"{folder / 'a.txt'},{folder / 'b.txt'}", "cache": str(folder / "cache")}


def run(base: Path, variants: list[str], inputs: dict[str, str], **options: Any) -> Report:
    return hubaudit.audit(
        str(base),
        variants,
        tasks=options.pop("tasks", inputs["tasks"].split(",")),
        contrast=options.pop("contrast", inputs["contrast"]),
        dtype="float32",
        device="cpu",
        cache_dir=options.pop("cache_dir", inputs["cache"]),
        **options,
    )


@pytest.fixture(scope="module")
def report(
    tiny_base: Path, inputs: dict[str, str], tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any
) -> Report:
    """An audit of the base itself, two roundings, another head, a wider model and one that is missing."""
    folder = tmp_path_factory.mktemp("variants")
    save_tiny_llama(folder / "other", tiny_tokenizer, seed=3, tie_word_embeddings=False)
    save_tiny_llama(folder / "wide", tiny_tokenizer, hidden_size=48)
    variants = [str(tiny_base), "rtn:8@g16", "rtn:3@g16", str(folder / "other"), str(folder / "wide"), "./missing"]
    return run(tiny_base, variants, inputs)


def test_the_base_against_itself_gives_exactly_nothing(report: Report) -> None:
    same = report.variants[0]
    assert same.status == "done"
    assert set(same.prism_bound) == {"choice", "forced", "corpus"}
    for task, bound in same.prism_bound.items():
        assert (bound.bound, bound.delta, bound.gamma, bound.scale, bound.shape, bound.risk_gap) == (0, 0, 0, 0, 0, 0)
        assert bound.omega == 1
        divergence = same.divergence[task]
        assert (divergence.kl, divergence.kl_max, divergence.gold_delta_p_rms, divergence.top1_agreement) == (
            0,
            0,
            0,
            1,
        )
    for cell in same.correctness_agreement.values():
        assert cell.correctness_agreement in (1.0, None)
        assert cell.churn_rate == 0
    assert "identical_to_base" in {finding.id for finding in same.findings}


def test_the_bounds_hold_in_every_cell(report: Report) -> None:
    cells = 0
    for variant in report.variants[1:4]:
        for bound in variant.prism_bound.values():
            assert bound.bound is not None
            assert abs(bound.risk_gap) <= bound.logratio_bound * (1 + 1e-6) + 1e-9
            assert bound.logratio_bound <= bound.bound * (1 + 1e-6)
            assert bound.gap_features + bound.gap_head == pytest.approx(bound.risk_gap, abs=1e-9)
            assert (bound.delta / bound.k_feat) ** 2 == pytest.approx(bound.d_mean_square, rel=1e-9)
            cells += 1
    assert cells == 9


def test_a_head_of_its_own_gives_gamma(report: Report) -> None:
    rounded, other = report.variants[2], report.variants[3]
    assert all(bound.gamma == 0 for bound in rounded.prism_bound.values())
    assert all(bound.gamma > 0 for bound in other.prism_bound.values())


def test_another_width_keeps_agreement_and_divergence(report: Report) -> None:
    wide = report.variants[4]
    assert wide.status == "done"
    assert wide.direction_floor == {}
    assert wide.translation_attenuation is None
    for task, bound in wide.prism_bound.items():
        assert bound.bound is None
        assert "width" in bound.reasons["bound"]
        assert wide.divergence[task].kl > 0
    assert set(wide.correctness_agreement) == {"choice", "forced"}
    assert "incomparable_features" in {finding.id for finding in wide.findings}


def test_a_missing_variant_is_in_the_report_and_the_others_are_done(report: Report) -> None:
    missing = report.variants[5]
    assert (missing.status, missing.error.exit_code) == ("failed", 3)
    assert "no such file or folder" in missing.error.message
    assert missing.findings[0].id == "variant_failed"


def test_directions_and_monitor_are_there(report: Report) -> None:
    rounded = report.variants[1]
    assert set(rounded.direction_floor) == {0, 1}
    assert rounded.translation_attenuation.n == 12
    assert len(rounded.monitor.labels) == 12
    assert report.contrast.n_a == 12


def test_both_scores_of_multiple_choice_are_kept(report: Report) -> None:
    rounded = report.variants[2]
    assert set(rounded.agreement_by_metric["choice"]) == {"acc", "acc_norm"}
    assert rounded.correctness_agreement["choice"] == rounded.agreement_by_metric["choice"]["acc_norm"]
    cell = rounded.correctness_agreement["choice"]
    kinds = [change.kind for change in rounded.changed_items["choice"]]
    assert kinds.count("regression") == cell.regressions
    assert kinds.count("recovery") == cell.recoveries
    assert kinds.count("wrong_to_other_wrong") == cell.wrong_to_other_wrong


def test_the_compute_floor_is_small_and_measured(report: Report) -> None:
    floor = report.compute_floor
    assert floor.other_dtype == "bfloat16"
    for task in ("choice", "forced", "corpus"):
        assert floor.batch[task].bound < floor.dtype[task].bound
        assert floor.dtype[task].kl > 0
    assert all(angle >= 0 for angle in floor.direction_degrees.values())


def test_a_report_survives_its_own_json(report: Report) -> None:
    text = report.to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert Report.model_validate_json(text).to_json() == text


def without_times(report: Report) -> str:
    content = json.loads(report.to_json())
    for part in (content, *content["variants"]):
        part.pop("created", None)
        part.pop("seconds", None)
    return json.dumps(content)


def test_two_audits_give_the_same_bytes(tiny_base: Path, inputs: dict[str, str], tmp_path: Path) -> None:
    reports = [run(tiny_base, ["rtn:4@g16"], inputs, cache_dir=tmp_path / str(n)) for n in range(2)]
    assert without_times(reports[0]) == without_times(reports[1])


def test_one_more_variant_needs_one_more_pass(
    tiny_base: Path, inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    load = Pipeline._load
    monkeypatch.setattr(
        Pipeline, "_load", lambda self, source, context: loaded.append(source.spec) or load(self, source, context)
    )
    run(tiny_base, ["rtn:4@g16"], inputs, cache_dir=tmp_path)
    first = list(loaded)
    run(tiny_base, ["rtn:4@g16", "rtn:5@g16"], inputs, cache_dir=tmp_path)
    assert first == [str(tiny_base), "rtn:4@g16"]
    assert loaded == [*first, "rtn:5@g16"]
    run(tiny_base, ["rtn:5@g16"], inputs, cache_dir=tmp_path, resume=False)
    assert len(loaded) == 5


def test_the_next_variant_is_fetched_while_one_runs(
    tiny_base: Path, inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each model's run waits for the fetch of the one after it: only a fetch beside the run lets it go on."""
    fetched = {name: threading.Event() for name in ("rtn:4@g16", "rtn:5@g16", "rtn:6@g16")}
    after = {"base": "rtn:4@g16", "rtn:4@g16": "rtn:5@g16", "rtn:5@g16": "rtn:6@g16"}
    resolve, collect = pipeline_module.resolve_variant, Pipeline._collect

    def resolved(spec: str, *arguments: Any, **options: Any) -> Any:
        fetched[spec].set()
        return resolve(spec, *arguments, **options)

    def collected(self: Pipeline, model: Any, evidence: Any, content: str, label: str) -> Any:
        if label in after:
            assert fetched[after[label]].wait(20)
        return collect(self, model, evidence, content, label)

    monkeypatch.setattr(pipeline_module, "resolve_variant", resolved)
    monkeypatch.setattr(Pipeline, "_collect", collected)
    report = run(tiny_base, list(fetched), inputs, cache_dir=tmp_path)
    assert [variant.status for variant in report.variants] == ["done"] * 3


def test_the_batch_in_the_report_is_the_one_that_ran(tiny_base: Path, inputs: dict[str, str], report: Report) -> None:
    assert report.settings["batch_tokens"] == 1024
    other = run(tiny_base, ["rtn:8@g16"], inputs, batch_tokens=300)
    assert other.settings["batch_tokens"] == 300


def test_the_user_may_interrupt_and_keep_what_is_finished(
    tiny_base: Path, inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load = Pipeline._load

    def stop_at_five(self: Pipeline, source: Any, context: Any) -> Any:
        if source.spec.startswith("rtn:5"):
            raise KeyboardInterrupt
        return load(self, source, context)

    monkeypatch.setattr(Pipeline, "_load", stop_at_five)
    settings = AuditSettings(
        base=str(tiny_base),
        variants=("rtn:4@g16", "rtn:5@g16", "rtn:6@g16"),
        tasks=(inputs["tasks"].split(",")[0],),
        contrast=None,
        dtype="float32",
        cache_dir=tmp_path,
    )
    pipeline = Pipeline(settings, Silent())
    report = pipeline.run()
    assert pipeline.interrupted
    assert [variant.status for variant in report.variants] == ["done", "interrupted", "interrupted"]
    assert report.variants[0].correctness_agreement


def test_non_finite_activations_fail_the_variant_only(
    tiny_base: Path, inputs: dict[str, str], tmp_path: Path, tiny_tokenizer: Any
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    broken = save_tiny_llama(tmp_path / "broken", tiny_tokenizer)
    model = AutoModelForCausalLM.from_pretrained(broken, dtype=torch.float32)
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[3, 3] = float("inf")
    model.save_pretrained(broken)
    report = run(tiny_base, [str(broken), "rtn:8@g16"], inputs)
    assert [variant.status for variant in report.variants] == ["failed", "done"]
    assert report.variants[0].error.type == "NonFiniteError"
    assert "decoder block 1" in report.variants[0].error.message


def test_foreign_tokens_fail_the_variant(
    tiny_base: Path, inputs: dict[str, str], tmp_path: Path, tiny_tokenizer: Any
) -> None:
    foreign = save_tiny_llama(tmp_path / "foreign", tiny_tokenizer)
    text = (foreign / "tokenizer.json").read_text()
    (foreign / "tokenizer.json").write_text(
        text.replace('"a":', '"@@":').replace('"n":', '"a":').replace('"@@":', '"n":')
    )
    report = run(tiny_base, [str(foreign)], inputs)
    assert report.variants[0].status == "failed"
    assert "foreign tokens" in report.variants[0].error.message


def test_a_dataset_that_cannot_be_reached_is_replaced(
    tiny_base: Path, inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise AccessError("allenai/ai2_arc: the dataset could not be read; check the network")

    monkeypatch.setattr(read_module, "read_hub_rows", unreachable)
    report = run(tiny_base, [], inputs, tasks=["arc"], contrast=None, limit=8)
    assert [task.name for task in report.tasks] == ["builtin", "builtin-answers"]
    assert report.findings[0].id == "dataset_replaced"


def test_a_saved_probe_is_audited(tiny_base: Path, inputs: dict[str, str], tmp_path: Path) -> None:
    probe = tmp_path / "probe.safetensors"
    direction = np.linspace(-1, 1, 32).astype(np.float32)
    hubaudit.save_probe(probe, direction[None], threshold=0.1, layer=1)
    report = run(tiny_base, ["rtn:8@g16"], inputs, probe=probe)
    assert report.variants[0].monitor.probe == str(probe)
    assert len(report.variants[0].monitor.labels) == 24
    # The remedies, measured on prompts that they were not made from.
    assert report.variants[0].translation_attenuation.accuracy_refit_threshold is not None
    assert report.variants[0].translation_attenuation.accuracy_refit_probe is not None
    for bad in (direction * 0, direction * np.nan, direction.reshape(2, 16)):
        with pytest.raises(InputError, match="expected a finite direction"):
            hubaudit.save_probe(tmp_path / "bad.safetensors", bad, threshold=0.0, layer=1)
    with pytest.raises(InputError, match="layer -1"):
        hubaudit.save_probe(tmp_path / "bad.safetensors", direction, threshold=0.0, layer=-1)
    save_file({"direction": direction[:5], "threshold": np.array([0.1]), "layer": np.array([1])}, probe)
    with pytest.raises(InputError, match="expected a finite direction of width 32"):
        run(tiny_base, ["rtn:8@g16"], inputs, probe=probe)
    probe.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="expected a safetensors file"):
        run(tiny_base, ["rtn:8@g16"], inputs, probe=probe)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "--limit must be at least 1"),
        ({"batch_tokens": 0}, "--batch-tokens must be at least 1"),
        ({"layers": [7]}, "--layers: expected layers from 0 to 1, but got 7"),
        ({"tasks": [], "contrast": None}, "at least one task"),
    ],
)
def test_bad_options(tiny_base: Path, inputs: dict[str, str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tiny_base, [], inputs, **options)


def test_a_variant_named_twice(tiny_base: Path, inputs: dict[str, str]) -> None:
    with pytest.raises(InputError, match="is given twice"):
        run(tiny_base, ["rtn:4", "rtn:4"], inputs)
