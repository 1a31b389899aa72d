"""The papers' printed tables, row by row; the notes in reference/NOTES.md say what each can hold us to."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from hubaudit.stats.direction_null import class_kappa, floor_half_split, floor_independent, paper_verdict
from hubaudit.stats.prism_bound import delta_from_axes
from hubaudit.stats.published_cosine import place_published_cosine
from hubaudit.stats.ranking import ranking

# NOTES.md: the intervals of K_feat that fit every row's rounding.
K_FEAT = {
    "Llama-3.1-8B": (2.6135, 2.6139),
    "Qwen3-8B-Base": (3.4577, 3.4587),
    "Ministral-3-8B-Base": (0.9848, 0.9849),
    "DeepSeek-R1-Distill-Llama-8B": (2.5990, 2.5993),
    "Llama-3.1-8B-Instruct": (2.6001, 2.6004),
    "Qwen3-8B-Instruct": (3.4093, 3.4100),
    "Ministral-3-8B-Instruct": (0.9280, 0.9281),
}


def rows(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "reference" / name).open() as file:
        return list(csv.DictReader(file))


def test_every_row_of_the_decomposition(shared: Path) -> None:
    table = rows(shared, "prism_decomposition.csv")
    assert len(table) == 349
    for row in table:
        delta, gamma, bound = (float(row[key]) for key in ("delta", "gamma", "bound"))
        assert bound == pytest.approx(delta + gamma, abs=1.01e-4)
        assert float(row["abs_risk_gap"]) <= bound
        rho_base, rho_variant, omega = (float(row[key]) for key in ("rho_T", "rho_P", "omega"))
        # Printed to 2 and 4 decimals: the corners of the rounding box enclose the printed delta.
        low, high = K_FEAT[row["model"]]
        corners = [
            delta_from_axes(k, rho_base + a, rho_variant + b, min(1.0, omega + c))
            for k in (low, high)
            for a in (-0.005, 0.005)
            for b in (-0.005, 0.005)
            for c in (-5e-5, 5e-5)
        ]
        # Between the two rhos' rounding boxes the scale term can vanish, a minimum inside the box.
        inside = delta_from_axes(low, rho_base, rho_base, min(1.0, omega + 5e-5))
        smallest = min([*corners, inside] if abs(rho_base - rho_variant) <= 0.01 else corners)
        assert smallest - 1e-4 <= delta <= max(corners) + 1e-4, row


def test_spearman_of_bound_and_gap(shared: Path) -> None:
    table = rows(shared, "prism_decomposition.csv")
    published = rows(shared, "prism_spearman.csv")
    errors, exact = [], 0
    for cell in published:
        here = [row for row in table if (row["model"], row["dataset"]) == (cell["model"], cell["dataset"])]
        gaps = [float(row["abs_risk_gap"]) for row in here]
        found = ranking({"bound": [float(row["bound"]) for row in here]}, gaps).spearman["bound"]
        errors.append(abs(found - float(cell["published_rs"])))
        exact += round(found, 2) == float(cell["published_rs"])
    assert exact >= 19
    assert np.mean(errors) <= 0.019


def test_table_1_of_the_direction_paper(shared: Path) -> None:
    for row in rows(shared, "direction_floor_table1.csv"):
        # n = 256 per class, d = 1536 (NOTES.md); rho is printed to two decimals.
        kappa = class_kappa(float(row["rho"]), 256, 1536)
        assert kappa == pytest.approx(float(row["kappa"]), abs=0.15)
        assert floor_half_split(kappa) == pytest.approx(float(row["floor_eq1"]), abs=5.1e-5)
        naive = float(row["rho_naive"])
        assert np.sqrt(naive**2 - 2 * 1536 / 256) == pytest.approx(float(row["rho"]), abs=0.011)


def test_table_2_of_the_direction_paper(shared: Path) -> None:
    for row in rows(shared, "direction_floor_table2.csv"):
        placed = place_published_cosine(0.996, 61.33, 4096, int(row["n"]), measured_d=1536)
        for carried, name in ((placed.constant_rho, "A"), (placed.constant_effect, "B")):
            assert carried.floor_half_split == pytest.approx(float(row[f"{name}_floor"]), abs=5.1e-5)
            assert carried.margin_half_split == pytest.approx(float(row[f"{name}_margin"]), abs=5.1e-5)


def test_table_3_of_the_direction_paper(shared: Path) -> None:
    for row in rows(shared, "direction_floor_table3.csv"):
        verdict = paper_verdict(float(row["cos_to_fp16"]), float(row["own_null"]), float(row["own_null_sd"]))
        assert verdict == row["verdict"].replace(" ", "_")
        kappa = class_kappa(61.33, 89, 1536)
        assert floor_half_split(kappa) == pytest.approx(float(row["floor_eq1"]), abs=5.1e-5)


# (d, kappa): the range of the paper's models, kappa from .77 to 627.
SETTINGS = [
    (256, 0.77), (256, 4.0), (256, 627.0), (576, 0.77), (576, 20.0), (576, 125.0), (1024, 1.5), (1024, 60.0),
    (1536, 8.0), (2048, 196.0), (4096, 627.0),
]  # fmt: skip


@pytest.mark.parametrize(("d", "kappa"), SETTINGS)
def test_the_closed_forms_describe_the_pairing_they_name(d: int, kappa: float) -> None:
    rng, draws, n = np.random.default_rng(5), 200_000, 128
    rho = np.sqrt(kappa * d / n)

    def mean_cosine(size: int) -> float:
        """Of two differences of class means of `size` unit Gaussians each, drawn through sufficient statistics."""
        noise = np.sqrt(2 / size)
        along = rho + noise * rng.standard_normal((2, draws))
        across = noise * np.sqrt(rng.chisquare(d - 1, (2, draws)))
        # The cosine of two random directions in d - 1 dimensions.
        share = rng.beta(0.5, (d - 2) / 2, draws)
        angle = np.sqrt(share) * rng.choice([-1.0, 1.0], draws)
        lengths = np.sqrt(along**2 + across**2)
        return float(((along[0] * along[1] + angle * across[0] * across[1]) / (lengths[0] * lengths[1])).mean())

    # Monte Carlo adds a standard error below .0002.
    assert mean_cosine(n // 2) == pytest.approx(floor_half_split(kappa), abs=0.0016)
    assert mean_cosine(n) == pytest.approx(floor_independent(kappa), abs=0.0016)
    # Each form is of its own pairing: the other one misses where noise matters.
    if kappa < 100:
        assert abs(mean_cosine(n) - floor_half_split(kappa)) > 0.0016
