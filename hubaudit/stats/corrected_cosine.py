"""The cosine between base and variant directions without estimator noise, its interval and its test."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import optimize, special, stats

from hubaudit.stats.contrast_moments import influence_rows, noise_matrix, noise_trace, unbiased_moment
from hubaudit.stats.paired_contrast import PairedContrast

__all__ = ["CosineTest", "corrected_cosine", "cosine_test"]


def corrected_cosine(contrast: PairedContrast) -> float | None:
    """Cosine of the true directions of base and variant, estimator noise removed from all three moments.

    Args:
        contrast: The checked activations.

    Returns:
        The ratio of unbiased moments, which can exceed 1; None where one of the squared lengths is not positive.

    Source:
        DESIGN.md, section 3 (direction_floor, calibrated test).
    """
    length_base = unbiased_moment(contrast.gram_base, contrast.in_a)
    length_variant = unbiased_moment(contrast.gram_variant, contrast.in_a)
    if length_base <= 0.0 or length_variant <= 0.0:
        return None
    # One root of the product: of equal lengths it is exact, so the base against itself gives exactly 1.
    return unbiased_moment(contrast.gram_cross, contrast.in_a) / math.sqrt(length_variant * length_base)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineTest:
    """Interval and test of a corrected cosine."""

    ci_low: float
    """Lower end of the interval."""

    ci_high: float
    """Upper end of the interval."""

    rotation_p: float
    """Twice the lower tail probability under no rotation."""

    min_detectable_degrees: float | None
    """Smallest rotation that the test detects with the stated power."""


def cosine_test(contrast: PairedContrast, *, level: float = 0.95, power: float = 0.8) -> CosineTest | None:
    """Interval for the true cosine and test of no rotation."""
    sampling = _Sampling(contrast)
    return sampling.test(level=level, power=power)


def pearson_quantile(p: float, skew: float) -> float:
    """Quantile of the standardised Pearson III law (a shifted, scaled gamma)."""
    if abs(skew) < 1e-4:
        return float(special.ndtri(p))
    shape = 4.0 / skew**2
    if skew > 0.0:
        return float((special.gammaincinv(shape, p) - shape) / math.sqrt(shape))
    return -float((special.gammainccinv(shape, p) - shape) / math.sqrt(shape))


class _Sampling:
    def __init__(self, contrast: PairedContrast) -> None:
        in_a = contrast.in_a
        length_base = unbiased_moment(contrast.gram_base, in_a)
        length_variant = unbiased_moment(contrast.gram_variant, in_a)
        ratio = math.sqrt(length_variant / length_base)
        self.moment = math.sqrt(length_variant * length_base)
        length_kernel = (contrast.gram_variant / ratio + ratio * contrast.gram_base) / 2.0
        half_difference = (
            contrast.gram_variant / ratio + ratio * contrast.gram_base - 2.0 * contrast.gram_cross
        ) / 2.0
        # influence of log ratio
        log_kernel = (contrast.gram_variant / length_variant - contrast.gram_base / length_base) / 2.0
        xi = influence_rows(log_kernel, in_a)
        log_second = noise_matrix(log_kernel, in_a)
        v = float(xi @ xi) - 2.0 * float((log_second**2).sum())
        self.deficit = unbiased_moment(half_difference, in_a) + self.moment * v / 2.0
        proj = np.outer(xi, xi) * (self.moment / 2.0)
        np.fill_diagonal(proj, 0.0)
        diff_raw = unbiased_moment(half_difference, in_a) + noise_trace(half_difference, in_a)
        len_raw = self.moment + noise_trace(length_kernel, in_a)
        l1 = influence_rows(length_kernel, in_a) * math.sqrt(self.moment / len_raw)
        lw = influence_rows(half_difference, in_a)
        scale = math.sqrt(self.moment / diff_raw) if diff_raw > 0 else 0.0
        self.first = np.stack([l1, -lw * scale])
        self.second = np.stack([noise_matrix(length_kernel, in_a), -(noise_matrix(half_difference, in_a) - proj)])
        f, e = self.first, self.second
        self.df = in_a.size - 2
        self.factor = float(stats.t.ppf(0.975, self.df) / stats.norm.ppf(0.975))
        self.l2 = f @ f.T
        self.l3 = np.einsum("ia,ja,ka->ijk", f, f, f)
        self.lel = np.einsum("ia,kab,jb->ikj", f, e, f, optimize=True)
        self.e2 = np.einsum("iab,jab->ij", e, e)
        self.e3 = np.einsum("iab,jbc,kca->ijk", e, e, e, optimize=True)
        self.zero = diff_raw <= 0

    def cumulants(self, c: float, kernel_c: float | None = None) -> tuple[float, float]:
        u2 = max(1.0 - c, 0.0)
        k = u2 if kernel_c is None else 1.0 - kernel_c
        al = np.array([k, math.sqrt(u2)])
        be = np.array([k, 1.0])
        var = al @ self.l2 @ al + 2.0 * be @ self.e2 @ be
        k3 = (
            np.einsum("ijk,i,j,k", self.l3, al, al, al)
            + 6.0 * np.einsum("ikj,i,k,j", self.lel, al, be, al)
            + 8.0 * np.einsum("ijk,i,j,k", self.e3, be, be, be)
        )
        return float(var), float(k3)

    def sd_skew(self, c: float, kernel_c: float | None = None) -> tuple[float, float]:
        var, k3 = self.cumulants(c, kernel_c)
        sd = math.sqrt(max(var, 0.0))
        return sd, (float(np.clip(k3 / sd**3, -2.83, 2.83)) if sd > 0 else 0.0)

    def quantile(self, p: float, c: float, kernel_c: float | None = None) -> float:
        sd, skew = self.sd_skew(c, kernel_c)
        return sd * pearson_quantile(p, skew) * self.factor

    def test(self, *, level: float, power: float) -> CosineTest:
        if self.zero:
            return CosineTest(ci_low=1.0, ci_high=1.0, rotation_p=1.0, min_detectable_degrees=0.0)
        tail = (1.0 - level) / 2.0

        def stat(c: float) -> float:
            return (1.0 - c) * self.moment - self.deficit

        def end(p: float) -> float:
            def excess(c: float) -> float:
                return stat(c) - self.quantile(p, c)

            if excess(1.0) >= 0.0:
                return float(1.0 + excess(1.0) / self.moment)
            if excess(-1.0) <= 0.0:
                return -1.0
            return float(optimize.brentq(excess, -1.0, 1.0, xtol=1e-13))

        low = end(1.0 - tail)
        high = end(tail)
        sd, skew = self.sd_skew(1.0)
        factor = self.factor
        p = min(1.0, 2.0 * float(stats.pearson3.cdf(stat(1.0) / (sd * factor), skew)))
        critical = self.quantile(tail, 1.0)

        def missing(c: float) -> float:
            return -(1.0 - c) * self.moment + self.quantile(power, c, 1.0) - critical

        mind = None if missing(-1.0) > 0 else math.degrees(math.acos(float(optimize.brentq(missing, -1.0, 1.0, xtol=1e-15))))
        return CosineTest(ci_low=low, ci_high=high, rotation_p=p, min_detectable_degrees=mind)

