"""Where a printed cosine stands against the noise floor of its own estimator."""

from __future__ import annotations

import dataclasses
import math

from hubaudit.errors import InputError
from hubaudit.stats.direction_null import class_kappa, floor_half_split, floor_independent

__all__ = ["CarriedFloor", "PublishedCosine", "place_published_cosine"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CarriedFloor:
    """The noise floor at the published width under one way of carrying rho there."""

    rho: float
    """Separation of the class means in within-class SDs, carried to the published width."""

    kappa: float
    """n rho^2 / d at the published width."""

    floor_half_split: float
    """Expected cosine between the directions of two halves of the prompts."""

    margin_half_split: float
    """The printed cosine minus `floor_half_split`: positive clears the floor."""

    floor_independent: float
    """Expected cosine between the directions of two independent runs of n prompts per class."""

    margin_independent: float
    """The printed cosine minus `floor_independent`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedCosine:
    """A printed cosine against both floors under both carries."""

    constant_rho: CarriedFloor
    """Carry (A): rho stays as measured; the wider model separates the classes less well per dimension."""

    constant_effect: CarriedFloor
    """Carry (B): rho / sqrt(d) stays as measured."""


def place_published_cosine(
    cosine: float, rho: float, d: int, n: int, *, measured_d: int | None = None
) -> PublishedCosine:
    """Place a printed cosine between two models' directions against the floor that its n implies.

    Args:
        cosine: As printed, in [-1, 1].
        rho: Separation of the class means, measured at width `measured_d`, > 0.
        d: Width of the published model.
        n: Prompts per class behind the printed cosine, at least 2.
        measured_d: Width of the model that rho was measured on; by default `d`, and then both carries agree.

    Returns:
        Both carries with both floors. A cosine below its floor is no evidence of preservation.

    Raises:
        InputError: If an argument is out of range.

    Source:
        Cosine Similarity Is Not Evidence, Table 2 (its floor is the half-split one).

    Example:
        >>> placed = place_published_cosine(0.996, 61.33, 4096, 512, measured_d=1536)
        >>> round(placed.constant_rho.margin_half_split, 4), round(placed.constant_effect.margin_half_split, 4)
        (0.0044, -0.0008)
    """
    measured_d = d if measured_d is None else measured_d
    if not -1.0 <= cosine <= 1.0:
        raise InputError(f"cosine must lie in [-1, 1], but got {cosine}; pass the printed value")
    if not (math.isfinite(rho) and rho > 0.0):
        raise InputError(f"rho must be positive and finite, but got {rho}; measure it with direction_floor")
    for name, value, smallest in (("d", d, 1), ("measured_d", measured_d, 1), ("n", n, 2)):
        if value < smallest:
            raise InputError(f"{name} must be at least {smallest}, but got {value}")
    return PublishedCosine(
        constant_rho=_carried(cosine, rho, d, n),
        constant_effect=_carried(cosine, rho * math.sqrt(d / measured_d), d, n),
    )


def _carried(cosine: float, rho: float, d: int, n: int) -> CarriedFloor:
    """Floors and margins of one rho at the published width."""
    kappa = class_kappa(rho, n, d)
    half_split, independent = floor_half_split(kappa), floor_independent(kappa)
    return CarriedFloor(
        rho=rho,
        kappa=kappa,
        floor_half_split=half_split,
        margin_half_split=cosine - half_split,
        floor_independent=independent,
        margin_independent=cosine - independent,
    )
