"""Two classes of prompts seen through two models: the checked input of every direction statistic.

With far fewer prompts n than dimensions d, everything that the direction statistics need is in three n x n
Gram blocks (base-base, variant-variant, base-variant). They are formed once; random splits, unbiased moments
and intervals then cost nothing in d.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.arrays import as_array, to_numpy

__all__ = ["BoolArray", "FloatArray", "PairedContrast", "paired_contrast"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedContrast:
    """Checked activations of base and variant for the same prompts, and their Gram blocks.

    Each model's activations are centred by their mean over all prompts, and scaled by a power of two, before the
    Gram blocks are formed: cosines and ratios do not see it, and a large common mean costs no digits.
    """

    base: FloatArray
    """Activations of the base (n, d), as given."""

    variant: FloatArray
    """Activations of the variant (n, d), as given."""

    in_a: BoolArray
    """True for the rows of class A (n,), the larger of the two label values."""

    gram_base: FloatArray
    """Inner products of the centred base rows (n, n)."""

    gram_variant: FloatArray
    """Inner products of the centred variant rows (n, n)."""

    gram_cross: FloatArray
    """Inner products of centred variant rows with centred base rows (n, n), symmetrised."""

    @property
    def n_a(self) -> int:
        """Prompts in class A."""
        return int(self.in_a.sum())

    @property
    def n_b(self) -> int:
        """Prompts in class B."""
        return int(self.in_a.size - self.in_a.sum())

    @property
    def d(self) -> int:
        """Width of the activations."""
        return int(self.base.shape[1])

    @property
    def n_per_class(self) -> float:
        """Harmonic mean of the class sizes: the size of two equal classes with the same estimator noise."""
        return 2.0 * self.n_a * self.n_b / (self.n_a + self.n_b)

    @property
    def weights(self) -> FloatArray:
        """Weight of each row in the difference of class means (n,): 1/n_a in A, -1/n_b in B."""
        return np.where(self.in_a, 1.0 / self.n_a, -1.0 / self.n_b)


def paired_contrast(variant_activations: Any, base_activations: Any, labels: Any) -> PairedContrast:
    """Check the activations and labels of a direction statistic and form its Gram blocks.

    Args:
        variant_activations: (n, d) array or tensor of real numbers, one row a prompt.
        base_activations: (n, d), the same prompts in the same order.
        labels: (n,) two distinct values of any one sortable type. Class A is the larger value (1 of 0/1, True
            of False/True, the later string).

    Returns:
        The contrast, in float64.

    Raises:
        InputError: If a shape does not fit, a value is not finite (its row is named), the labels do not hold
            exactly two values, or a class has fewer than 2 prompts.
    """
    variant = _matrix(variant_activations, "variant_activations")
    base = _matrix(base_activations, "base_activations")
    if variant.shape[0] != base.shape[0]:
        raise InputError(
            "variant_activations and base_activations must hold the same prompts, but got "
            f"{variant.shape[0]} and {base.shape[0]} rows; pass one row a prompt, in the same order"
        )
    if variant.shape[1] != base.shape[1]:
        raise InputError(
            "variant_activations and base_activations must have the same width, but got "
            f"{variant.shape[1]} and {base.shape[1]}; directions of different widths cannot be compared"
        )
    in_a = _class_a(labels, base.shape[0])
    base_centred = _centred(base)
    gram_base = _symmetric_product(base_centred, base_centred)
    if np.array_equal(base, variant):
        # BLAS has its own routine for a matrix times itself: the last bits would differ between the blocks.
        gram_variant = gram_cross = gram_base
    else:
        variant_centred = _centred(variant)
        gram_variant = _symmetric_product(variant_centred, variant_centred)
        gram_cross = _symmetric_product(variant_centred, base_centred)
    return PairedContrast(
        base=base,
        variant=variant,
        in_a=in_a,
        gram_base=gram_base,
        gram_variant=gram_variant,
        gram_cross=gram_cross,
    )


def _centred(activations: FloatArray) -> FloatArray:
    """Rows less their mean, scaled by a power of two to at most 1 so that no product overflows.

    A column that does not vary becomes exactly 0, not its rounding.
    """
    scaled = np.ldexp(activations, -int(np.frexp(np.abs(activations).max())[1]))
    centred: FloatArray = scaled - scaled.mean(axis=0)
    centred[:, (scaled == scaled[0]).all(axis=0)] = 0.0
    return centred


def _symmetric_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """The symmetric part of left @ right.T."""
    product = left @ right.T
    result: FloatArray = (product + product.T) / 2.0
    return result


def _matrix(activations: Any, name: str) -> FloatArray:
    """A finite (n, d) float64 matrix."""
    try:
        matrix: FloatArray = to_numpy(activations)
    except (TypeError, ValueError, OverflowError) as exc:
        raise InputError(
            f"{name} must be a rectangular (n, d) array of real numbers, but it cannot be read as one ({exc})"
        ) from exc
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"{name} must have shape (n, d) with d >= 1, but got {matrix.shape}; pass one row a prompt")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        raise InputError(
            f"{name} must be finite, but row {bad[0]} holds NaN or infinity ({bad.size} of {len(matrix)} rows "
            "do); drop these prompts, or run the model in bfloat16 or float32"
        )
    return matrix


def _class_a(labels: Any, n_rows: int) -> BoolArray:
    """Which rows belong to class A, the larger of exactly two label values."""
    values = as_array(labels)
    if not isinstance(values, np.ndarray):
        values = to_numpy(values)
    if values.ndim != 1 or values.size != n_rows:
        raise InputError(f"labels must have shape ({n_rows},), one a row of the activations, but got {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"labels must be finite, but row {row} is {values[row]}; drop this prompt")
    try:
        classes = np.unique(values)
    except TypeError as exc:
        raise InputError(
            f"labels must be of one sortable type, but got a mixture ({exc}); pass 0/1 or two strings"
        ) from exc
    if classes.size != 2:
        shown = ", ".join(repr(value) for value in classes[:5].tolist())
        raise InputError(
            f"labels must hold exactly two classes, but got {classes.size} ({shown}); a direction is the "
            "difference of two class means"
        )
    in_a: BoolArray = np.asarray(values == classes[1], dtype=np.bool_)
    smaller = min(int(in_a.sum()), int((~in_a).sum()))
    if smaller < 2:
        raise InputError(f"each class must have at least 2 prompts, but one has {smaller}; a covariance needs two rows")
    return in_a
