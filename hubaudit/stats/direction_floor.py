"""The metric direction_floor: did the difference-in-means direction rotate, and could we have seen it?"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.corrected_cosine import corrected_cosine, cosine_test
from hubaudit.stats.direction_null import paper_verdict, split_null
from hubaudit.stats.direction_separation import direction_separation
from hubaudit.stats.paired_contrast import PairedContrast, paired_contrast
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
    values = _separation(contrast) | _null(contrast, n_splits=n_splits, seed=seed)
    values |= _calibrated(contrast, theta0_degrees)
    reasons = {name: value.text for name, value in values.items() if isinstance(value, _Undefined)}
    return DirectionFloor(
        n_a=contrast.n_a,
        n_b=contrast.n_b,
        n_per_class=contrast.n_per_class,
        d=contrast.d,
        theta0_degrees=float(theta0_degrees),
        n_splits=n_splits,
        reasons=reasons,
        **{name: None if name in reasons else value for name, value in values.items()},
    )


@dataclasses.dataclass(frozen=True)
class _Undefined:
    """A figure that does not exist, and why."""

    text: str


def _separation(contrast: PairedContrast) -> dict[str, Any]:
    """rho, kappa and the closed-form floors, of the base."""
    separation = direction_separation(contrast)
    if separation.rho_naive is None:
        reason = _Undefined("the base's activations do not vary within the classes")
    else:
        reason = _Undefined("the class means lie closer together than the estimator's noise (rho^2 is negative)")
    values = dataclasses.asdict(separation)
    return {name: reason if value is None else value for name, value in values.items()}


def _null(contrast: PairedContrast, *, n_splits: int, seed: int) -> dict[str, Any]:
    """The plain cosine, the split-half nulls, the paper's rule and the subspace gain."""
    weights = contrast.weights
    base_square = float(weights @ contrast.gram_base @ weights)
    variant_square = float(weights @ contrast.gram_variant @ weights)
    no_direction = _Undefined("a difference of class means is zero, so there is no direction")
    values: dict[str, Any] = {"cosine": no_direction, "subspace_gain": no_direction, "verdict": no_direction}
    if base_square > 0.0:
        # Both projections on the same vector: its length cancels, and the base against itself gives exactly 1.
        direction = weights @ contrast.base
        direction /= np.abs(direction).max()
        gain = float(np.abs(contrast.variant @ direction).mean()) / float(np.abs(contrast.base @ direction).mean())
        values["subspace_gain"] = gain
        if variant_square > 0.0:
            inner = float(weights @ contrast.gram_cross @ weights)
            values["cosine"] = inner / math.sqrt(variant_square * base_square)
    null = split_null(contrast, n_splits=n_splits, rng=np.random.default_rng(seed))
    for prefix, cosines in (("own", null.variant), ("base", null.base)):
        values[f"{prefix}_null_mean"] = no_direction if cosines is None else float(cosines.mean())
        values[f"{prefix}_null_sd"] = no_direction if cosines is None else float(cosines.std(ddof=1))
    mean, spread = values["own_null_mean"], values["own_null_sd"]
    values["resolution"] = no_direction if null.variant is None else 2.0 * spread
    if null.variant is not None and values["cosine"] is not no_direction:
        values["verdict"] = paper_verdict(values["cosine"], mean, spread)
    return values


def _calibrated(contrast: PairedContrast, theta0_degrees: float) -> dict[str, Any]:
    """The corrected cosine, its interval in cosine and degrees, the test and the verdict."""
    names = (
        "corrected_cosine", "rotation_degrees", "ci_low", "ci_high", "rotation_degrees_low", "rotation_degrees_high",
        "rotation_detected", "rotation_p", "min_detectable_degrees", "calibrated_verdict",
    )  # fmt: skip
    cosine = corrected_cosine(contrast)
    if cosine is None:
        reason = "a squared distance between the class means is not positive once estimator noise is removed"
        return dict.fromkeys(names, _Undefined(reason))
    values: dict[str, Any] = dict.fromkeys(names, _Undefined("an interval needs at least 4 prompts in each class"))
    values |= {"corrected_cosine": cosine, "rotation_degrees": _degrees(cosine)}
    test = cosine_test(contrast)
    if test is None:
        return values
    limit = math.cos(math.radians(theta0_degrees))
    verdict = "preserved" if test.ci_low > limit else "inconclusive"
    detectable = test.min_detectable_degrees
    return values | {
        "ci_low": test.ci_low,
        "ci_high": test.ci_high,
        "rotation_degrees_low": _degrees(test.ci_high),
        "rotation_degrees_high": _degrees(test.ci_low),
        "rotation_detected": test.ci_high < 1.0,
        "rotation_p": test.rotation_p,
        "min_detectable_degrees": (
            _Undefined("no rotation would be detected with 80 % power in this noise")
            if detectable is None
            else detectable
        ),
        "calibrated_verdict": "rotation" if test.ci_high < limit else verdict,
    }


def _degrees(cosine: float) -> float:
    """Angle in degrees; 0 for a cosine of 1 or more, 180 for -1 or less."""
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
