"""The noise floor of a difference-in-means direction: closed forms, the measured null, and the paper's rule."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.paired_contrast import FloatArray, PairedContrast

__all__ = ["SplitNull", "class_kappa", "floor_half_split", "floor_independent", "paper_verdict", "split_null"]


def class_kappa(rho: float, n_per_class: float, d: int) -> float:
    """The number that governs the floor, kappa = n rho^2 / d.

    Args:
        rho: Separation of the class means in pooled within-class SDs of one dimension.
        n_per_class: Prompts in each class; the harmonic mean of the two where they differ.
        d: Width of the activations.

    Returns:
        kappa, dimensionless.

    Source:
        Cosine Similarity Is Not Evidence, Sec. 3.

    Example:
        >>> round(class_kappa(61.33, 256, 1536), 1)
        626.9
    """
    return n_per_class * rho**2 / d


def floor_half_split(kappa: float) -> float:
    """Expected cosine between the directions of two disjoint halves, n/2 prompts per class each.

    Within .0016 of simulation for d >= 256 and kappa in [.77, 627].

    Args:
        kappa: n rho^2 / d with the whole n per class, >= 0.

    Returns:
        1 / (1 + 4/kappa).

    Source:
        Cosine Similarity Is Not Evidence, Eq. (1). That it describes halves, and not two whole runs, was found
        by simulation: the paper's text names both.

    Example:
        >>> round(floor_half_split(627.0), 4)
        0.9937
    """
    return kappa / (kappa + 4.0)


def floor_independent(kappa: float) -> float:
    """Expected cosine between the directions of two independent runs, n prompts per class each.

    Args:
        kappa: n rho^2 / d with the n per class of one run, >= 0.

    Returns:
        1 / (1 + 2/kappa).

    Example:
        >>> round(floor_independent(627.0), 4)
        0.9968
    """
    return kappa / (kappa + 2.0)


def paper_verdict(cosine: float, null_mean: float, null_sd: float) -> str:
    """The paper's decision rule for a cosine between base and variant directions.

    It is conservative, not calibrated: the cosine's noise is mostly shared between the two models and cancels,
    the null's is not.

    Args:
        cosine: Between the directions of base and variant.
        null_mean: Mean split-half cosine within the variant (the own null).
        null_sd: Its standard deviation over the splits.

    Returns:
        `rotation` where the cosine is more than 2 SDs below the null's mean, else `within_noise`.

    Source:
        Cosine Similarity Is Not Evidence, Sec. 5 and Table 3.

    Example:
        >>> paper_verdict(0.9647, 0.9803, 0.0052), paper_verdict(0.9999, 0.9827, 0.0047)
        ('rotation', 'within_noise')
    """
    return "rotation" if cosine < null_mean - 2.0 * null_sd else "within_noise"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitNull:
    """Split-half cosines within variant and base, over the same random splits of the prompts."""

    variant: FloatArray | None
    """Cosine between the two halves' directions in the variant (n_splits,); None if a half has no direction."""

    base: FloatArray | None
    """The same in the base, on the same splits."""


def split_null(contrast: PairedContrast, *, n_splits: int, rng: np.random.Generator) -> SplitNull:
    """Cosines between the directions of two random halves of the prompts, within each model.

    Both classes are cut in halves at random; of an odd class the second half has one more. A split is a pair of
    weight vectors u, w over the n prompts, and its cosine is u'Gw / sqrt(u'Gu w'Gw) from the model's Gram
    matrix, so 200 splits cost two products of (200, n) with (n, n).

    Args:
        contrast: The checked activations.
        n_splits: Number of random splits, at least 2.
        rng: Source of the splits.

    Returns:
        The cosines of variant and base.

    Raises:
        InputError: If `n_splits` is below 2.
    """
    if n_splits < 2:
        raise InputError(f"n_splits must be at least 2, but got {n_splits}; the null's sd needs two splits")
    first = np.zeros((n_splits, contrast.in_a.size))
    second = np.zeros_like(first)
    for sign, members in ((1.0, np.flatnonzero(contrast.in_a)), (-1.0, np.flatnonzero(~contrast.in_a))):
        order = rng.permuted(np.tile(members, (n_splits, 1)), axis=1)
        half = members.size // 2
        np.put_along_axis(first, order[:, :half], sign / half, axis=1)
        np.put_along_axis(second, order[:, half:], sign / (members.size - half), axis=1)
    return SplitNull(
        variant=_split_cosines(contrast.gram_variant, first, second),
        base=_split_cosines(contrast.gram_base, first, second),
    )


def _split_cosines(
    gram: npt.NDArray[np.float64], first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> FloatArray | None:
    """Row-wise cosine of first and second under the inner product `gram`."""
    first_gram = first @ gram
    inner = np.einsum("ij,ij->i", first_gram, second)
    norm_first = np.einsum("ij,ij->i", first_gram, first)
    norm_second = np.einsum("ij,ij->i", second @ gram, second)
    # Below this the difference of two equal means is rounding, not a direction.
    smallest = 64.0 * np.finfo(np.float64).eps * max(float(np.diagonal(gram).max()), math.ulp(0.0))
    if min(norm_first.min(), norm_second.min()) <= smallest:
        return None
    cosines: FloatArray = inner / np.sqrt(norm_first * norm_second)
    return cosines
