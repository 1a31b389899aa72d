"""How far apart two classes score in two models: the shift of one class, the loss of separation, intervals.

All variances come from influence values: what each item contributes to an estimate, so that items seen by both
models count as pairs and no distribution is assumed.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["Separation", "attenuation_interval", "separation", "translation_interval"]

Array = npt.NDArray[np.float64]

CHUNK_VALUES = 4_000_000
"""Values that one chunk of resamples may hold, so that memory does not grow with their number."""


@dataclasses.dataclass(frozen=True)
class Separation:
    """d' of two classes and what each item contributes to it."""

    d_prime: float
    """Positive minus negative class mean, in pooled within-class SDs."""
    within_sd: float
    """Pooled within-class SD, in score units."""
    of_negative: Array
    """Influence values of the negative class's items, mean 0."""
    of_positive: Array
    """Influence values of the positive class's items, mean 0."""


def separation(negative: Array, positive: Array) -> Separation:
    """Measure d' = (mean of positives - mean of negatives) / pooled within-class SD.

    Args:
        negative: Scores of class 0, (n_0,), at least 2.
        positive: Scores of class 1, (n_1,), at least 2, not all scores of both classes equal to their means.

    Returns:
        d', the SD (divisor n_0 + n_1 - 2) and the influence values.
    """
    sd = float(_within_sd(negative, positive))
    d_prime = float(positive.mean() - negative.mean()) / sd
    return Separation(
        d_prime=d_prime,
        within_sd=sd,
        of_negative=-(negative - negative.mean()) / sd - d_prime * _log_sd_influence(negative, positive)[0],
        of_positive=(positive - positive.mean()) / sd - d_prime * _log_sd_influence(negative, positive)[1],
    )


def translation_interval(
    base_negative: Array,
    base_positive: Array,
    variant_negative: Array,
    *,
    seed: int,
    level: float = 0.95,
    n_resamples: int = 1999,
) -> tuple[float, float, float]:
    """Shift of the negative class's mean in base within-class SDs, with a studentized bootstrap interval.

    Items are resampled within their class, base and variant score together. The studentized interval is used
    because the SD in the denominator makes the estimate skew: where the shift is large it covers up to 6 points
    more than the symmetric one (benchmarks/coverage_translation.py).

    Args:
        base_negative: Base scores of class 0, (n_0,).
        base_positive: Base scores of class 1, (n_1,).
        variant_negative: Variant scores of the same class-0 items, (n_0,).
        seed: Seed of the resampling.
        level: Confidence level.
        n_resamples: Number of resamples.

    Returns:
        Estimate, lower and upper end.

    Source:
        Efron (1981), Hall (1988): the bootstrap-t interval.
    """
    shift = variant_negative - base_negative
    estimate, error = (float(x) for x in _translation(base_negative, base_positive, shift))
    # Scores that only gained a constant differ by rounding alone: nothing is left to resample.
    if error <= 1e-12 * max(1.0, abs(estimate)):
        return estimate, estimate, estimate
    rng = np.random.default_rng(seed)
    n_neg, n_pos = len(base_negative), len(base_positive)
    chunk = max(1, CHUNK_VALUES // (n_neg + n_pos))
    pivots = []
    for start in range(0, n_resamples, chunk):
        rows = min(chunk, n_resamples - start)
        neg = rng.integers(0, n_neg, (rows, n_neg))
        pos = rng.integers(0, n_pos, (rows, n_pos))
        value, value_error = _translation(base_negative[neg], base_positive[pos], shift[neg])
        usable = value_error > 0.0  # a resample of one item repeated has no spread
        pivots.append((value[usable] - estimate) / value_error[usable])
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(np.concatenate(pivots), [tail, 1.0 - tail])
    return estimate, estimate - float(high) * error, estimate - float(low) * error


def attenuation_interval(
    base: Separation, variant: Separation, *, level: float = 0.95
) -> tuple[float, tuple[float, float] | None]:
    """Share of the class separation that the variant lost, 1 - d'_P / d'_T, with Fieller's interval.

    Args:
        base: Separation of the base, d' not 0.
        variant: Separation of the variant on the same items.
        level: Confidence level.

    Returns:
        Estimate and interval; the interval is None where the base's own d' cannot be told from 0, since then no
        ratio to it can be bounded.

    Source:
        Fieller (1954); the variances are those of paired influence values.
    """
    degrees = len(base.of_negative) + len(base.of_positive) - 2
    t = float(stats.t.ppf((1.0 + level) / 2.0, degrees))
    # The ratios r with (d_P - r d_T)^2 <= t^2 Var(d_P - r d_T): a quadratic in r.
    a = base.d_prime**2 - t**2 * _covariance(base, base)
    b = base.d_prime * variant.d_prime - t**2 * _covariance(base, variant)
    c = variant.d_prime**2 - t**2 * _covariance(variant, variant)
    estimate = 1.0 - variant.d_prime / base.d_prime
    if a <= 0.0:
        return estimate, None
    half = math.sqrt(max(0.0, b * b - a * c)) / a
    # Rounding must not leave the estimate outside: with no private noise the interval is a single point.
    return estimate, (min(estimate, 1.0 - b / a - half), max(estimate, 1.0 - b / a + half))


def _covariance(one: Separation, other: Separation) -> float:
    n_neg, n_pos = len(one.of_negative), len(one.of_positive)
    return float(
        one.of_negative @ other.of_negative / (n_neg * (n_neg - 1))
        + one.of_positive @ other.of_positive / (n_pos * (n_pos - 1))
    )


def _within_sd(negative: Array, positive: Array) -> Array:
    """Pooled SD over the last axis."""
    squares = _centred(negative) ** 2
    other = _centred(positive) ** 2
    degrees = negative.shape[-1] + positive.shape[-1] - 2
    return np.asarray(np.sqrt((squares.sum(-1) + other.sum(-1)) / degrees))


def _log_sd_influence(negative: Array, positive: Array) -> tuple[Array, Array]:
    """Influence of each item on the logarithm of the pooled SD, over the last axis."""
    n_neg, n_pos = negative.shape[-1], positive.shape[-1]
    degrees = n_neg + n_pos - 2
    variance = _within_sd(negative, positive)[..., None] ** 2
    parts = []
    for values, n in ((negative, n_neg), (positive, n_pos)):
        squares = _centred(values) ** 2
        own = squares.sum(-1, keepdims=True) / (n - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((n - 1) / degrees * (squares - own) / (2.0 * variance))
    return parts[0], parts[1]


def _translation(base_negative: Array, base_positive: Array, shift: Array) -> tuple[Array, Array]:
    """Standardised shift and its standard error, over the last axis; the error is 0 where there is no spread."""
    n_neg, n_pos = base_negative.shape[-1], base_positive.shape[-1]
    sd = _within_sd(base_negative, base_positive)
    of_neg, of_pos = _log_sd_influence(base_negative, base_positive)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.asarray(shift.mean(-1) / sd)
        neg = _centred(shift) / sd[..., None] - value[..., None] * of_neg
    pos = -value[..., None] * of_pos
    variance = (neg**2).sum(-1) / (n_neg * (n_neg - 1)) + (pos**2).sum(-1) / (n_pos * (n_pos - 1))
    return value, np.sqrt(np.where(sd > 0.0, variance, 0.0))


def _centred(values: Array) -> Array:
    return values - values.mean(-1, keepdims=True)
