"""Reading scores, labels and features: what is taken, what is refused and how it is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hubaudit.errors import InputError
from hubaudit.stats.scores import check_features, check_labels, check_scores


@pytest.mark.parametrize("labels", [[0, 1, 1], [False, True, True], np.array([0.0, 1.0, 1.0]), torch.tensor([0, 1, 1])])
def test_labels_of_any_kind(labels: object) -> None:
    assert check_labels(labels).tolist() == [False, True, True]  # type: ignore[arg-type]  # tensors are taken too


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_keep_their_values(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.1, -2.5, 3.0], dtype=dtype, requires_grad=True)
    read = check_scores(tensor, 3, "scores")  # type: ignore[arg-type]  # tensors are taken too
    assert read.dtype == np.float64
    assert read.tolist() == tensor.detach().double().tolist()


def test_float16_arrays_become_float64() -> None:
    assert check_scores(np.array([1.5, 2.5], dtype=np.float16), 2, "scores").dtype == np.float64


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], r"expected labels of shape \(n,\) with n >= 1, got \(0,\)"),
        ([[0, 1]], r"got \(1, 2\)"),
        ([0, 1, 2], "expected labels 0 or 1, got 2 in row 2"),
        ([0, 1, math.nan], "expected labels 0 or 1, got nan in row 2"),
        ([1, 1, 1], r"expected at least 2 items of each class, got 0 of class 0 and 3 of class 1"),
        ([0, 1, 1], r"expected at least 2 items of each class, got 1 of class 0 and 2 of class 1"),
        (["a", "b"], "expected an array of numbers, got <U1"),
        ([0, 2**70], "expected an array of numbers, got object"),
        ([0, 1, None], "expected an array of numbers, got object"),
    ],
)
def test_bad_labels(labels: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_labels(labels, at_least=2)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, 2.0], r"expected base scores of shape \(3,\), one a label, got \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"got \(3, 1\)"),
        ([1.0, math.nan, 2.0], "expected finite base scores, got nan in row 1"),
        ([1.0, 2.0, -math.inf], "expected finite base scores, got -inf in row 2"),
        ([[1.0], [2.0, 3.0], [4.0]], "got rows of different lengths"),
    ],
)
def test_bad_scores(scores: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_scores(scores, 3, "base scores")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((3, 2)), r"expected variant features of shape \(2, d\), got \(3, 2\)"),
        (np.zeros(2), r"got \(2,\)"),
        (np.zeros((2, 0)), r"got \(2, 0\)"),
        (np.array([[0.0, 1.0], [2.0, np.inf]]), "got NaN or infinity in row 1"),
    ],
)
def test_bad_features(features: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_features(features, 2, "variant features")
