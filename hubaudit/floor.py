"""The compute floor: how far the base differs from itself when only the computation changes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from hubaudit.collect import Evidence, Plan, build_plan
from hubaudit.compare import Drift, Weights, compare_answers, compare_features, read_answers
from hubaudit.report.schema import ComputeFloor, Floor
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.tasks import TokenizedTask

__all__ = ["floor_figures", "floor_plans"]

ITEMS_PER_TASK = 8
PROMPTS_PER_CLASS = 16


def floor_plans(plan: Plan, batch_tokens: int) -> dict[str, Plan]:
    """The plans of the sample: once as usual, once one by one, once more for the other dtype.

    Args:
        plan: The audit's plan; the sample is spread evenly over its items and prompts.
        batch_tokens: Tokens of a batch.
    """
    tasks = [_sampled(task) for task in plan.tasks]
    prompts = plan.prompt_texts()
    chosen = [prompts[index] for index in sampled_prompts(len(prompts))]
    sample = build_plan(tasks, chosen, batch_tokens=batch_tokens, layers=plan.layers)
    return {"reference": sample, "batch": sample.one_by_one(), "dtype": sample}


def sampled_prompts(n_prompts: int) -> list[int]:
    """Which prompts of the contrast set belong to the sample, spread evenly over both classes."""
    return _spread(n_prompts, 2 * PROMPTS_PER_CLASS)


def _sampled(task: TokenizedTask) -> TokenizedTask:
    chosen = _spread(len(task.items), ITEMS_PER_TASK)
    return dataclasses.replace(task, items=tuple(task.items[index] for index in chosen))


def _spread(n: int, wanted: int) -> list[int]:
    return sorted({round(index) for index in np.linspace(0, n - 1, min(n, wanted)).tolist()}) if n else []


def floor_figures(
    entries: dict[str, Evidence],
    labels: npt.NDArray[np.int64] | None,
    weights: Weights,
    seed: int,
    other_dtype: str,
    *,
    k_feat: float,
) -> ComputeFloor:
    """Compare the sample's evidence with itself.

    Args:
        entries: Complete evidence for each of the plans of `floor_plans`.
        labels: Classes of all contrast prompts, or None.
        weights: As in the audit.
        seed: As in the audit.
        other_dtype: Name of the dtype of the entry `dtype`.
        k_feat: Diameter of the base's head.
    """
    reference = entries["reference"]
    answers = read_answers(reference)
    blocks = {}
    for way in ("batch", "dtype"):
        agreement = compare_answers(answers, read_answers(entries[way]), reference.plan, seed=seed)
        features = compare_features(reference, entries[way], weights=weights, k_feat=k_feat)
        blocks[way] = {
            task.name: _floor(len(task.items), task.headline_metric, features[task.name], agreement.get(task.name))
            for task in reference.plan.tasks
        }
    return ComputeFloor(
        other_dtype=other_dtype,
        batch=blocks["batch"],
        dtype=blocks["dtype"],
        direction_degrees=_angles(entries, labels),
    )


def _floor(
    n_items: int,
    metric: str,
    drift: Drift,
    agreement: dict[str, CorrectnessAgreement] | None,
) -> Floor:
    bound, block = drift.bound, drift.divergence
    return Floor(
        n_items=n_items,
        bound=bound.bound,
        d_mean_square=bound.d_mean_square,
        kl=block.kl,
        risk_gap=abs(bound.risk_gap) if bound.risk_gap is not None else None,
        flips=agreement[metric].regressions + agreement[metric].recoveries if agreement else None,
    )


def _angles(entries: dict[str, Evidence], labels: npt.NDArray[np.int64] | None) -> dict[int, float | None]:
    """Degrees between the sample's directions in the two dtypes, by layer."""
    if labels is None:
        return {}
    chosen = labels[sampled_prompts(len(labels))]
    layers = entries["reference"].plan.layers
    directions = [
        hidden[chosen == 1].mean(axis=0) - hidden[chosen == 0].mean(axis=0)
        for hidden in (entries[way].hidden().astype(np.float64) for way in ("reference", "dtype"))
    ]
    found: dict[int, float | None] = {}
    for index, layer in enumerate(layers):
        one, other = (direction[index] for direction in directions)
        lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
        cosine = min(1.0, float(one @ other) / lengths) if lengths > 0 else None
        found[layer] = math.degrees(math.acos(cosine)) if cosine is not None else None
    return found
