"""For each metric: inputs that work, made from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubaudit.modules.install import METRICS

__all__ = ["METRICS", "inputs_of", "rows_of"]


def inputs_of(name: str) -> dict[str, Any]:
    """Inputs of one metric, everything that it takes among them."""
    rng = np.random.default_rng(7)
    if name == "correctness_agreement":
        base, variant = (rng.choice(list("ABC"), 40).tolist() for _ in range(2))
        return {
            "predictions": [None, *variant[1:]],
            "base_predictions": base,
            "references": ["A"] * 40,
            "subjects": ["law", "art"] * 20,
            "item_ids": [f"q{i}" for i in range(40)],
        }
    if name == "direction_floor":
        labels = np.arange(24) % 2
        base = rng.normal(size=(24, 6)) + 2.0 * labels[:, None]
        return {"predictions": base + 0.1 * rng.normal(size=base.shape), "references": base, "labels": labels}
    if name == "prism_bound":
        base = rng.normal(size=(30, 5)).astype(np.float32)
        return {
            "predictions": base + np.float32(0.1) * rng.normal(size=base.shape).astype(np.float32),
            "references": base,
            "labels": rng.integers(0, 11, 30),
            "item_ids": [f"item {i // 4}" for i in range(30)],
            "base_head": rng.normal(size=(11, 5)).astype(np.float32),
            "variant_head": rng.normal(size=(11, 5)).astype(np.float32),
            "base_bias": rng.normal(size=11).astype(np.float32),
            "variant_bias": rng.normal(size=11).astype(np.float32),
            "scale": 0.5,
            "weights": "item",
        }
    labels = np.arange(40) % 2
    features = rng.normal(size=(40, 3)) + labels[:, None]
    return {
        "predictions": features.sum(axis=1) + 0.2 * rng.normal(size=40),
        "references": features.sum(axis=1),
        "labels": labels,
        "base_features": features,
        "variant_features": features + 0.1,
        "threshold": 1.5,
    }


def rows_of(name: str, columns: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same, split into inputs with one entry a row and options."""
    inputs, names = inputs_of(name), {column.name for column in columns}
    rows = {key: value for key, value in inputs.items() if key in names}
    return rows, {key: value for key, value in inputs.items() if key not in names}
