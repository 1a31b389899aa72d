"""The direction block against its literal definition, and its verdicts against simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hubaudit.errors import InputError
from hubaudit.stats.direction_floor import direction_floor
from hubaudit.stats.paired import holm


def activations(
    rng: np.random.Generator, n_a: int, n_b: int, d: int, *, rho: float, noise: float, degrees: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Base and variant activations: shared prompts, private noise, a direction turned by `degrees`."""
    labels = np.array([1] * n_a + [0] * n_b)
    base = rng.standard_normal((n_a + n_b, d))
    variant = base + noise * rng.standard_normal(base.shape)
    base[labels == 1, 0] += rho
    variant[labels == 1, 0] += rho * np.cos(np.radians(degrees))
    variant[labels == 1, 1] += rho * np.sin(np.radians(degrees))
    return variant, base, labels


@pytest.mark.parametrize(("n_a", "n_b"), [(20, 20), (12, 31)])
def test_figures_equal_the_definition(n_a: int, n_b: int) -> None:
    d = 9
    variant, base, labels = activations(np.random.default_rng(1), n_a, n_b, d, rho=6, noise=0.3, degrees=20)
    found = direction_floor(variant, base, labels)

    def parts(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, b = h[labels == 1], h[labels == 0]
        return a.mean(0) - b.mean(0), a - a.mean(0), b - b.mean(0)

    r, base_a, base_b = parts(base)
    r_variant, variant_a, variant_b = parts(variant)
    pooled = ((base_a**2).sum() + (base_b**2).sum()) / (n_a + n_b - 2) / d
    noise = (base_a**2).sum() / (n_a - 1) / n_a + (base_b**2).sum() / (n_b - 1) / n_b
    noise_variant = (variant_a**2).sum() / (n_a - 1) / n_a + (variant_b**2).sum() / (n_b - 1) / n_b
    shared = (base_a * variant_a).sum() / (n_a - 1) / n_a + (base_b * variant_b).sum() / (n_b - 1) / n_b
    assert found.rho_naive == pytest.approx(np.linalg.norm(r) / np.sqrt(pooled), rel=1e-12)
    assert found.rho == pytest.approx(np.sqrt((r @ r - noise) / pooled), rel=1e-12)
    assert found.n_per_class == pytest.approx(2 * n_a * n_b / (n_a + n_b))
    assert found.kappa == pytest.approx(found.n_per_class * found.rho**2 / d, rel=1e-12)
    cosine = r @ r_variant / np.linalg.norm(r) / np.linalg.norm(r_variant)
    assert found.cosine == pytest.approx(cosine, rel=1e-12)
    corrected = (r @ r_variant - shared) / np.sqrt((r @ r - noise) * (r_variant @ r_variant - noise_variant))
    assert found.corrected_cosine == pytest.approx(corrected, rel=1e-10)
    v = r / np.linalg.norm(r)
    gain = np.abs(variant @ v).mean() / np.abs(base @ v).mean()
    assert found.subspace_gain == pytest.approx(gain, rel=1e-10)


def test_equal_classes_give_the_papers_correction() -> None:
    rng = np.random.default_rng(2)
    variant, base, labels = activations(rng, 400, 400, 64, rho=8, noise=0.1)
    found = direction_floor(variant, base, labels)
    # rho^2 = rho_naive^2 - 2 d / n holds exactly when each class's own variance is the pooled one.
    assert found.rho**2 == pytest.approx(found.rho_naive**2 - 2 * 64 / 400, rel=1e-3)


def test_the_base_against_itself() -> None:
    _, base, labels = activations(np.random.default_rng(3), 40, 40, 32, rho=5, noise=0)
    found = direction_floor(base, base, labels)
    assert found.cosine == pytest.approx(1, abs=1e-12)
    assert found.corrected_cosine == pytest.approx(1, abs=1e-12)
    assert found.subspace_gain == 1
    assert found.rotation_detected is False
    assert found.rotation_degrees == pytest.approx(0, abs=1e-4)
    assert found.own_null_mean == found.base_null_mean


def test_rotating_the_space_shifting_and_reordering_change_nothing() -> None:
    variant, base, labels = activations(np.random.default_rng(4), 30, 25, 16, rho=6, noise=0.4, degrees=10)
    expected = direction_floor(variant, base, labels)
    turn, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((16, 16)))
    turned = direction_floor(variant @ turn, base @ turn, labels)
    shifted = direction_floor(variant + 1e4, base + 1e4, labels)
    order = np.random.default_rng(6).permutation(55)
    reordered = direction_floor(variant[order], base[order], labels[order])
    for key in ("rho", "cosine", "corrected_cosine", "ci_low", "ci_high"):
        for other in (turned, shifted, reordered):
            if key != "rho" or other is not shifted:
                assert getattr(other, key) == pytest.approx(getattr(expected, key), rel=1e-5)


def test_tensors_and_half_precision() -> None:
    variant, base, labels = activations(np.random.default_rng(7), 30, 30, 16, rho=6, noise=0.3)
    expected = direction_floor(variant.astype(np.float16), base.astype(np.float16), labels)
    tensors = [torch.from_numpy(x.astype(np.float16)) for x in (variant, base)]
    assert direction_floor(*tensors, labels).corrected_cosine == pytest.approx(expected.corrected_cosine, rel=1e-12)


def test_without_separation_the_figures_are_null_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal((20, 300))
    labels = np.array([1, 0] * 10)
    found = direction_floor(base + rng.standard_normal(base.shape), base, labels)
    if found.rho is None:
        assert "rho" in found.reasons
    assert found.calibrated_verdict in (None, "inconclusive")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v, b, y: (v[:-1], b, y), "same|rows|prompts"),
        (lambda v, b, y: (v[:, :-1], b, y), "width"),
        (lambda v, b, y: (v, b, np.ones(len(y))), "two|class"),
        (lambda v, b, y: (v, b, np.r_[1, np.zeros(len(y) - 1)]), "at least 2|two"),
        (lambda v, b, y: (np.where(v == v[4, 1], np.inf, v), b, y), "row 4"),
    ],
)
def test_bad_input(change: Any, message: str) -> None:
    variant, base, labels = activations(np.random.default_rng(8), 10, 10, 8, rho=4, noise=0.2)
    with pytest.raises(InputError, match=message):
        direction_floor(*change(variant, base, labels))


def audits(degrees: float, n: int, count: int) -> tuple[float, float, float]:
    """Shares of simulated audits that detect a rotation, whose interval covers, and that the paper's rule flags."""
    rng = np.random.default_rng(9)
    detected, covered, flagged = 0, 0, 0
    for _ in range(count):
        variant, base, labels = activations(rng, n, n, 128, rho=12, noise=0.25, degrees=degrees)
        found = direction_floor(variant, base, labels, n_splits=20)
        detected += found.rotation_detected is True
        covered += found.ci_low <= np.cos(np.radians(degrees)) <= found.ci_high
        flagged += found.verdict == "rotation"
    return detected / count, covered / count, flagged / count


def test_no_rotation_is_rarely_called_one() -> None:
    detected, covered, _ = audits(0.0, 64, 300)
    # 5 % and 93 %, with two Monte Carlo standard errors of 300 audits.
    assert detected <= 0.05 + 2 * 0.0126
    assert covered >= 0.93 - 2 * 0.0147


def test_the_calibrated_test_sees_five_degrees_that_the_papers_rule_does_not() -> None:
    detected, covered, flagged = audits(5.0, 128, 150)
    assert detected >= 0.9
    assert flagged <= 0.1
    assert 0.90 <= covered <= 1.0


def test_holm_over_layers() -> None:
    corrected = holm({"3": 0.01, "7": 0.04, "9": 0.03})
    assert corrected == pytest.approx({"3": 0.03, "7": 0.06, "9": 0.06})
