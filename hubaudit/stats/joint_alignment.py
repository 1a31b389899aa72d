"""The orthogonal alignment that makes the whole bound smallest, features and head weighed against each other."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.linalg

from hubaudit.stats.alignment import procrustes
from hubaudit.stats.arrays import Float64, namespace, place_like, to_numpy
from hubaudit.stats.gamma import K_PRED, head_discrepancy
from hubaudit.stats.head import Head
from hubaudit.stats.moments import PrismMoments

__all__ = ["joint"]

_BLOCK_NUMBERS = 2**22
_STEPS = 200
_PATIENCE = 10
_RELATIVE_GAIN = 1e-6
_SUFFICIENT = 1e-4
_SMOOTHING = 1e-6


def joint(moments: PrismMoments, base_head: Head, variant_head: Head, *, k_feat: float) -> Float64 | None:
    """The orthogonal W that makes delta + gamma small.

    The sum is neither convex nor concave and O(d) has two components, so a descent runs from several starts:
    identity, the Procrustes solution of the features, that of the heads, the same weighted by the features, and a
    mixture of both sides. Each iteration costs a few d x d products; the heads enter through their d x d moments.

    Args:
        moments: The moments of the rows.
        base_head: H_T.
        variant_head: H_P, of the same tokens.
        k_feat: The constant of the base's head.

    Returns:
        W, (d, d), or None for the identity. Its bound, computed as every other, is never above that of the identity
        and of the Procrustes solution. A local minimum: a smaller one may exist.

    Source:
        PRISM, Eq. (44); curvilinear search with Cayley transforms: Wen and Yin (2013), Math. Programming 142.
    """
    problem = _Problem.of(moments, base_head, variant_head, k_feat)
    ends = [problem.descend(start) for start in problem.starts()]
    best = min(ends, key=problem.value)
    candidates = [None, procrustes(moments.cross_variant_base), best]

    def bound(rotation: Float64 | None) -> float:
        gamma = head_discrepancy(moments, base_head, variant_head, rotation=rotation)
        return k_feat * math.sqrt(moments.aligned_mean_square(rotation)) + gamma

    return min(candidates, key=bound)


@dataclasses.dataclass(frozen=True)
class _Problem:
    """delta(W) + gamma(W) and its gradient, from d x d moments; both roots are smoothed at 0."""

    k_feat: float
    sigma: Float64
    cross: Float64
    squares: float
    """rho_T^2 + rho_P^2."""
    base_gram: Float64
    """Sum over tokens of h_T h_T'."""
    head_cross: Float64
    """Sum over tokens of h_T h_P'."""
    bias_pull: Float64
    """mean(z_P) times the sum over tokens of h_T' (b_T - b_P), (d, d)."""
    head_constant: float
    """What of gamma^2 / 2 does not depend on W."""

    @classmethod
    def of(cls, moments: PrismMoments, base_head: Head, variant_head: Head, k_feat: float) -> _Problem:
        d = moments.d
        grams, pulls, bias_square = np.zeros((3, d, d)), np.zeros((2, d)), 0.0
        step = max(1, _BLOCK_NUMBERS // d)
        for start in range(0, base_head.n_rows, step):
            stop = min(start + step, base_head.n_rows)
            ours = base_head.rows(start, stop, "float64")
            theirs = place_like(variant_head.rows(start, stop, "float64"), ours)
            bias = base_head.biases(start, stop, "float64")
            bias = bias - place_like(variant_head.biases(start, stop, "float64"), ours)
            grams += np.stack([to_numpy(product) for product in (ours.T @ ours, ours.T @ theirs, theirs.T @ theirs)])
            pulls += np.stack([to_numpy(bias @ rows) for rows in (ours, theirs)])
            bias_square += float(namespace(bias).sum(bias**2))
        sigma, mean = moments.sigma_variant, moments.mean_variant
        return cls(
            k_feat=k_feat,
            sigma=sigma,
            cross=moments.cross_variant_base,
            squares=moments.rho_base**2 + moments.rho_variant**2,
            base_gram=grams[0],
            head_cross=grams[1],
            bias_pull=np.outer(mean, pulls[0]),
            head_constant=float(np.vdot(sigma, grams[2]) - 2 * mean @ pulls[1] + bias_square),
        )

    def starts(self) -> list[Float64]:
        """Both determinants occur: a descent cannot change the sign that it starts with."""
        feature_pull = self.cross * self.k_feat / (np.linalg.norm(self.cross) or 1.0)
        head_pull = self.sigma @ self.head_cross.T
        mixed = feature_pull + head_pull * self.k_feat / (np.linalg.norm(head_pull) or 1.0)
        pulls = [self.cross, self.head_cross.T, head_pull, mixed]
        return [np.eye(len(self.sigma)), *(procrustes(pull) for pull in pulls)]

    def _squares_at(self, rotation: Float64) -> tuple[float, float, Float64]:
        """D, gamma^2 / 2 and Sigma W A, which the gradient needs too."""
        weighed = self.sigma @ rotation @ self.base_gram
        drift = self.squares - 2 * np.vdot(self.cross, rotation)
        head = np.vdot(rotation, weighed - 2 * self.sigma @ self.head_cross.T + 2 * self.bias_pull)
        return max(float(drift), 0.0), max(float(head) + self.head_constant, 0.0), weighed

    def _roots(self, drift: float, head: float) -> tuple[float, float]:
        scale = abs(float(np.vdot(self.sigma, self.base_gram))) + self.head_constant
        return math.sqrt(drift + _SMOOTHING**2 * self.squares), math.sqrt(head + _SMOOTHING**2 * abs(scale))

    def value(self, rotation: Float64) -> float:
        drift, head, _ = self._squares_at(rotation)
        roots = self._roots(drift, head)
        return self.k_feat * roots[0] + K_PRED * roots[1]

    def value_and_gradient(self, rotation: Float64) -> tuple[float, Float64]:
        drift, head, weighed = self._squares_at(rotation)
        roots = self._roots(drift, head)
        by_head = weighed - self.sigma @ self.head_cross.T + self.bias_pull
        gradient = -self.k_feat / roots[0] * self.cross + K_PRED / roots[1] * by_head
        return self.k_feat * roots[0] + K_PRED * roots[1], gradient

    def descend(self, rotation: Float64) -> Float64:
        """Follow the gradient along Cayley curves, which stay on O(d), with Barzilai-Borwein steps."""
        value, gradient = self.value_and_gradient(rotation)
        best, history, step = (value, rotation), [value], 0.0
        for _ in range(_STEPS):
            skew = gradient @ rotation.T
            skew = skew - skew.T
            slope = float(np.vdot(skew, skew)) / 2
            if slope <= 1e-24 * value**2:
                break
            step = step or value / (2 * slope)
            # Against the worst of the last few values, not the last one: narrow valleys need a detour.
            limit = max(history[-5:])
            while True:
                moved = _cayley(skew, step) @ rotation
                if self.value(moved) <= limit - _SUFFICIENT * step * slope or step * math.sqrt(slope) < 1e-12:
                    break
                step /= 3
            new_value, new_gradient = self.value_and_gradient(moved)
            change = moved - rotation
            turn = new_gradient @ moved.T
            bend = (turn - turn.T) @ moved - skew @ rotation
            curvature = abs(float(np.vdot(change, bend)))
            step = float(np.vdot(change, change)) / curvature if curvature > 0 else 0.0
            rotation, value, gradient = moved, new_value, new_gradient
            history.append(value)
            if value < best[0]:
                best = (value, rotation)
            if len(history) > _PATIENCE and min(history[:-_PATIENCE]) - best[0] < _RELATIVE_GAIN * best[0]:
                break
        return procrustes(best[1])


def _cayley(skew: Float64, step: float) -> Float64:
    half = step / 2 * skew
    identity = np.eye(len(skew))
    return np.asarray(scipy.linalg.solve(identity + half, identity - half))
