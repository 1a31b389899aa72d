"""Weight differences against scipy and plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy, wasserstein_distance

from hubaudit.stats.structure import KL_BINS, compare_weights


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    base = rng.normal(scale=0.2, size=(96, 64)).astype(np.float32)
    return base, (np.round(base * 12) / 12 + 0.01).astype(np.float32)


def test_every_figure_is_a_direct_computation(pair: tuple[np.ndarray, np.ndarray]) -> None:
    base, variant = pair
    first, second = base.astype(np.float64), variant.astype(np.float64)
    error, norm = np.linalg.norm(second - first), np.linalg.norm(first)
    low, high = min(base.min(), variant.min()), max(base.max(), variant.max())
    counts = [np.histogram(values, KL_BINS, (low, high))[0] + 0.5 for values in (base, variant)]
    expected = {
        "n_weights": base.size,
        "base_norm": norm,
        "relative_error": error / norm,
        "sqnr_db": 10 * np.log10(norm**2 / error**2),
        "max_error": np.abs(second - first).max(),
        "wasserstein": wasserstein_distance(first.ravel(), second.ravel()),
        "kl": entropy(*counts),
    }
    found = compare_weights(base.copy(), variant.copy()).to_dict()
    assert found.pop("reasons") == {}
    assert found == pytest.approx(expected, rel=1e-6)


def test_parts_of_a_large_matrix_add_up(pair: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare_weights(pair[0].copy(), pair[1].copy()).to_dict()
    monkeypatch.setattr("hubaudit.stats.structure._BLOCK", 100)
    parts = compare_weights(pair[0].copy(), pair[1].copy()).to_dict()
    assert parts.pop("reasons") == whole.pop("reasons") == {}
    assert parts == pytest.approx(whole, rel=1e-12)


def test_a_permutation_changes_weights_but_not_their_distribution(pair: tuple[np.ndarray, np.ndarray]) -> None:
    found = compare_weights(pair[0].copy(), pair[0][::-1].copy())
    assert (found.relative_error or 0) > 1
    assert found.wasserstein == found.kl == 0


def test_equal_matrices_and_zeros(pair: tuple[np.ndarray, np.ndarray]) -> None:
    same = compare_weights(pair[0].copy(), pair[0].copy())
    assert (same.relative_error, same.sqnr_db, same.wasserstein, same.kl) == (0, None, 0, 0)
    assert "infinite" in same.reasons["sqnr_db"]
    zeros = compare_weights(np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32))
    assert zeros.relative_error is None
    assert zeros.wasserstein == 1
    assert set(zeros.reasons) == {"relative_error", "sqnr_db"}


@pytest.mark.parametrize(
    ("variant", "message"),
    [(np.ones((2, 3), np.float32), "one shape"), (np.full((2, 2), np.nan, np.float32), "NaN")],
)
def test_what_cannot_be_compared(variant: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_weights(np.ones((2, 2), np.float32), variant)
