"""Contrast sets with a known rotation, for the tests of the direction statistics."""

from __future__ import annotations

import numpy as np

from hubaudit.stats.paired_contrast import PairedContrast, paired_contrast


def axis_sds(power: float, d: int) -> np.ndarray:
    """SDs along the axes: variances k^-power, mean variance 1."""
    variances = np.arange(1, d + 1) ** -power
    return np.sqrt(variances / variances.mean())


def simulated_contrast(
    rng: np.random.Generator,
    *,
    n_a: int,
    n_b: int,
    d: int,
    kappa: float,
    degrees: float,
    power: float = 0.0,
    noise_power: float = 0.0,
    noise: float = 0.2,
    along_noise: bool = False,
) -> PairedContrast:
    """One audit: the variant's class means are turned by `degrees`, its private noise is `noise` within-class SDs."""
    rho = np.sqrt(kappa * d * (n_a + n_b) / (2.0 * n_a * n_b))
    private_sds = noise * axis_sds(noise_power, d)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    other = rng.standard_normal(d) * (private_sds if along_noise else 1.0)
    other -= (other @ direction) * direction
    other /= np.linalg.norm(other)
    turned = np.cos(np.radians(degrees)) * direction + np.sin(np.radians(degrees)) * other
    labels = np.repeat([1, 0], [n_a, n_b])
    side = (labels - 0.5)[:, None]
    within = rng.standard_normal((n_a + n_b, d)) * axis_sds(power, d)
    private = rng.standard_normal((n_a + n_b, d)) * private_sds
    base = within + side * rho * direction
    variant = 1.1 * (within + private + side * rho * turned)
    return paired_contrast(variant, base, labels)
