"""The checked input of the direction statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hubaudit.errors import InputError
from hubaudit.stats.paired_contrast import paired_contrast

RNG = np.random.default_rng(0)
VARIANT, BASE = RNG.standard_normal((2, 7, 3))
LABELS = np.array([0, 1, 1, 0, 1, 0, 1])


def test_blocks_are_inner_products_of_centred_rows() -> None:
    contrast = paired_contrast(VARIANT, BASE, LABELS)
    assert (contrast.n_a, contrast.n_b, contrast.d) == (4, 3, 3)
    assert contrast.n_per_class == pytest.approx(2 / (1 / 4 + 1 / 3))
    # Each model is scaled by a power of two: ratios of lengths are what the blocks are for.
    scales = [2.0 ** -np.ceil(np.log2(np.abs(x).max())) for x in (VARIANT, BASE)]
    for i in range(7):
        for j in range(7):
            variant_i, variant_j = (scales[0] * (VARIANT[k] - VARIANT.mean(axis=0)) for k in (i, j))
            base_i, base_j = (scales[1] * (BASE[k] - BASE.mean(axis=0)) for k in (i, j))
            assert contrast.gram_base[i, j] == pytest.approx(base_i @ base_j, abs=1e-12)
            assert contrast.gram_variant[i, j] == pytest.approx(variant_i @ variant_j, abs=1e-12)
            cross = (variant_i @ base_j + variant_j @ base_i) / 2
            assert contrast.gram_cross[i, j] == pytest.approx(cross, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "class_a"),
    [
        (["safe", "unsafe", "unsafe", "safe", "unsafe", "safe", "unsafe"], "unsafe"),
        ([False, True, True, False, True, False, True], True),
        ([-1.5, 2.0, 2.0, -1.5, 2.0, -1.5, 2.0], 2.0),
        (torch.from_numpy(LABELS), 1),
    ],
)
def test_class_a_is_the_larger_label(labels: Any, class_a: Any) -> None:
    contrast = paired_contrast(VARIANT, BASE, labels)
    assert contrast.in_a.tolist() == [label == class_a for label in labels]


def test_the_base_against_itself_gives_the_same_block_three_times() -> None:
    contrast = paired_contrast(BASE.copy(), BASE, LABELS)
    assert np.array_equal(contrast.gram_variant, contrast.gram_base)
    assert np.array_equal(contrast.gram_cross, contrast.gram_base)


def test_a_constant_column_leaves_no_rounding() -> None:
    constant = np.full((7, 2), 0.1)
    assert not paired_contrast(VARIANT, np.hstack([constant, np.zeros((7, 1))]), LABELS).gram_base.any()


def test_huge_and_tiny_activations_give_finite_blocks() -> None:
    contrast = paired_contrast(VARIANT * 1e200, BASE * 1e-200, LABELS)
    expected = paired_contrast(VARIANT, BASE, LABELS)
    for name in ("gram_base", "gram_variant"):
        found, wanted = getattr(contrast, name), getattr(expected, name)
        assert found / np.trace(found) == pytest.approx(wanted / np.trace(wanted), abs=1e-12)


def with_value(row: int, value: float) -> np.ndarray:
    changed = BASE.copy()
    changed[row, 1] = value
    return changed


@pytest.mark.parametrize(
    ("variant", "base", "labels", "message"),
    [
        (VARIANT[:6], BASE, LABELS, "same prompts, but got 6 and 7 rows"),
        (VARIANT[:, :2], BASE, LABELS, "same width, but got 2 and 3"),
        (VARIANT[:, 0], BASE, LABELS, r"shape \(n, d\) with d >= 1, but got \(7,\)"),
        (VARIANT[:, :0], BASE[:, :0], LABELS, r"shape \(n, d\) with d >= 1, but got \(7, 0\)"),
        ([[1.0, 2.0], [3.0]], BASE, LABELS, "rectangular"),
        ([["a", "b"]], BASE, LABELS, "real numbers"),
        (VARIANT, with_value(3, np.nan), LABELS, r"base_activations must be finite, but row 3 .*1 of 7"),
        (with_value(5, -np.inf), BASE, LABELS, "variant_activations must be finite, but row 5"),
        (VARIANT, BASE, LABELS[:6], r"labels must have shape \(7,\).*got \(6,\)"),
        (VARIANT, BASE, np.ones(7), "exactly two classes, but got 1"),
        (VARIANT, BASE, np.arange(7), r"exactly two classes, but got 7 \(0, 1, 2, 3, 4\)"),
        (VARIANT, BASE, [0, 0, 0, 1, 0, 0, 0], "at least 2 prompts, but one has 1"),
        (VARIANT, BASE, [0, 1, np.nan, 0, 1, 0, 1], "labels must be finite, but row 2"),
        (VARIANT, BASE, np.array([0, "a", "a", 0, "a", 0, "a"], dtype=object), "one sortable type"),
        (np.zeros((0, 3)), np.zeros((0, 3)), [], "exactly two classes, but got 0"),
    ],
)
def test_bad_input(variant: Any, base: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        paired_contrast(variant, base, labels)
