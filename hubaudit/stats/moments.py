"""Second moments of two models' features, accumulated so that small differences keep their digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.arrays import (
    Array,
    Float64,
    as_float64,
    check_finite_rows,
    check_rows,
    namespace,
    place_like,
    to_numpy,
)
from hubaudit.stats.weights import check_row_weights

__all__ = ["PrismMoments"]

_CHUNK_NUMBERS = 2**20
"""Features of one model that are held in float64 at once: 8 MB."""


class PrismMoments:
    """Weighted moments of base rows z_T and variant rows z_P over any number of batches.

    The drift e = z_T - z_P is accumulated itself: a model against itself gives exactly 0, and no figure is a small
    difference of large sums. Means are kept apart from the centred second moments and are merged by Chan's
    formulas, so a large common mean costs no digits. Everything is float64; batches, shards and their order change
    the result by rounding only (1e-9 relative at most).

    Args:
        d: Width of the features of both models.

    Raises:
        InputError: If `d` is not positive.

    Source:
        PRISM, section 3.1 and Eq. (23); Chan, Golub and LeVeque (1983) for the merge.

    Example:
        >>> moments = PrismMoments(2)
        >>> moments.update([[3.0, 4.0]], [[0.0, 5.0]])
        >>> moments.d_mean_square
        10.0
    """

    def __init__(self, d: int) -> None:
        if d < 1:
            raise InputError(f"expected a feature width of at least 1, got {d}; give the width of the hidden state")
        self.d = d
        self.n_rows = 0
        self.weight = 0.0
        self.weight_squared = 0.0
        # Sums over rows of weight times: |z_T|^2, |z_P|^2, |e|^2, and |z_T|^2 - |z_P|^2 as e . (z_T + z_P).
        self._squares = np.zeros(4)
        self._mean_variant = np.zeros(d)
        self._mean_drift = np.zeros(d)
        # Centred sums over rows of weight times z_P z_P', z_P e', e e'.
        self._variant_variant = np.zeros((d, d))
        self._variant_drift = np.zeros((d, d))
        self._drift_drift = np.zeros((d, d))

    def update(self, z_base: Any, z_variant: Any, weights: Any = None) -> None:
        """Add rows.

        Args:
            z_base: The base's features, (n, d): numpy or torch, any float dtype, any device.
            z_variant: The variant's features of the same tokens, (n, d).
            weights: Weights of the rows, (n,), at least 0; None for 1 each. Only their ratios matter.

        Raises:
            InputError: If shapes differ or are not (n, d), a value is NaN or infinite, or a weight is negative.
                Nothing has been added then.
        """
        base = check_rows(z_base, "base features")
        variant = check_rows(z_variant, "variant features")
        if tuple(base.shape) != tuple(variant.shape):
            raise InputError(
                f"expected the same tokens of both models, got base features of shape {tuple(base.shape)} and "
                f"variant features of shape {tuple(variant.shape)}; feed both models the same token ids"
            )
        if int(base.shape[1]) != self.d:
            raise InputError(f"expected features of width {self.d}, got {int(base.shape[1])}; use one width throughout")
        row_weights = check_row_weights(weights, int(base.shape[0]))
        check_finite_rows(base, "base features", first_row=self.n_rows)
        check_finite_rows(variant, "variant features", first_row=self.n_rows)
        step = max(1, _CHUNK_NUMBERS // self.d)
        for start in range(0, len(row_weights), step):
            rows = slice(start, start + step)
            self._add(base[rows], variant[rows], row_weights[rows])

    def merge(self, other: PrismMoments) -> None:
        """Add what another accumulator has seen; `other` stays as it is.

        Raises:
            InputError: If the widths differ.
        """
        if other.d != self.d:
            raise InputError(f"expected moments of width {self.d}, got {other.d}; merge shards of the same two models")
        total = self.weight + other.weight
        if other.weight > 0:
            share = other.weight / total
            step_variant = other._mean_variant - self._mean_variant
            step_drift = other._mean_drift - self._mean_drift
            mass = self.weight * share
            self._variant_variant += other._variant_variant + mass * np.outer(step_variant, step_variant)
            self._variant_drift += other._variant_drift + mass * np.outer(step_variant, step_drift)
            self._drift_drift += other._drift_drift + mass * np.outer(step_drift, step_drift)
            self._mean_variant = self._mean_variant + share * step_variant
            self._mean_drift = self._mean_drift + share * step_drift
        self._squares = self._squares + other._squares
        self.n_rows += other.n_rows
        self.weight = total
        self.weight_squared += other.weight_squared

    def _add(self, base: Array, variant: Array, weights: Float64) -> None:
        batch = PrismMoments(self.d)
        batch.n_rows, batch.weight, batch.weight_squared = len(weights), float(weights.sum()), float(weights @ weights)
        if batch.weight == 0:
            self.n_rows += batch.n_rows
            return
        z = as_float64(variant)
        t = as_float64(place_like(base, variant))
        e = t - z
        xp = namespace(z)
        w = place_like(weights, z)[:, None]
        squares = [xp.sum(w * x * y) for x, y in ((t, t), (z, z), (e, e), (e, t + z))]
        batch._squares = np.array([float(square) for square in squares])
        mean_z, mean_e = xp.sum(w * z, axis=0) / batch.weight, xp.sum(w * e, axis=0) / batch.weight
        z, e = xp.sqrt(w) * (z - mean_z), xp.sqrt(w) * (e - mean_e)
        batch._mean_variant, batch._mean_drift = to_numpy(mean_z), to_numpy(mean_e)
        batch._variant_variant, batch._variant_drift = to_numpy(z.T @ z), to_numpy(z.T @ e)
        batch._drift_drift = to_numpy(e.T @ e)
        self.merge(batch)

    def _per_weight(self, total: float) -> float:
        if self.weight <= 0:
            raise InputError("expected at least one row of features, got none; call update first")
        return total / self.weight

    @property
    def rho_base(self) -> float:
        """Root mean square norm of the base's rows, `||Z_T||_F / sqrt(n)`."""
        return math.sqrt(self._per_weight(self._squares[0]))

    @property
    def rho_variant(self) -> float:
        """Root mean square norm of the variant's rows, `||Z_P||_F / sqrt(n)`."""
        return math.sqrt(self._per_weight(self._squares[1]))

    @property
    def d_mean_square(self) -> float:
        """D, the mean of |z_T - z_P|^2, accumulated as such."""
        return float(self._per_weight(self._squares[2]))

    @property
    def scale(self) -> float:
        """The scale axis, (rho_T - rho_P)^2."""
        total = self.rho_base + self.rho_variant
        return float((self._per_weight(self._squares[3]) / total) ** 2) if total > 0 else 0.0

    @property
    def mean_variant(self) -> Float64:
        """Mean of the variant's rows, (d,)."""
        return self._mean_variant.copy()

    @property
    def sigma_variant(self) -> Float64:
        """`Sigma_P = Z_P' Z_P / n`, uncentred, (d, d)."""
        return self._variant_variant / self.weight + np.outer(self._mean_variant, self._mean_variant)

    @property
    def sigma_drift(self) -> Float64:
        """Mean of `e e'` with e = z_T - z_P, uncentred, (d, d)."""
        return self._drift_drift / self.weight + np.outer(self._mean_drift, self._mean_drift)

    @property
    def cross_variant_drift(self) -> Float64:
        """Mean of `z_P e'`, uncentred, (d, d)."""
        return self._variant_drift / self.weight + np.outer(self._mean_variant, self._mean_drift)

    @property
    def cross_variant_base(self) -> Float64:
        """`Z_P' Z_T / n`, uncentred, (d, d)."""
        return self.sigma_variant + self.cross_variant_drift

    def centred(self) -> tuple[Float64, Float64, Float64]:
        """Centred `Z_T'Z_T / n`, `Z_P'Z_P / n` and `Z_P'Z_T / n`, each (d, d)."""
        variant, cross = self._variant_variant / self.weight, self._variant_drift / self.weight
        return variant + cross + cross.T + self._drift_drift / self.weight, variant, variant + cross

    def aligned_mean_square(self, rotation: Float64 | None) -> float:
        """D after aligning the variant: the mean of |z_T - z_P W|^2.

        Args:
            rotation: W, orthogonal, (d, d); None for the identity.

        Returns:
            The mean square, at least 0. With R = I - W it is the mean of |e + z_P R|^2, expanded around the drift,
            so it keeps its digits where W is near the identity.
        """
        if rotation is None:
            return self.d_mean_square
        change = np.eye(self.d) - rotation
        turned = np.vdot(change, self.sigma_variant @ change) + 2 * np.vdot(change, self.cross_variant_drift)
        # A mean of squares: what lies below 0 is the rounding of a sum whose terms cancel.
        return max(0.0, self.d_mean_square + float(turned))
