"""A GGUF variant's drift in two steps: its weights expanded to dense ones, then llama.cpp's arithmetic on them."""

from __future__ import annotations

from hubaudit.collect import Evidence
from hubaudit.compare import Answers, Drift, Weights, compare_answers, compare_features, read_answers
from hubaudit.report.schema import EngineSplit, EngineStep
from hubaudit.stats.correctness_agreement import CorrectnessAgreement

__all__ = ["Features", "split_engine"]

Features = dict[str, Drift]
Agreement = dict[str, dict[str, CorrectnessAgreement]]


def split_engine(
    base: Evidence,
    dense: Evidence,
    engine: Evidence,
    *,
    answers: list[Answers],
    total: tuple[Features, Agreement],
    weights: Weights,
    seed: int,
    k_feat: float,
) -> EngineSplit:
    """Compare base, dense expansion and llama.cpp two by two, on the same tokens.

    The risk gaps of the two steps add up to the whole; distances and divergences do not.

    Args:
        base: The base's evidence.
        dense: That of the file's weights, expanded, in the dense engine.
        engine: That of the same file in llama.cpp.
        answers: The base's.
        total: What base and llama.cpp differ by, computed already.
        weights: As in the audit.
        seed: As in the audit.
        k_feat: Diameter of the base's head.
    """
    plan = base.plan
    dense_answers, engine_answers = read_answers(dense), read_answers(engine)
    steps = {
        "weights": (
            compare_features(base, dense, weights=weights, k_feat=k_feat),
            compare_answers(answers, dense_answers, plan, seed=seed),
        ),
        "engine_step": (
            compare_features(dense, engine, weights=weights, k_feat=dense.k_feat),
            compare_answers(dense_answers, engine_answers, plan, seed=seed),
        ),
        "total": total,
    }
    metrics = {task.name: task.headline_metric for task in plan.tasks}
    blocks = {
        name: {task: _step(drift, agreement.get(task, {}).get(metrics[task])) for task, drift in features.items()}
        for name, (features, agreement) in steps.items()
    }
    return EngineSplit(engine=engine.facts.engine, dense_dtype=dense.facts.dtype, **blocks)


def _step(drift: Drift, agreement: CorrectnessAgreement | None) -> EngineStep:
    bound, block = drift.bound, drift.divergence
    reasons = {name: why for name, why in {**block.reasons, **bound.reasons}.items() if name in EngineStep.model_fields}
    return EngineStep(
        n_items=bound.n_items,
        n_tokens=bound.n_tokens,
        d_mean_square=bound.d_mean_square,
        omega=bound.omega,
        bound=bound.bound,
        kl=block.kl,
        kl_se=block.kl_se,
        top1_agreement=block.top1_agreement,
        risk_gap=bound.risk_gap,
        answers_changed=None if agreement is None else agreement.churn_rate,
        reasons=reasons if agreement is not None else {**reasons, "answers_changed": "the task has no answers"},
    )
