"""How far apart the classes lie, in units of their own spread: the input that every noise floor needs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from hubaudit.stats.contrast_moments import noise_trace
from hubaudit.stats.direction_null import class_kappa, floor_half_split, floor_independent
from hubaudit.stats.paired_contrast import PairedContrast

__all__ = ["DirectionSeparation", "direction_separation"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionSeparation:
    """Separation of the base's class means, and the closed-form floors that it implies."""

    rho_naive: float | None = None
    """Length of the direction in pooled within-class SDs of one dimension; None without within-class variance."""

    rho: float | None = None
    """The same without estimator noise; None where the noise is longer than the direction."""

    rho_per_sqrt_d: float | None = None
    """rho / sqrt(d)."""

    kappa: float | None = None
    """n rho^2 / d."""

    floor_half_split: float | None = None
    """Expected cosine of two halves."""

    floor_independent: float | None = None
    """Expected cosine of two independent runs."""


def direction_separation(contrast: PairedContrast) -> DirectionSeparation:
    """Measure rho on the base's activations.

    With r the difference of the class means and sigma^2 the pooled within-class variance per dimension
    (divisor n_a + n_b - 2, and d): rho_naive = |r| / sigma and
    rho^2 = (|r|^2 - tr Cov_A / n_a - tr Cov_B / n_b) / sigma^2, covariances with divisor n_c - 1. For equal
    classes of n whose variances agree that is rho_naive^2 - 2d/n.

    Args:
        contrast: The checked activations.

    Returns:
        What is defined; the rest None.

    Source:
        Cosine Similarity Is Not Evidence, Sec. 4; DESIGN.md, section 3.
    """
    scatter = 0.0
    for members in (contrast.in_a, ~contrast.in_a):
        block = contrast.gram_base[np.ix_(members, members)]
        scatter += float(np.trace(block)) - float(block.sum()) / block.shape[0]
    variance = scatter / (contrast.in_a.size - 2) / contrast.d
    # Rounding leaves a variance of this size where all rows of a class are the same.
    if variance * contrast.d <= 64.0 * np.finfo(np.float64).eps * float(np.diagonal(contrast.gram_base).max()):
        return DirectionSeparation()
    naive = max(float(contrast.weights @ contrast.gram_base @ contrast.weights), 0.0)
    rho_naive = math.sqrt(naive / variance)
    rho_squared = (naive - noise_trace(contrast.gram_base, contrast.in_a)) / variance
    if rho_squared < 0.0:
        return DirectionSeparation(rho_naive=rho_naive)
    rho = math.sqrt(rho_squared)
    kappa = class_kappa(rho, contrast.n_per_class, contrast.d)
    return DirectionSeparation(
        rho_naive=rho_naive,
        rho=rho,
        rho_per_sqrt_d=rho / math.sqrt(contrast.d),
        kappa=kappa,
        floor_half_split=floor_half_split(kappa),
        floor_independent=floor_independent(kappa),
    )
