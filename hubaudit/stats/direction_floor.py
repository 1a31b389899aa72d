"""The metric direction_floor: did the difference-in-means direction rotate, and could we have seen it?"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.contrast_moments import noise_trace
from hubaudit.stats.corrected_cosine import corrected_cosine, cosine_test
from hubaudit.stats.direction_null import (
    class_kappa,
    floor_half_split,
    floor_independent,
    paper_verdict,
    split_null,
)
from hubaudit.stats.paired_contrast import FloatArray, PairedContrast, paired_contrast
from hubaudit.stats.result import Result

__all__ = ["DirectionFloor", "direction_floor"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionFloor(Result):
    """Noise floor, null, corrected cosine and verdicts of one layer's difference-in-means direction."""

    rho_naive: float | None
    """Length of the base's direction in pooled within-class SDs of one dimension, estimator noise included."""

    rho: float | None
    """The same with the estimator's noise removed: the separation of the class means in the base."""

    rho_per_sqrt_d: float | None
    """rho divided by the root of the width: comparable across models of different width."""

    kappa: float | None
    """n rho^2 / d with the harmonic-mean n per class: the one number that sets the noise floor."""

    n_a: int
    """Prompts in class A, the larger of the two label values."""

    n_b: int
    """Prompts in class B."""

    n_per_class: float
    """Harmonic mean of the two class sizes."""

    d: int
    """Width of the activations."""

    floor_half_split: float | None
    """Expected cosine between the directions of two halves of the prompts, 1/(1+4/kappa)."""

    floor_independent: float | None
    """Expected cosine between the directions of two independent runs of this size, 1/(1+2/kappa)."""

    cosine: float | None
    """Cosine between the directions of variant and base, estimator noise included."""

    own_null_mean: float | None
    """Mean cosine between the directions of two random halves of the prompts, within the variant."""

    own_null_sd: float | None
    """SD of the own null over the random splits."""

    base_null_mean: float | None
    """The own null's mean within the base, on the same splits; far above it, the variant is only noisier."""

    verdict: str | None
    """The paper's conservative rule: `rotation` where cosine < own_null_mean - resolution, else `within_noise`."""

    resolution: float | None
    """Smallest deficit of the cosine that the paper's rule can call: 2 own_null_sd."""

    corrected_cosine: float | None
    """Cosine between the true directions, shared and private estimator noise removed; can exceed 1 by chance."""

    ci_low: float | None
    """Lower end of the 95 % interval of the corrected cosine, not cut at 1."""

    ci_high: float | None
    """Upper end of the 95 % interval of the corrected cosine, not cut at 1."""

    rotation_degrees: float | None
    """Angle between the true directions in degrees; 0 where the corrected cosine is 1 or more."""

    rotation_detected: bool | None
    """Whether the interval of the corrected cosine ends below 1."""

    min_detectable_degrees: float | None
    """Smallest rotation in degrees that this test detects with 80 % power at this n and this noise."""

    theta0_degrees: float
    """Rotation in degrees that counts as too small to matter."""

    calibrated_verdict: str | None
    """`rotation` where the interval lies beyond theta0, `preserved` where it lies within, else `inconclusive`."""

    subspace_gain: float | None
    """Mean absolute projection on the base's direction, variant over base, dimensionless."""

    base_null_sd: float | None
    """SD of the base's null over the same random splits."""

    n_splits: int
    """Random splits behind the nulls."""

    rotation_degrees_low: float | None
    """Lower end of the 95 % interval of the rotation, in degrees."""

    rotation_degrees_high: float | None
    """Upper end of the 95 % interval of the rotation, in degrees."""

    rotation_p: float | None
    """Two-sided p value of no rotation (doubled lower tail): below .05 exactly where rotation_detected."""


def direction_floor(
    variant_activations: Any,
    base_activations: Any,
    labels: Any,
    *,
    theta0_degrees: float = 5.0,
    n_splits: int = 200,
    seed: int = 0,
) -> DirectionFloor:
    """Compare the difference-in-means directions of variant and base against their noise.

    Args:
        variant_activations: (n, d) array or tensor, one row a prompt.
        base_activations: (n, d), the same prompts in the same order.
        labels: (n,) two distinct values; class A is the larger (1 of 0/1, the later string).
        theta0_degrees: Rotation that counts as too small to matter, in [0, 90].
        n_splits: Random splits of the null, at least 2.
        seed: Of the random splits.

    Returns:
        All figures; what is undefined is None, with its reason in `reasons`.

    Raises:
        InputError: If shapes do not fit, a value is not finite, there are not exactly two classes of at least
            2 prompts, or an option is out of range.

    Source:
        Cosine Similarity Is Not Evidence, Secs. 3 to 5; DESIGN.md, section 3.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1], 64)
        >>> base = rng.normal(size=(128, 32)) + np.outer(labels, np.full(32, 0.5))
        >>> result = direction_floor(base, base, labels)
        >>> result.corrected_cosine, result.rotation_detected, result.subspace_gain
        (1.0, False, 1.0)
    """
    if not 0.0 <= theta0_degrees <= 90.0:
        raise InputError(f"theta0_degrees must lie in [0, 90], but got {theta0_degrees}; 5 is the default")
    contrast = paired_contrast(variant_activations, base_activations, labels)
    reasons: dict[str, str] = {}
    separation = _separation(contrast, reasons)
    null = _null(contrast, n_splits=n_splits, seed=seed, reasons=reasons)
    return DirectionFloor(
        n_a=contrast.n_a,
        n_b=contrast.n_b,
        n_per_class=_n_per_class(contrast),
        d=contrast.d,
        theta0_degrees=float(theta0_degrees),
        n_splits=n_splits,
        reasons=reasons,
        **separation,
        **null,
        **_calibrated(contrast, theta0_degrees, reasons),
    )


def _n_per_class(contrast: PairedContrast) -> float:
    """Harmonic mean of the class sizes: the n of equal classes with the same estimator noise."""
    return 2.0 * contrast.n_a * contrast.n_b / (contrast.n_a + contrast.n_b)


def _separation(contrast: PairedContrast, reasons: dict[str, str]) -> dict[str, Any]:
    """rho, kappa and the closed-form floors, of the base."""
    names = ("rho_naive", "rho", "rho_per_sqrt_d", "kappa", "floor_half_split", "floor_independent")
    values: dict[str, Any] = dict.fromkeys(names)
    scatter = 0.0
    for members in (contrast.in_a, ~contrast.in_a):
        block = contrast.gram_base[np.ix_(members, members)]
        scatter += float(np.trace(block)) - float(block.sum()) / block.shape[0]
    variance = scatter / (contrast.in_a.size - 2) / contrast.d
    if variance <= 0.0:
        reasons.update(dict.fromkeys(names, "the base's activations do not vary within the classes"))
        return values
    naive = float(contrast.weights @ contrast.gram_base @ contrast.weights)
    rho_squared = (naive - noise_trace(contrast.gram_base, contrast.in_a)) / variance
    values["rho_naive"] = math.sqrt(max(naive, 0.0) / variance)
    if rho_squared < 0.0:
        reason = "the class means lie closer together than the estimator's noise (rho^2 is negative)"
        reasons.update(dict.fromkeys(names[1:], reason))
        return values
    rho = math.sqrt(rho_squared)
    kappa = class_kappa(rho, _n_per_class(contrast), contrast.d)
    values |= {
        "rho": rho,
        "rho_per_sqrt_d": rho / math.sqrt(contrast.d),
        "kappa": kappa,
        "floor_half_split": floor_half_split(kappa),
        "floor_independent": floor_independent(kappa),
    }
    return values


def _direction(activations: FloatArray, contrast: PairedContrast) -> FloatArray:
    """Difference of the class means (d,)."""
    direction: FloatArray = activations[contrast.in_a].mean(axis=0) - activations[~contrast.in_a].mean(axis=0)
    return direction


def _null(contrast: PairedContrast, *, n_splits: int, seed: int, reasons: dict[str, str]) -> dict[str, Any]:
    """The plain cosine, the split-half nulls, the paper's rule and the subspace gain."""
    names = (
        "cosine", "own_null_mean", "own_null_sd", "base_null_mean", "base_null_sd",
        "verdict", "resolution", "subspace_gain",
    )  # fmt: skip
    values: dict[str, Any] = dict.fromkeys(names)
    base_direction = _direction(contrast.base, contrast)
    variant_direction = _direction(contrast.variant, contrast)
    base_length = float(np.linalg.norm(base_direction))
    variant_length = float(np.linalg.norm(variant_direction))
    if base_length > 0.0:
        unit = base_direction / base_length
        base_projection = float(np.abs(contrast.base @ unit).mean())
        values["subspace_gain"] = float(np.abs(contrast.variant @ unit).mean()) / base_projection
    if base_length > 0.0 and variant_length > 0.0:
        values["cosine"] = float(base_direction @ variant_direction) / (base_length * variant_length)
    null = split_null(contrast, n_splits=n_splits, rng=np.random.default_rng(seed))
    for prefix, cosines in (("own", null.variant), ("base", null.base)):
        if cosines is not None:
            values[f"{prefix}_null_mean"] = float(cosines.mean())
            values[f"{prefix}_null_sd"] = float(cosines.std(ddof=1))
    if null.variant is not None:
        values["resolution"] = 2.0 * values["own_null_sd"]
        if values["cosine"] is not None:
            values["verdict"] = paper_verdict(values["cosine"], values["own_null_mean"], values["own_null_sd"])
    reason = "a difference of class means is zero, so there is no direction"
    reasons.update({name: reason for name in names if values[name] is None})
    return values


def _calibrated(contrast: PairedContrast, theta0_degrees: float, reasons: dict[str, str]) -> dict[str, Any]:
    """The corrected cosine, its interval in cosine and degrees, the test and the verdict."""
    names = (
        "corrected_cosine", "ci_low", "ci_high", "rotation_degrees", "rotation_degrees_low",
        "rotation_degrees_high", "rotation_detected", "rotation_p", "min_detectable_degrees",
        "calibrated_verdict",
    )  # fmt: skip
    values: dict[str, Any] = dict.fromkeys(names)
    cosine = corrected_cosine(contrast)
    if cosine is None:
        reason = "a squared distance between the class means is not positive once estimator noise is removed"
        reasons.update(dict.fromkeys(names, reason))
        return values
    values["corrected_cosine"] = cosine
    values["rotation_degrees"] = _degrees(cosine)
    test = cosine_test(contrast) if min(contrast.n_a, contrast.n_b) >= 4 else None
    if test is None:
        reason = "an interval needs at least 4 prompts in each class"
        reasons.update({name: reason for name in names if values[name] is None})
        return values
    values["ci_low"], values["ci_high"] = test.ci_low, test.ci_high
    values["rotation_degrees_low"] = _degrees(test.ci_high)
    values["rotation_degrees_high"] = _degrees(test.ci_low)
    values["rotation_detected"] = test.ci_high < 1.0
    values["rotation_p"] = test.rotation_p
    values["min_detectable_degrees"] = test.min_detectable_degrees
    if test.min_detectable_degrees is None:
        reasons["min_detectable_degrees"] = "no rotation would be detected with 80 % power at this noise"
    limit = math.cos(math.radians(theta0_degrees))
    if test.ci_high < limit:
        values["calibrated_verdict"] = "rotation"
    else:
        values["calibrated_verdict"] = "preserved" if test.ci_low > limit else "inconclusive"
    return values


def _degrees(cosine: float) -> float:
    """Angle in degrees; 0 for a cosine of 1 or more, 180 for -1 or less."""
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
