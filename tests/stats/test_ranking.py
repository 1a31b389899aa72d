"""Rank correlations across variants: values, intervals and when there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from hubaudit.errors import InputError
from hubaudit.stats.ranking import pooled_ranking, ranking


def test_correlation_is_scipys_and_the_interval_is_the_percentile_bootstrap() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=12)
    y = x + rng.normal(size=12)
    found = ranking({"kl": x.tolist()}, y.tolist(), seed=5)
    assert found.spearman["kl"] == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    drawn = np.random.default_rng(5).integers(0, 12, size=(2000, 12))
    loop = [scipy.stats.spearmanr(x[row], y[row]).statistic for row in drawn]
    assert (found.ci_low["kl"], found.ci_high["kl"]) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])))


def test_few_variants_have_no_interval_and_say_why() -> None:
    found = ranking({"kl": list(range(8))}, [0, 2, 1, 3, 4, 6, 5, 7])
    assert found.spearman["kl"] is not None
    assert found.ci_low["kl"] is found.ci_high["kl"] is None
    assert "at least 9" in found.reasons["ci_low.kl"]


def test_pooled_is_the_mean_over_tasks_with_the_papers_standard_error() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 10))
    y = x + rng.normal(size=(5, 10))
    found = pooled_ranking({"bound": x.tolist()}, y.tolist())
    by_task = [scipy.stats.spearmanr(one, other).statistic for one, other in zip(x, y, strict=True)]
    assert found.spearman["bound"] == pytest.approx(np.mean(by_task))
    assert found.sem["bound"] == pytest.approx(scipy.stats.sem(by_task))
    low, high = found.ci_low["bound"], found.ci_high["bound"]
    assert low is not None
    assert high is not None
    assert low < np.mean(by_task) < high
    assert (found.n_tasks["bound"], found.n_used["bound"]) == (5, 10)


def test_tasks_and_variants_without_a_figure_are_left_out_of_the_pool() -> None:
    gaps = [[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]]
    found = pooled_ranking({"kl": [[1.0, None, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]]}, gaps)
    assert (found.spearman["kl"], found.n_tasks["kl"], found.n_used["kl"]) == (1.0, 1, 3)
    assert found.sem["kl"] is None
    assert "two tasks" in found.reasons["sem.kl"]
    none = pooled_ranking({"kl": [[1.0] * 4, [2.0] * 4]}, gaps)
    assert none.spearman["kl"] is None
    assert none.reasons["kl"] == "no task has a rank correlation"


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match=r"\(1, 2\)"):
        pooled_ranking({"kl": [[1.0, 2.0]]}, [[1.0, 2.0, 3.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "r"), [(9, 0.0), (9, 0.8), (9, 0.95), (14, 0.8), (24, 0.9)])
def test_the_interval_covers_at_about_its_level(n: int, r: float) -> None:
    """Pairs are bivariate normal, whose Spearman correlation is 6/pi asin(r/2)."""
    truth, runs = 6 / math.pi * math.asin(r / 2), 400
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(runs):
        x, noise = rng.normal(size=(2, n))
        found = ranking({"x": x.tolist()}, (r * x + math.sqrt(1 - r * r) * noise).tolist(), seed=2)
        low, high = found.ci_low["x"], found.ci_high["x"]
        assert low is not None
        assert high is not None
        hits += low <= truth <= high
    assert 0.90 <= hits / runs <= 0.995
