"""The calling convention of evaluate without Arrow: batches, tensors, several processes, every bad input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import torch
from metric_inputs import METRICS, inputs_of, rows_of

from hubaudit.errors import InputError
from hubaudit.stats.correctness_agreement import correctness_agreement
from hubaudit.stats.direction_floor import direction_floor
from hubaudit.stats.head import Head
from hubaudit.stats.logits import row_statistics
from hubaudit.stats.prism_bound import PrismMoments, item_contributions, prism_bound
from hubaudit.stats.translation_attenuation import translation_attenuation
from hubaudit.stats.weights import row_weights_of

Load = Callable[..., Any]


def test_results_are_those_of_the_estimators(load_metric: Load) -> None:
    given = {name: inputs_of(name) for name in METRICS}
    expected = {}
    x = given["correctness_agreement"]
    expected["correctness_agreement"] = correctness_agreement(
        x["predictions"], x["base_predictions"], x["references"], item_ids=x["item_ids"], subjects=x["subjects"]
    )
    x = given["direction_floor"]
    expected["direction_floor"] = direction_floor(x["predictions"], x["references"], x["labels"])
    x = given["translation_attenuation"]
    expected["translation_attenuation"] = translation_attenuation(
        x["predictions"],
        x["references"],
        x["labels"],
        threshold=1.5,
        base_features=x["base_features"],
        variant_features=x["variant_features"],
    )
    x = given["prism_bound"]
    heads = [Head(x[f"{which}_head"], bias=x[f"{which}_bias"], scale=0.5) for which in ("base", "variant")]
    weights = row_weights_of(x["item_ids"], 30)
    moments = PrismMoments(5)
    moments.update(x["references"], x["predictions"], weights)
    rows = row_statistics(x["references"], x["predictions"], *heads, x["labels"])
    expected["prism_bound"] = prism_bound(moments, *heads, rows=rows, row_weights=weights, item_ids=x["item_ids"])
    for name, result in expected.items():
        computed = load_metric(name).compute(**given[name])
        computed.pop("remedy", None)
        drifting = computed.pop("drifting_items", None)
        assert computed == result.to_dict(), name
    parts = item_contributions(x["references"], x["predictions"], x["item_ids"])
    assert [item for item, _ in drifting] == [item for item, _ in parts.largest(10)]
    assert sum(added for _, added in drifting) == pytest.approx(parts.contribution.sum(), rel=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_batches_and_single_rows_equal_one_call(load_metric: Load, name: str) -> None:
    metric = load_metric(name)
    rows, options = rows_of(name, metric.columns)
    expected = metric.compute(**rows, **options)
    n = len(rows["references"])
    for start, stop in ((0, 7), (7, 8), (8, n)):
        metric.add_batch(**{key: value[start:stop] for key, value in rows.items()})
    assert len(metric) == n
    assert metric.compute(**options) == expected
    assert len(metric) == 0
    singular = {"predictions": "prediction", "references": "reference"}
    for i in range(n):
        metric.add(**{singular.get(key, key): value[i] for key, value in rows.items()})
    assert metric.compute(**options) == expected
    metric.add_batch(**{key: value[:5] for key, value in rows.items()})
    assert metric.compute(**{key: value[5:] for key, value in rows.items()}, **options) == expected


@pytest.mark.parametrize("name", METRICS)
def test_required_inputs_are_the_names_that_evaluate_checks(load_metric: Load, name: str) -> None:
    metric = load_metric(name)
    assert isinstance(metric, evaluate.Metric)
    assert metric.name == name
    assert metric._feature_names() == [column.name for column in metric.columns if column.required]
    features = metric.features if isinstance(metric.features, list) else [metric.features]
    assert all(set(feature) == set(metric._feature_names()) for feature in features)


def test_added_arrays_are_copied_and_given_ones_are_not_changed(load_metric: Load) -> None:
    metric, inputs = load_metric("direction_floor"), inputs_of("direction_floor")
    expected = metric.compute(**inputs)
    buffers = {name: value.copy() for name, value in inputs.items()}
    metric.add_batch(**buffers)
    for buffer in buffers.values():
        buffer[:] = 0
    assert metric.compute() == expected


@pytest.mark.parametrize("name", ["direction_floor", "prism_bound"])
def test_bfloat16_tensors(load_metric: Load, name: str) -> None:
    metric, inputs = load_metric(name), inputs_of(name)
    floats = [key for key, value in inputs.items() if getattr(value, "dtype", None) in (np.float32, np.float64)]
    tensors = inputs | {key: torch.tensor(inputs[key]).to(torch.bfloat16) for key in floats}
    rounded = inputs | {key: tensors[key].to(torch.float32).numpy() for key in floats}
    result, expected = metric.compute(**tensors), metric.compute(**rounded)
    keys = expected.keys() & {"omega", "bound", "risk_gap", "kl", "cosine", "corrected_cosine", "rho"}
    assert len(keys) >= 3
    for key in keys:
        # The same float32 products in another library's order of summation.
        assert result[key] == pytest.approx(expected[key], rel=1e-5, abs=1e-7), key
    tensors["predictions"].requires_grad_(True)
    assert metric.compute(**tensors) == result


def test_big_arrays_do_not_go_through_arrow(load_metric: Load) -> None:
    metric = load_metric("translation_attenuation")
    rng = np.random.default_rng(0)
    labels = np.arange(4000) % 2
    scores = rng.normal(size=4000) + labels
    features = rng.normal(size=(4000, 256)).astype(np.float32)
    started = time.process_time()
    for rows in (slice(0, 2000), slice(2000, 4000)):
        metric.add_batch(
            predictions=scores[rows], references=scores[rows], labels=labels[rows], variant_features=features[rows]
        )
    # evaluate's own path takes about 1.4 s for these million numbers, a copy about a millisecond.
    assert time.process_time() - started < 0.3
    assert metric.writer is None
    assert metric.data is None
    assert not list(Path(metric.data_dir).iterdir())


@pytest.mark.parametrize("name", METRICS)
def test_random_states_are_restored(load_metric: Load, name: str) -> None:
    np.random.seed(5)  # noqa: NPY002 - the global state is what evaluate promises to restore
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    load_metric(name).compute(**inputs_of(name))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


BAD = [
    ("correctness_agreement", {"predictions": [], "base_predictions": [], "references": []}, "at least one row"),
    ("correctness_agreement", {"predictions": ["A"]}, "as many rows in every input"),
    ("correctness_agreement", {"references": "A" * 40}, "list of references"),
    ("correctness_agreement", {"references": [1] * 40}, "a string never equals a number"),
    ("correctness_agreement", {"references": [["A"]] * 40}, "in row 0"),
    ("correctness_agreement", {"references": None}, "got none for references"),
    ("correctness_agreement", {"item_ids": ["q"] * 40}, "every item once"),
    ("correctness_agreement", {"tost_margin": 2.0}, "margin"),
    ("correctness_agreement", {"margin": 0.02}, "got margin"),
    ("direction_floor", {"predictions": np.zeros((0, 6))}, "at least one of each"),
    ("direction_floor", {"labels": np.zeros(24)}, "two"),
    ("direction_floor", {"labels": [1] + [0] * 23}, "2 prompts"),
    ("direction_floor", {"predictions": np.zeros((24, 7))}, "width"),
    ("direction_floor", {"predictions": np.zeros((23, 6))}, "as many rows in every input"),
    ("direction_floor", {"predictions": np.full((24, 6), np.nan)}, "row 0"),
    ("direction_floor", {"predictions": [[1.0], [1.0, 2.0]] * 12}, "rows of one length"),
    ("direction_floor", {"predictions": [["a"]] * 24}, "array of numbers"),
    ("direction_floor", {"theta0_degrees": 100.0}, "theta0_degrees"),
    ("prism_bound", {"predictions": np.zeros((30, 4), np.float32)}, "features"),
    ("prism_bound", {"base_head": np.ones((11, 4), np.float32)}, "width"),
    ("prism_bound", {"base_head": None}, "base_head"),
    ("prism_bound", {"labels": np.full(30, 11)}, "in row 0"),
    ("prism_bound", {"labels": np.full(30, -1)}, "in row 0"),
    ("prism_bound", {"labels": [2**70] * 30}, "64 bits"),
    ("prism_bound", {"labels": np.full(30, 2**64 - 1, np.uint64)}, "labels"),
    ("prism_bound", {"predictions": np.full((30, 5), np.inf, np.float32)}, "row 0"),
    ("prism_bound", {"alignment": np.ones((5, 5))}, "orthogonal"),
    ("prism_bound", {"alignment": "rotate"}, "alignment"),
    ("prism_bound", {"weights": "rows"}, "'item' or 'token'"),
    ("prism_bound", {"scale": 0.0}, "scale"),
    ("prism_bound", {"softcap": -1.0}, "soft cap"),
    ("prism_bound", {"k_feat": float("nan")}, "k_feat"),
    ("prism_bound", {"item_ids": ["a"]}, "as many rows"),
    ("prism_bound", {"base_bias": np.zeros(3)}, "bias"),
    ("translation_attenuation", {"labels": np.zeros(40, int)}, "each class"),
    ("translation_attenuation", {"labels": np.r_[1, np.zeros(39, int)]}, "each class"),
    ("translation_attenuation", {"labels": np.arange(40)}, "0 or 1"),
    ("translation_attenuation", {"predictions": np.ones(40)}, "vary within a class"),
    ("translation_attenuation", {"predictions": np.r_[np.zeros(39), np.nan]}, "row 39"),
    ("translation_attenuation", {"predictions": np.zeros((40, 1))}, "shape"),
    ("translation_attenuation", {"variant_features": np.full((40, 3), np.inf)}, "row 0"),
    ("translation_attenuation", {"threshold": float("nan")}, "threshold"),
    ("translation_attenuation", {"threshold": "0"}, "threshold as a number"),
    ("translation_attenuation", {"translation_margin": None}, "translation_margin as a number"),
    ("correctness_agreement", {"tost_margin": "a"}, "tost_margin as a number"),
    ("correctness_agreement", {"seed": 0.5}, "seed as a whole number"),
    ("correctness_agreement", {"seed": -1}, "seed"),
    ("direction_floor", {"n_splits": 2.5}, "n_splits as a whole number"),
    ("direction_floor", {"theta0_degrees": [5]}, "theta0_degrees as a number"),
    ("prism_bound", {"scale": "1"}, "scale as a number"),
    ("prism_bound", {"scale": True}, "scale as a number"),
    ("prism_bound", {"softcap": np.ones(2)}, "softcap as a number"),
    ("prism_bound", {"k_feat": "large"}, "k_feat as a number"),
    ("prism_bound", {"variant_head": np.ones((10, 5)), "variant_bias": None, "alignment": "joint"}, "common tokens"),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD, ids=[f"{n}-{next(iter(c))}-{m}" for n, c, m in BAD])
def test_bad_input_is_one_error_and_leaves_nothing(
    load_metric: Load, tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    metric = load_metric(name, cache_dir=str(tmp_path))
    good = inputs_of(name)
    expected = metric.compute(**good)
    with pytest.raises(InputError, match=message) as caught:
        metric.compute(**good | change)
    assert isinstance(caught.value, ValueError)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert len(metric) == 0
    assert metric.compute(**good) == expected


def test_base_without_a_correct_item_is_undefined_with_a_reason(load_metric: Load) -> None:
    result = load_metric("correctness_agreement").compute(predictions=[1], base_predictions=[0], references=[1])
    assert result["correctness_agreement"] is None
    assert "no correct item" in result["reasons"]["correctness_agreement"]


def test_a_refused_batch_is_not_added(load_metric: Load) -> None:
    metric, good = load_metric("direction_floor"), inputs_of("direction_floor")
    expected = metric.compute(**good)
    metric.add_batch(**{key: value[:10] for key, value in good.items()})
    for change, message in (
        ({"predictions": np.zeros((3, 6))}, "as many rows"),
        ({"predictions": np.zeros((24, 7))}, "width 6 as in the first batch"),
        ({"labels": None}, "none for labels"),
        ({"theta0_degrees": 5.0}, "options belong to compute"),
    ):
        with pytest.raises(InputError, match=message):
            metric.add_batch(**good | change)
    assert len(metric) == 10
    metric.add_batch(**{key: value[10:] for key, value in good.items()})
    assert metric.compute() == expected


def test_optional_inputs_come_in_every_batch_or_in_none(load_metric: Load) -> None:
    metric, good = load_metric("prism_bound"), inputs_of("prism_bound")
    rows = {name: good[name] for name in ("predictions", "references", "labels")}
    metric.add_batch(**rows)
    with pytest.raises(InputError, match="inputs of the first batch, predictions, references, labels"):
        metric.add_batch(predictions=rows["predictions"], references=rows["references"])


def test_without_inputs(load_metric: Load) -> None:
    with pytest.raises(InputError, match=r"got none; give them here, or with add_batch before"):
        load_metric("prism_bound").compute(base_head=np.eye(3))


def test_positional_arguments_are_refused(load_metric: Load) -> None:
    with pytest.raises(TypeError, match="positional"):
        load_metric("prism_bound").compute(np.eye(3), np.eye(3))


def test_combines_with_another_metric(load_metric: Load) -> None:
    inputs = inputs_of("direction_floor")
    pair = evaluate.combine([load_metric("direction_floor"), load_metric("direction_floor")])
    assert (
        pair.compute(**inputs)["direction_floor_0_cosine"] == load_metric("direction_floor").compute(**inputs)["cosine"]
    )


WORKER = """
import json, sys
import numpy as np
import evaluate
sys.path.insert(0, sys.argv[4])
from metric_inputs import rows_of
name, process, cache = sys.argv[1], int(sys.argv[2]), sys.argv[3]
metric = evaluate.load(sys.argv[5], num_process=2, process_id=process, experiment_id="e", cache_dir=cache, timeout=60)
rows, options = rows_of(name, metric.columns)
half = slice(0, 14) if process == 0 else slice(14, None)
metric.add_batch(**{key: value[half] for key, value in rows.items()})
result = metric.compute(**(options if process == 0 else {}))
print(json.dumps(result, default=float))
"""


def test_two_processes_meet_through_arrow(load_metric: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hubaudit.modules.install import metric_folder

    name = "prism_bound"
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    arguments = [str(tmp_path), str(Path(__file__).parent), str(metric_folder(name) / f"{name}.py")]
    commands = [[sys.executable, "-c", WORKER, name, str(process), *arguments] for process in (0, 1)]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    outputs = [worker.communicate(timeout=240) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert json.loads(outputs[1][0]) is None
    result, expected = json.loads(outputs[0][0]), load_metric(name).compute(**inputs_of(name))
    for key in ("bound", "omega", "risk_gap", "n_items", "n_tokens"):
        # Arrow keeps float64 lists, so the heads' float32 products are the only difference.
        assert result[key] == pytest.approx(expected[key], rel=1e-5), key


def test_a_failure_in_one_of_several_processes_leaves_no_lock(load_metric: Load, tmp_path: Path) -> None:
    # Process 1 of 2 has no partner that would answer: it gives up after the timeout.
    metric = load_metric(
        "direction_floor", num_process=2, process_id=1, experiment_id="alone", cache_dir=str(tmp_path), timeout=0.2
    )
    with pytest.raises(ValueError, match="Expected to find locked file"):
        metric.add_batch(**inputs_of("direction_floor"))
    assert metric.filelock is None
    assert metric.writer is None
    from filelock import FileLock

    for path in tmp_path.rglob("*.lock"):
        FileLock(path).acquire(timeout=0).lock.release()
