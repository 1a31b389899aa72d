"""Run a plan through a model and store what it leaves, continuing where an earlier run stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from hubaudit.collect.evidence import Evidence, ModelFacts
from hubaudit.collect.forward import forward_batch
from hubaudit.collect.plan import Plan
from hubaudit.collect.score import gold_rows, score_options
from hubaudit.collect.shared_prefix import SharedPrefixCheck, check_shared_prefix
from hubaudit.errors import VariantError
from hubaudit.load import LoadedModel
from hubaudit.load.memory import memory_guard

__all__ = ["collect", "model_facts"]


def collect(
    model: LoadedModel,
    evidence: Evidence,
    facts: ModelFacts,
    *,
    check: SharedPrefixCheck | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> SharedPrefixCheck:
    """Fill an evidence entry.

    Args:
        model: The model.
        evidence: Where to store; shards that are there already are not run again.
        facts: What the report says about the model.
        check: Whether shared prefixes are computed once, as found for this model before; None checks it.
        advance: Called with the number of tokens after every batch.

    Returns:
        The check.

    Raises:
        VariantError: If a token id lies outside the model's vocabulary, or a feature is not finite.
        OutOfMemoryError: If a batch does not fit.
        OutOfDiskError: If the evidence does not fit on the disk.
    """
    plan = evidence.plan
    rows = model.head.weight.shape[0]
    if plan.max_token_id >= rows:
        raise VariantError(
            f"{model.source.spec}: the head has {rows} tokens, but the base's prompts use token id "
            f"{plan.max_token_id}; the vocabularies do not match"
        )
    with memory_guard(f"a batch of {model.source.spec}"):
        check = check or check_shared_prefix(
            plan,
            lambda sequences, shared: forward_batch(model, sequences, plan.layers, shared=shared),
            head=model.head,
            dtype=model.dtype,
        )
        for shard in range(len(plan.shards)):
            if evidence.has_shard(shard):
                advance(sum(len(sequence.input_ids) for sequence in plan.shard_sequences(shard)))
                continue
            evidence.write_shard(shard, _run_shard(model, plan, shard, advance, shared=check.allowed))
    if check.note:
        facts = dataclasses.replace(facts, notes=(*facts.notes, check.note))
    evidence.finish(facts, model.head)
    return check


def _run_shard(
    model: LoadedModel, plan: Plan, shard: int, advance: Callable[[int], None], *, shared: bool
) -> dict[str, torch.Tensor]:
    features, hidden = [], []
    for batch in plan.shard_batches(shard):
        output = forward_batch(model, batch, plan.layers, shared=shared)
        features.append(output.features)
        if output.hidden.shape[0]:
            hidden.append(output.hidden)
        advance(sum(len(sequence.input_ids) for sequence in batch))
    sequences = plan.shard_sequences(shard)
    scored = torch.cat(features)
    scores = score_options(scored, sequences, model.head)
    return {
        "features": scored[torch.from_numpy(gold_rows(sequences))],
        "log_likelihood": torch.from_numpy(scores.log_likelihood),
        "predicted_ids": torch.from_numpy(scores.predicted_ids),
        "hidden": torch.cat(hidden) if hidden else torch.zeros((0, len(plan.layers), 0)),
    }


def model_facts(model: LoadedModel, content_id: str) -> ModelFacts:
    """What the report says about a loaded model."""
    # A parameter that several modules share is one parameter.
    n_parameters = sum(parameter.numel() for parameter in model.model.parameters())
    return ModelFacts(
        content_id=content_id,
        format=model.format,
        engine=model.engine,
        dtype=model.dtype,
        n_parameters=n_parameters,
        n_layers=len(model.layers),
        quantized_fraction=model.quantized_fraction,
        bits_per_weight=model.bits_per_weight,
        size_bytes=model.size_bytes,
        weight_error=model.weight_error,
        head_tied=model.head.tied,
        head_quantized=model.head.quantized,
        head_scale=model.head.scale,
        head_softcap=model.head.softcap,
        check_max_difference=model.head_check.max_abs_difference,
        check_tolerance=model.head_check.tolerance,
        notes=tuple(model.notes),
    )
