"""How far apart two classes score in two models: shift of one class, loss of separation, and intervals.

Both figures are smooth functions of a few class means, so their standard errors follow from the covariance of those
means (the delta method), items seen by both models counting as pairs. The same function serves the data and every
bootstrap resample: a resample is one row of weights, and all of them together are one matrix product.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

__all__ = ["Drift", "measure_drift"]

Array = npt.NDArray[np.float64]

CHUNK_VALUES = 1_000_000
"""Values that one chunk of resamples may hold, so that memory does not grow with their number."""

ROUNDING = 1e-12
"""Relative size below which a variance is rounding."""

N_FEATURES = 4
PAIRS = np.triu_indices(N_FEATURES)

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """Shift and loss of separation between two models' scores of the same items."""

    d_prime_base: float
    """Positive minus negative class mean of the base, in its pooled within-class SDs."""
    d_prime_variant: float
    """The same for the variant, in its own SDs."""
    translation: float
    """Shift of the negative class's mean, in base SDs."""
    translation_interval: Interval
    attenuation: float | None
    """1 - d'(variant) / d'(base); None where d'(base) is 0."""
    attenuation_interval: Interval | None
    """None where d'(base) cannot be told from 0, since then no ratio to it is bounded."""


def measure_drift(
    base: Array,
    variant: Array,
    positive: npt.NDArray[np.bool_],
    *,
    seed: int,
    level: float = 0.95,
    n_resamples: int = 999,
) -> Drift:
    """Estimate translation and attenuation with bootstrap-t intervals.

    Items are resampled within their class, base and variant score together. Translation has the studentized
    interval; attenuation, a ratio, has Fieller's with the quantiles of the resampled pivot in place of Student's.
    Symmetric intervals fall up to 6 points short where the within-class SD matters most: after large shifts and at
    large separations.

    Args:
        base: Base scores, (n,), not constant within both classes.
        variant: Variant scores of the same items, (n,), not constant within both classes.
        positive: True for class 1, (n,), at least two items of each class.
        seed: Seed of the resampling.
        level: Confidence level.
        n_resamples: Number of resamples.

    Returns:
        Estimates and intervals. Scores that only gained a constant have a point as interval of attenuation.

    Source:
        Efron (1981) and Hall (1988) for the bootstrap-t; Fieller (1954) and Hwang (1995) for the ratio.
    """
    classes = (_ClassSums.of(base[~positive], variant[~positive]), _ClassSums.of(base[positive], variant[positive]))
    rng = np.random.default_rng(seed)
    observed = _Estimates.of(classes, [c.data_sums() for c in classes])
    base_d, variant_d = float(observed.base_d[0]), float(observed.variant_d[0])
    translation = float(observed.translation[0])
    ratio = variant_d / base_d if base_d else None
    shift_pivots, ratio_pivots = [], []
    chunk = max(1, CHUNK_VALUES // len(base))
    for start in range(0, n_resamples, chunk):
        rows = min(chunk, n_resamples - start)
        resampled = _Estimates.of(classes, [c.resampled_sums(rows, rng) for c in classes])
        with np.errstate(invalid="ignore"):
            shift_pivots.append(_pivot(resampled.translation - translation, resampled.translation_error))
            if ratio is not None:
                difference = resampled.variant_d - ratio * resampled.base_d
                ratio_pivots.append(_pivot(difference, resampled.ratio_error(ratio)))
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    low, high = _quantiles(shift_pivots, tails)
    error = float(observed.translation_error[0])
    return Drift(
        d_prime_base=base_d,
        d_prime_variant=variant_d,
        translation=translation,
        translation_interval=(translation - high * error, translation - low * error),
        attenuation=None if ratio is None else 1.0 - ratio,
        attenuation_interval=None if ratio is None else _attenuation(observed, _quantiles(ratio_pivots, tails)),
    )


@dataclasses.dataclass(frozen=True)
class _ClassSums:
    """What resampling needs to know of one class: base score x, its square, the variant's excess over each.

    Columns x, x^2, s = p - x, p^2 - x^2 and their ten products, with x and p about the class means: no moment loses
    digits to a large mean, and a pure offset leaves the last two columns exactly 0.
    """

    columns: Array
    base_mean: float
    variant_mean: float

    @staticmethod
    def of(base: Array, variant: Array) -> _ClassSums:
        x, shift = base - base.mean(), variant - base
        s = shift - shift.mean()
        largest = max(np.abs(base).max(), np.abs(variant).max())
        if np.abs(s).max() <= 4.0 * np.finfo(np.float64).eps * largest:
            s = np.zeros_like(s)  # the rounding of an offset would otherwise be taken for private noise
        features = np.column_stack([x, x**2, s, s * (2.0 * x + s)])
        products = features[:, PAIRS[0]] * features[:, PAIRS[1]]
        return _ClassSums(np.hstack([features, products]), float(base.mean()), float(base.mean() + shift.mean()))

    @property
    def n(self) -> int:
        return len(self.columns)

    def data_sums(self) -> Array:
        return np.asarray(self.columns.mean(axis=0, keepdims=True))

    def resampled_sums(self, rows: int, rng: np.random.Generator) -> Array:
        """Means of the columns over resampled items, (rows, columns)."""
        drawn = rng.integers(0, self.n, (rows, self.n)) + self.n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * self.n).reshape(rows, self.n)
        return np.asarray(counts @ self.columns / self.n)


@dataclasses.dataclass(frozen=True)
class _Estimates:
    """Estimates of one or many samples, one a row, with the variances of the two d' and the shift."""

    base_d: Array
    variant_d: Array
    translation: Array
    translation_error: Array
    var_base: Array
    var_variant: Array
    covariance: Array

    @staticmethod
    def of(classes: tuple[_ClassSums, _ClassSums], means: list[Array]) -> _Estimates:
        """From the two classes and the means of their columns, (rows, columns) each."""
        degrees = classes[0].n + classes[1].n - 2
        x, xx, s, pp = (np.stack([m[:, k] for m in means]) for k in range(N_FEATURES))  # each (2, rows)
        n = np.array([[c.n] for c in classes])
        base_mean = np.array([[c.base_mean] for c in classes]) + x
        variant_mean = np.array([[c.variant_mean] for c in classes]) + x + s
        var_base = (n * np.maximum(0.0, xx - x**2)).sum(0) / degrees
        var_variant = (n * np.maximum(0.0, xx + pp - (x + s) ** 2)).sum(0) / degrees
        sign = np.array([[-1.0], [1.0]])
        with np.errstate(divide="ignore", invalid="ignore"):
            base_d = (sign * base_mean).sum(0) / np.sqrt(var_base)
            variant_d = (sign * variant_mean).sum(0) / np.sqrt(var_variant)
            translation = (variant_mean[0] - base_mean[0]) / np.sqrt(var_base)
            # Gradients with respect to the four means of each class, (2, rows, 4).
            zero = np.zeros_like(x)
            of_var_base = np.stack([-2.0 * x, np.ones_like(x), zero, zero], -1) * (n / degrees)[..., None]
            both = np.stack([-2.0 * (x + s), np.ones_like(x)], -1)
            of_var_variant = np.concatenate([both, both], -1) * (n / degrees)[..., None]
            of_base = np.stack([sign + zero, zero, zero, zero], -1) / np.sqrt(var_base)[:, None]
            of_variant = np.stack([sign + zero, zero, sign + zero, zero], -1) / np.sqrt(var_variant)[:, None]
            of_shift = np.zeros_like(of_base)
            of_shift[0, :, 2] = 1.0 / np.sqrt(var_base)
            of_base = of_base - (base_d / (2.0 * var_base))[:, None] * of_var_base
            of_variant = of_variant - (variant_d / (2.0 * var_variant))[:, None] * of_var_variant
            of_shift = of_shift - (translation / (2.0 * var_base))[:, None] * of_var_base
            scaled = [_covariance(m) / (c.n - 1) for m, c in zip(means, classes, strict=True)]

            def between(one: Array, other: Array) -> Array:
                parts = [np.einsum("ri,rij,rj->r", one[k], scaled[k], other[k]) for k in range(2)]
                return np.asarray(parts[0] + parts[1])

            return _Estimates(
                base_d=base_d,
                variant_d=variant_d,
                translation=translation,
                translation_error=np.sqrt(np.maximum(0.0, between(of_shift, of_shift))),
                var_base=between(of_base, of_base),
                var_variant=between(of_variant, of_variant),
                covariance=between(of_base, of_variant),
            )

    def ratio_error(self, ratio: float) -> Array:
        """Standard error of d'(variant) - ratio * d'(base)."""
        apart = self.var_variant + ratio**2 * self.var_base
        variance = apart - 2.0 * ratio * self.covariance
        # Models that differ by an offset or a scale alone leave rounding here, which is no private noise.
        return np.sqrt(np.where(variance > ROUNDING * apart, variance, 0.0))


def _covariance(means: Array) -> Array:
    """Covariance (divisor n) of the four features, (rows, 4, 4)."""
    first = means[:, :N_FEATURES]
    second = np.empty((len(means), N_FEATURES, N_FEATURES))
    second[:, PAIRS[0], PAIRS[1]] = second[:, PAIRS[1], PAIRS[0]] = means[:, N_FEATURES:]
    return np.asarray(second - first[:, :, None] * first[:, None, :])


def _pivot(difference: Array, error: Array) -> Array:
    usable = (error > 0.0) & np.isfinite(difference)  # a resample of one item repeated has no spread
    return np.asarray(difference[usable] / error[usable])


def _quantiles(pivots: list[Array], tails: list[float]) -> Interval:
    values = np.concatenate(pivots)
    if values.size == 0:  # nothing varies: the estimate is its own interval
        return 0.0, 0.0
    low, high = np.quantile(values, tails)
    return float(low), float(high)


def _attenuation(observed: _Estimates, quantiles: Interval) -> Interval | None:
    """The ratios r whose pivot (d_P - r d_T) / error(r) lies between the quantiles, as 1 - r."""
    base_d, variant_d = float(observed.base_d[0]), float(observed.variant_d[0])
    var_t, var_p, cov = (float(x[0]) for x in (observed.var_base, observed.var_variant, observed.covariance))
    estimate = 1.0 - variant_d / base_d
    if observed.ratio_error(variant_d / base_d)[0] == 0.0:
        return estimate, estimate
    ends = []
    for quantile in quantiles:
        # The square of "pivot = quantile" is a r^2 - 2 b r + c = 0.
        square = quantile**2
        a = base_d**2 - square * var_t
        if a <= 0.0:
            return None
        b, c = base_d * variant_d - square * cov, variant_d**2 - square * var_p
        half = math.sqrt(max(0.0, b * b - a * c))
        # Of the two roots the one where d_P - r d_T has the sign of the quantile.
        ends.append(1.0 - (b - math.copysign(half, quantile * base_d)) / a)
    return min(ends), max(ends)
