"""Closed-form floors, random splits and the paper's rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hubaudit.errors import InputError
from hubaudit.stats.direction_null import class_kappa, floor_half_split, floor_independent, paper_verdict, split_null
from hubaudit.stats.paired_contrast import paired_contrast

# n per class, d, rho. The first two are the operating points of Cosine Similarity Is Not Evidence (Tables 1 and 3).
SETTINGS = [
    (256, 1536, 61.33),
    (89, 1536, 61.33),
    (256, 1536, 33.0),
    (64, 256, 1.755),
    (128, 256, 2.0),
    (32, 256, 8.0),
    (512, 512, 2.0),
    (100, 512, 10.0),
    (64, 1024, 16.0),
    (1024, 2048, 8.0),
    (16, 4096, 100.16),
]


def mean_cosine(rng: np.random.Generator, n: float, d: int, rho: float, draws: int) -> float:
    """Mean cosine of two independent directions from n per class, isotropic Gaussian classes.

    An estimate is rho along the true direction plus noise of variance 2/n in every coordinate. Only its part along
    the truth, its two perpendicular lengths and the angle between these enter, so these are drawn.
    """
    along = rho + rng.standard_normal((2, draws)) * np.sqrt(2 / n)
    first_length = np.sqrt(rng.chisquare(d - 1, draws) * 2 / n)
    second_along_first = rng.standard_normal(draws) * np.sqrt(2 / n)
    second_rest = rng.chisquare(d - 2, draws) * 2 / n
    inner = along[0] * along[1] + first_length * second_along_first
    lengths = np.hypot(along[0], first_length) * np.sqrt(along[1] ** 2 + second_along_first**2 + second_rest)
    return float((inner / lengths).mean())


@pytest.mark.parametrize(("n", "d", "rho"), SETTINGS)
def test_each_floor_is_the_mean_cosine_of_the_pairing_it_names(n: int, d: int, rho: float) -> None:
    rng = np.random.default_rng([n, d])
    kappa = class_kappa(rho, n, d)
    assert 0.76 < kappa < 628
    # 200,000 draws leave an error below .0002 of the stated .0016.
    assert mean_cosine(rng, n / 2, d, rho, 200_000) == pytest.approx(floor_half_split(kappa), abs=0.0016)
    assert mean_cosine(rng, n, d, rho, 200_000) == pytest.approx(floor_independent(kappa), abs=0.0016)


def test_the_floors_by_hand() -> None:
    assert class_kappa(3.0, 8, 4) == 18.0
    assert floor_half_split(4.0) == 1 / 2
    assert floor_independent(4.0) == 2 / 3
    assert floor_half_split(0.0) == floor_independent(0.0) == 0.0


def test_the_rule_fires_only_beyond_two_sds() -> None:
    assert paper_verdict(0.75, 1.0, 0.125) == "within_noise"
    assert paper_verdict(np.nextafter(0.75, 0.0), 1.0, 0.125) == "rotation"


def test_splits_are_the_halves_of_both_classes() -> None:
    """Every cosine is one of all that halving 4 and 5 prompts can give, and their mean is the mean of all."""
    rng = np.random.default_rng(3)
    labels = np.array([1, 0, 1, 0, 0, 1, 0, 1, 0])
    base = rng.standard_normal((9, 6)) + np.outer(labels, np.ones(6))
    members_a, members_b = np.flatnonzero(labels == 1).tolist(), np.flatnonzero(labels == 0).tolist()
    every = []
    for half_a in itertools.combinations(members_a, 2):
        for half_b in itertools.combinations(members_b, 2):
            rest_a, rest_b = sorted({*members_a} - {*half_a}), sorted({*members_b} - {*half_b})
            one = base[list(half_a)].mean(axis=0) - base[list(half_b)].mean(axis=0)
            other = base[rest_a].mean(axis=0) - base[rest_b].mean(axis=0)
            every.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    contrast = paired_contrast(base, base, labels)
    found = split_null(contrast, n_splits=2000, rng=np.random.default_rng(4)).base
    assert found is not None
    assert np.abs(found[:, None] - np.array(every)).min(axis=1).max() < 1e-12
    assert len(np.unique(found.round(9))) == len(np.unique(np.round(every, 9)))
    assert found.mean() == pytest.approx(np.mean(every), abs=4 * np.std(every) / np.sqrt(2000))


def test_variant_and_base_are_split_alike() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], 10)
    base = rng.standard_normal((20, 8)) + np.outer(labels, np.ones(8))
    turn, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    null = split_null(paired_contrast(3.0 * base @ turn, base, labels), n_splits=50, rng=rng)
    assert null.variant == pytest.approx(null.base, abs=1e-12)


def test_halves_without_a_direction_have_no_null() -> None:
    labels = np.repeat([0, 1], 4)
    base = np.random.default_rng(6).standard_normal((8, 3))
    null = split_null(paired_contrast(np.ones((8, 3)), base, labels), n_splits=5, rng=np.random.default_rng(7))
    assert null.variant is None
    assert null.base is not None


def test_one_split_is_refused() -> None:
    contrast = paired_contrast(np.eye(4), np.eye(4), [0, 0, 1, 1])
    with pytest.raises(InputError, match="at least 2, but got 1"):
        split_null(contrast, n_splits=1, rng=np.random.default_rng(0))
