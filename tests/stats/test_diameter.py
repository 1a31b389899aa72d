"""The exact diameter against brute force, where each of its shortcuts is at work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

from hubaudit.errors import InputError
from hubaudit.stats import farthest_pair
from hubaudit.stats.diameter import diameter
from hubaudit.stats.rough_distances import RoughDistances


def unit(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def clustered(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return unit(rng.standard_normal((40, d))[rng.integers(40, size=n)] + 0.3 * rng.standard_normal((n, d)))


CASES = {
    "random": lambda rng: rng.standard_normal((3000, 32)),
    "unit norm": lambda rng: unit(rng.standard_normal((3000, 32))),
    "unit norm in clusters": lambda rng: clustered(rng, 3000, 48),
    "low rank": lambda rng: unit(rng.standard_normal((3000, 3))) @ rng.standard_normal((3, 40)),
    "duplicated": lambda rng: np.repeat(rng.standard_normal((150, 24)), 20, axis=0),
    "far from zero": lambda rng: 1e4 + rng.standard_normal((1500, 16)),
    "heavy tails": lambda rng: rng.standard_t(2, (2000, 24)),
    "all the same": lambda rng: np.tile(rng.standard_normal(9), (2000, 1)),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("library", ["numpy32", "numpy64", "torch32", "bfloat16"])
def test_it_is_the_brute_force_maximum(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farthest_pair, "_FEW_ROWS", 500)  # so that groups are formed
    points: Any = CASES[kind](np.random.default_rng(3))
    if library != "numpy64":
        points = torch.from_numpy(points).to(torch.bfloat16 if library == "bfloat16" else torch.float32)
    wide = np.asarray(points, dtype=np.float64) if library == "numpy64" else points.double().numpy()
    if library == "numpy32":
        points = points.numpy()
    distance, first, second = diameter(points)
    assert distance == pytest.approx(pdist(wide).max(), rel=1e-12)
    assert np.linalg.norm(wide[first] - wide[second]) == pytest.approx(distance, rel=1e-12)


def test_rows_too_large_for_their_squares_are_refused() -> None:
    with pytest.raises(InputError, match="squared norms are finite in float32"):
        diameter(np.array([[3e25, 0.0], [0.0, 4e25], [1.0, 1.0]], dtype=np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_row_that_is_not_finite_is_named(value: float) -> None:
    points = np.ones((50, 4), np.float32)
    points[17, 2] = value
    with pytest.raises(InputError, match="row 17"):
        diameter(points)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_rough_distances_are_no_further_off_than_they_say(offset: float) -> None:
    rng = np.random.default_rng(0)
    points = (offset + rng.standard_normal((500, 200))).astype(np.float32)
    rough = RoughDistances(torch.from_numpy(points))
    for point in (rough.mean, points[7].astype(np.float64)):
        squares, error = rough.squared(point)
        exact = ((points.astype(np.float64) - point) ** 2).sum(axis=1)
        assert 0 < np.abs(squares - exact).max() <= error
        assert error < 1e-3 * (exact.max() + 200 * offset**2)
