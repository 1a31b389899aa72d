"""A printed cosine against its floor."""

from __future__ import annotations

from typing import Any

import pytest

from hubaudit.errors import InputError
from hubaudit.stats.published_cosine import place_published_cosine


def test_by_hand() -> None:
    # kappa = 10 * 4^2 / 20 = 8 at constant rho; rho * sqrt(20 / 5) = 8, kappa = 32 at constant effect.
    placed = place_published_cosine(0.9, 4.0, 20, 10, measured_d=5)
    assert placed.constant_rho.rho == 4.0
    assert placed.constant_rho.kappa == 8.0
    assert placed.constant_rho.floor_half_split == pytest.approx(2 / 3)
    assert placed.constant_rho.margin_half_split == pytest.approx(0.9 - 2 / 3)
    assert placed.constant_rho.floor_independent == pytest.approx(4 / 5)
    assert placed.constant_rho.margin_independent == pytest.approx(0.1)
    assert placed.constant_effect.rho == pytest.approx(8.0)
    assert placed.constant_effect.kappa == pytest.approx(32.0)
    assert placed.constant_effect.floor_half_split == pytest.approx(8 / 9)
    assert placed.constant_effect.floor_independent == pytest.approx(16 / 17)


def test_both_carries_agree_at_the_measured_width() -> None:
    placed = place_published_cosine(0.9, 4.0, 20, 10)
    assert placed.constant_rho == placed.constant_effect


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cosine": 1.01}, r"cosine must lie in \[-1, 1\], but got 1.01"),
        ({"cosine": float("nan")}, "cosine must lie"),
        ({"rho": 0.0}, "rho must be positive"),
        ({"rho": float("inf")}, "rho must be positive"),
        ({"d": 0}, "d must be at least 1"),
        ({"n": 1}, "n must be at least 2, but got 1"),
        ({"measured_d": 0}, "measured_d must be at least 1"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        place_published_cosine(**({"cosine": 0.99, "rho": 30.0, "d": 256, "n": 64} | change))
