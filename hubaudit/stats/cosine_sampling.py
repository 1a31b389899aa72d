"""How the corrected cosine varies from sample to sample, for any value that the true cosine might have.

Write r for the difference of class means, and let every moment be unbiased. For a true cosine c the statistic

    D(c) = [ |r_P| |r_T| - <r_P, r_T> ] / (|r_P| |r_T|) - (1 - c)

has mean zero. It is a two-sample U-statistic whose kernel mixes the three Gram blocks, so its law follows from
the blocks: a first-order part (a sum over prompts, near Gaussian) and a second-order part (a sum over pairs of
prompts: a quadratic form, skewed where the noise has few dimensions). A plain jackknife or bootstrap fails near
c = 1 because there the first-order part vanishes: with v_i the difference of the two models' activations after
scaling, D(1) is the squared length of the mean of v_i alone. Its first-order part at c is therefore built from
the hypothesis, as a function of 1 - c, instead of from the data alone.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from hubaudit.stats.contrast_moments import (
    influence_rows,
    noise_matrix,
    noise_trace,
    unbiased_moment,
)
from hubaudit.stats.paired_contrast import BoolArray, FloatArray, PairedContrast
from hubaudit.stats.quadratic_form import QuadraticForm

__all__ = ["CosineSampling"]

# The spread of the first-order part mixes two estimates: without bias, but noisy, and as it would be if the true
# difference lay along the noise's own principal axes. Half of each, and never below half of the pure noise's
# share: chosen by simulation (benchmarks/coverage_direction.py).
_NOISE_SHARE_REMOVED = 0.5
_SMALLEST_SHARE = 0.5


class CosineSampling:
    """The statistic D and its law. All lengths are in units of the product |r_P| |r_T|.

    Args:
        contrast: Checked activations with at least 4 prompts in each class and positive unbiased squared
            lengths of both directions.
    """

    def __init__(self, contrast: PairedContrast) -> None:
        in_a = contrast.in_a
        length_base = unbiased_moment(contrast.gram_base, in_a)
        length_variant = unbiased_moment(contrast.gram_variant, in_a)
        moment = math.sqrt(length_variant * length_base)
        length = (contrast.gram_variant / length_variant + contrast.gram_base / length_base) / 2.0
        difference = length - contrast.gram_cross / moment
        scale = (contrast.gram_variant / length_variant - contrast.gram_base / length_base) / 2.0
        size = float(np.diagonal(length).max())
        self.is_exact = bool(np.abs(difference).max() <= 1e-13 * size)
        """Whether the variant is the base up to a factor: then nothing varies but by rounding."""
        self.deficit = unbiased_moment(difference, in_a)
        """Estimate of 1 - c, the bias of the estimated scale removed."""
        self._student = float(stats.t.ppf(0.975, in_a.size - 2) / stats.norm.ppf(0.975))
        if not self.is_exact:
            self._prepare(length, difference, scale, in_a)

    def _prepare(self, length: FloatArray, difference: FloatArray, scale: FloatArray, in_a: BoolArray) -> None:
        """The sums over prompts and pairs from which the cumulants at any c follow."""
        # The models' relative scale is estimated too: this takes out the difference along the direction itself.
        scale_rows = influence_rows(scale, in_a)
        scale_variance = float(scale_rows @ scale_rows) - 2.0 * float((noise_matrix(scale, in_a) ** 2).sum())
        self.deficit += max(scale_variance, 0.0) / 2.0
        along = np.outer(scale_rows, scale_rows) / 2.0
        np.fill_diagonal(along, 0.0)

        pairs = np.stack([-noise_matrix(length, in_a), noise_matrix(difference, in_a) - along])
        # The length's influences carry the noise of the direction that they project on: shrink it away.
        shrink = math.sqrt(1.0 + noise_trace(length, in_a))
        rows = np.stack([-influence_rows(length, in_a) / shrink, influence_rows(difference, in_a)])
        self._eigenvalues = np.linalg.eigvalsh(pairs[1])
        self._first = rows @ rows.T
        self._first_third = np.einsum("ia,ja,ka->ijk", rows, rows, rows)
        self._second = 2.0 * np.einsum("iab,jab->ij", pairs, pairs)
        squares = pairs @ pairs
        self._second_third = np.einsum("iab,jab->ij", squares, pairs)
        self._mixed = rows @ pairs @ rows.T
        self._noise_trace = noise_trace(difference, in_a)

    def _first_order_scale(self, gap: float) -> float:
        """Factor of the difference's influences if the true 1 - c is `gap`."""
        noise = float(self._second[1, 1])
        observed = float(self._first[1, 1])
        if observed <= 0.0:
            return 0.0  # the two models differ by no more than a constant within each class
        # Observed spread and observed deficit move together; at the hypothesised gap the spread is the regression
        # of one on the other. Var(deficit) = first + second order >= second order.
        covariance = max(4.0 * float(self._mixed[1, 1, 1]) - 8.0 * float(self._second_third[1, 1]), 0.0)
        slope = covariance / max(observed - noise, noise)
        spread = observed - _NOISE_SHARE_REMOVED * 2.0 * noise + (gap - self.deficit) * slope
        spread = max(spread, _SMALLEST_SHARE * 2.0 * noise)
        shrink = gap / (gap + (1.0 - _NOISE_SHARE_REMOVED) * self._noise_trace)
        return math.sqrt(spread * shrink / observed)

    def law(self, cosine: float, *, tested: float | None = None) -> QuadraticForm:
        """Law of D about its mean.

        Args:
            cosine: The true cosine; above 1, where there is none, the law at 1 is used.
            tested: The value at which D is evaluated, by default the true one.

        Returns:
            The law: the eigenvalues of the difference's second-order part, and one more term that carries
            variance and third cumulant of everything else.
        """
        gap = max(1.0 - cosine, 0.0)
        of_length = gap if tested is None else max(1.0 - tested, 0.0)
        factors = np.array([of_length, self._first_order_scale(gap)])
        variance = factors @ self._first @ factors
        variance += of_length**2 * self._second[0, 0] + 2.0 * of_length * self._second[0, 1]
        eigenvalues, df = self._eigenvalues, np.ones_like(self._eigenvalues)
        if variance > 1e-9 * self._second[1, 1] and variance > 0.0:
            third = self._third_cumulant(of_length, factors)
            # w (chi2(df) - df) has variance 2 df w^2 and third cumulant 8 df w^3; no more skewed than df = 1.
            weight = np.clip(abs(third) / (4.0 * variance), 1e-3 * math.sqrt(variance), math.sqrt(variance / 2.0))
            eigenvalues = np.append(eigenvalues, math.copysign(float(weight), third))
            df = np.append(df, variance / (2.0 * weight**2))
        return QuadraticForm(eigenvalues, df)

    def _third_cumulant(self, of_length: float, factors: FloatArray) -> float:
        """Third cumulant of D, less that of the difference's second-order part alone."""
        third = float(np.einsum("ijk,i,j,k", self._first_third, factors, factors, factors))
        mixed = self._mixed.copy()
        # As in the spread: the part of the sum that pure noise contributes is counted by half.
        noise = 4.0 * float(self._second_third[1, 1])
        along = float(mixed[1, 1, 1])
        mixed[1, 1, 1] = max(along - _NOISE_SHARE_REMOVED * noise, 0.25 * along, 0.0)
        third += 6.0 * float(np.einsum("kij,k,i,j", mixed, [of_length, 1.0], factors, factors))
        return third + 8.0 * float(
            of_length**3 * self._second_third[0, 0]
            + 3.0 * of_length**2 * self._second_third[0, 1]
            + 3.0 * of_length * self._second_third[1, 0]
        )

    def statistic(self, cosine: float) -> float:
        """D at a value of the true cosine."""
        return self.deficit - (1.0 - cosine)

    def tails(self, cosine: float) -> tuple[float, float]:
        """Probabilities of a D below and above the one observed, if this is the true cosine."""
        law = self.law(cosine)
        return law.tails(self.statistic(cosine) / self._inflation(law))

    def quantile(self, probability: float, cosine: float, *, tested: float | None = None) -> float:
        """Quantile of D about its mean; arguments as of `law`."""
        law = self.law(cosine, tested=tested)
        return law.quantile(probability) * self._inflation(law)

    def _inflation(self, law: QuadraticForm) -> float:
        """Factor on all quantiles because the law is estimated.

        Student's t over the normal at 95 % where a mean is divided by its SD. A squared length is divided by a
        variance, so its logarithm errs twice as much (F for chi-square); the skewness tells how far the law is
        one single square.
        """
        return math.pow(self._student, 1.0 + min(law.skew**2 / 8.0, 1.0))
