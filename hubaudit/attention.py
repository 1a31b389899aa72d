"""Which of a variant's attention projections matters: each swapped alone into the base, and what that changes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from hubaudit.collect.attention import collect_swaps, show_attention
from hubaudit.collect.plan import Plan, build_plan
from hubaudit.errors import InputError, VariantError
from hubaudit.load.memory import memory_guard
from hubaudit.load.projection_names import place_of, split
from hubaudit.load.swap import Key, projection_shapes
from hubaudit.load.weight_reader import open_weights
from hubaudit.progress import Progress, Silent, short_spec
from hubaudit.report.attention_block import AttentionSensitivity, SwapEffect
from hubaudit.stats.sensitivity import FIGURES, SwapSums, estimate_figure, sensitivity_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubaudit.load import LoadedModel
    from hubaudit.load.model import ModelSource
    from hubaudit.tasks import TokenizedTask

__all__ = ["PARTS", "compare_attention", "gold_plan"]

PARTS = ("q", "k", "v", "o")
_UPPER, _LOWER = ("q", "k"), ("v", "o")

Matrices = dict[Key, torch.Tensor]


def gold_plan(tasks: Sequence[TokenizedTask], *, batch_tokens: int) -> Plan:
    """The gold text of every item, each in full.

    Args:
        tasks: Tokenized tasks.
        batch_tokens: Tokens of a batch, padding included.
    """
    gold = [
        dataclasses.replace(
            task,
            items=tuple(dataclasses.replace(item, options=(item.options[item.gold],), gold=0) for item in task.items),
        )
        for task in tasks
    ]
    return build_plan(gold, (), batch_tokens=batch_tokens, layers=())


def compare_attention(
    model: LoadedModel,
    variant: ModelSource,
    plan: Plan,
    *,
    progress: Progress | None = None,
) -> AttentionSensitivity:
    """Swap q, k, v and o of a variant into its base, one block at a time and all blocks at once.

    Args:
        model: The base, with plain weights; its attention is switched to one that shows its weights.
        variant: The variant's files; only its attention projections are read.
        plan: Of `gold_plan`.
        progress: Is told of every pass.

    Returns:
        Effects with intervals over items, and the ratio of q and k to v and o.

    Raises:
        VariantError: If no projection has a counterpart, the model shows no attention weights, or the control swap of
            the base into itself is not exactly 0.
        HubAuditError: As `open_weights`.
    """
    progress = progress or Silent()
    if not plan.sequences:
        raise InputError("expected at least one item, got none; name a task with --tasks")
    show_attention(model)
    own = projection_shapes(model.model, PARTS)
    if not own:
        raise VariantError(
            f"{model.source.spec}: expected q, k, v and o projections in its blocks, got none; the attention of "
            "state-space models and of models with unusual names cannot be compared"
        )
    with memory_guard(f"the attention weights of {variant.spec}"):
        matrices, reasons = _read(variant, model, own)
        control = _read(model.source, model, own)[0]
    if not matrices:
        reason = next(iter(reasons.values()), "no projection was found")
        raise VariantError(f"{variant.spec}: no attention projection can be swapped into the base: {reason}")
    parts = [part for part in PARTS if any(key[1] == part for key in matrices)]
    overall = [{key: value for key, value in matrices.items() if key[1] == part} for part in parts]
    keys = sorted(matrices, key=lambda key: (key[0], PARTS.index(key[1])))
    middle = {key: value for key, value in control.items() if key[0] == max(control)[0] // 2}
    swaps = [control, middle, *overall, *({key: matrices[key]} for key in keys)]
    progress.begin(f"swapping {short_spec(variant.spec)}", plan.n_tokens * len(swaps))
    try:
        with memory_guard(f"the attention of {model.source.spec}"):
            whole, part_of_it, *sums = collect_swaps(model, plan, swaps, advance=progress.advance)
    finally:
        progress.end()
    for entry in (whole, part_of_it):
        _check_control(entry, model)
    by_part = dict(zip(parts, sums, strict=False))
    upper, lower = ([by_part[part] for part in group if part in by_part] for group in (_UPPER, _LOWER))
    return AttentionSensitivity(
        n_items=len(whole.positions),
        n_positions=int(whole.positions.sum()),
        n_tokens=int(whole.tokens.sum()),
        dtype=model.dtype,
        control=_effect(None, "+".join(PARTS), whole),
        overall=[_effect(None, part, entry) for part, entry in by_part.items()],
        rows=[_effect(*key, entry) for key, entry in zip(keys, sums[len(parts) :], strict=True)],
        ratio={name: sensitivity_ratio(upper, lower, name) for name in FIGURES} if upper and lower else {},
        not_swapped=reasons,
        notes=list(model.notes),
    )


def _read(source: ModelSource, model: LoadedModel, own: dict[Key, torch.Size]) -> tuple[Matrices, dict[str, str]]:
    """A model's attention projections in the run's dtype, and why some of the base's have none."""
    dtype = getattr(torch, model.dtype)
    weights = open_weights(source, model.source)
    found: Matrices = {}
    reasons: dict[str, str] = {}
    for name, read in weights.readers.items():
        place = place_of(name)
        if place is None or place.layer is None or not set(place.parts) & set(PARTS):
            continue
        for part, matrix in split(read(), place, weights.config).items():
            key = place.layer, part
            if key not in own:
                reasons[f"{part} of block {place.layer}"] = "the base has no such projection"
            elif matrix.shape != own[key]:
                reasons[f"{part} of block {place.layer}"] = (
                    f"expected the base's shape {list(own[key])}, got {list(matrix.shape)}"
                )
            else:
                found[key] = matrix.to(dtype, copy=True)
    for layer, part in own:
        if (layer, part) not in found:
            reasons.setdefault(f"{part} of block {layer}", "the variant has none: pruned, or under another name")
    return found, reasons


def _check_control(sums: SwapSums, model: LoadedModel) -> None:
    if sums.attention_kl.any() or sums.kl.any() or sums.drift.any():
        raise VariantError(
            f"{model.source.spec}: the base with its own projections swapped in differs from itself, so this machine "
            "does not repeat a pass; try --dtype float32 or --device cpu"
        )


def _effect(layer: int | None, projection: str, sums: SwapSums) -> SwapEffect:
    return SwapEffect(layer=layer, projection=projection, **{name: estimate_figure(sums, name) for name in FIGURES})
