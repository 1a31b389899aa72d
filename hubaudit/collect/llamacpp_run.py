"""Run a plan through llama.cpp and store what it leaves beside the evidence of the dense engine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import torch

from hubaudit.collect.evidence import Evidence, ModelFacts
from hubaudit.collect.forward import BatchOutput
from hubaudit.collect.llamacpp_context import Context, Outputs
from hubaudit.collect.llamacpp_forward import forward_sequences, longest_slot
from hubaudit.collect.plan import Plan, PlannedSequence
from hubaudit.collect.score import OptionScorer, gold_rows
from hubaudit.collect.shared_prefix import NOTE_BEGINS, check_shared_prefix
from hubaudit.errors import NonFiniteError, VariantError
from hubaudit.load.gguf import EXPANDED_NOTE
from hubaudit.load.llamacpp import LlamaCppModel
from hubaudit.load.llamacpp_library import library_version
from hubaudit.load.memory import memory_guard

__all__ = ["collect_llamacpp"]

# Numbers that llama.cpp's kernels round together when they quantize activations, by the weights' type.
_BLOCK_OF_K = 256
_BLOCK = 32
_FLOATS = {"F32": 2.0**-20, "F16": 2.0**-11, "BF16": 2.0**-8}
_CHECKED_POSITIONS = 16


def collect_llamacpp(
    model: LlamaCppModel,
    evidence: Evidence,
    facts: ModelFacts,
    *,
    batch_tokens: int,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Fill an evidence entry with features and answers of llama.cpp.

    Log-likelihoods and predictions come from llama.cpp's own logits, features from the input of its head; hidden
    states of the blocks are not available and stay empty. Token ids are the base's; nothing is added to them.

    Args:
        model: The model.
        evidence: Where to store; shards that are there already are not run again.
        facts: Those of the dense engine on the same file.
        batch_tokens: Most tokens of a call.
        advance: Called with the number of tokens after every call.

    Raises:
        VariantError: If a token id lies outside the vocabulary, or head and features do not give its logits.
        NonFiniteError: If features hold NaN or infinity.
        OutOfMemoryError: If it does not fit.
        OutOfDiskError: If the evidence does not fit on the disk.
    """
    plan = evidence.plan
    if plan.max_token_id >= model.n_vocabulary:
        raise VariantError(
            f"{model.source.spec}: llama.cpp reads {model.n_vocabulary} tokens, but the base's prompts use token id "
            f"{plan.max_token_id}; the vocabularies do not match"
        )
    scored = [sequence for sequence in plan.sequences if sequence.scored]
    with memory_guard(f"{model.source.spec} in llama.cpp"):
        context = Context(model, longest=longest_slot(scored), batch_tokens=batch_tokens)
        try:
            check = check_shared_prefix(
                dataclasses.replace(plan, sequences=tuple(scored)),
                lambda sequences, shared: _features(context, plan, sequences, shared=shared),
                head=model.head,
                dtype=model.rounding,
            )
            heads = _HeadCheck(model)
            heads.update(next(forward_sequences(context, scored[:1], shared=False))) if scored else None
            for shard in range(len(plan.shards)):
                sequences = plan.shard_sequences(shard)
                if evidence.has_shard(shard):
                    advance(sum(len(sequence.input_ids) for sequence in sequences))
                    continue
                outputs = forward_sequences(context, sequences, shared=check.allowed, advance=advance)
                evidence.write_shard(shard, _shard(model, plan, sequences, outputs))
        finally:
            context.close()
    of_file = [note for note in facts.notes if note != EXPANDED_NOTE and not note.startswith(NOTE_BEGINS)]
    notes = [*of_file, *model.notes, *([check.note] if check.note else []), _NOTE]
    if facts.dtype != "float32":
        notes.append(_ROUNDED.format(dtype=facts.dtype))
    evidence.finish(
        dataclasses.replace(
            facts,
            engine=f"llama.cpp (llama-cpp-python {library_version()})",
            dtype=model.dtype,
            check_max_difference=heads.difference,
            check_tolerance=heads.tolerance,
            notes=tuple(dict.fromkeys(notes)),
        ),
        model.head,
    )


_NOTE = (
    "llama.cpp ran the file itself: answers come from its logits; risks, KL and the bound from its features and the "
    "dense expansion of the head. It shows no hidden layers: directions and monitor are those of the dense engine."
)
_ROUNDED = (
    "The dense engine computes in {dtype}, so the engine's part of the drift holds that rounding too; --dtype float32 "
    "leaves llama.cpp's arithmetic alone."
)


def _features(context: Context, plan: Plan, sequences: Sequence[PlannedSequence], *, shared: bool) -> BatchOutput:
    n_rows = sum(len(sequence.scored_positions) for sequence in sequences)
    features = torch.empty((n_rows, context.model.width))
    for outputs in forward_sequences(context, sequences, shared=shared):
        features[torch.from_numpy(outputs.rows)] = outputs.features
    return BatchOutput(features, torch.empty((0, len(plan.layers), 0)))


def _shard(
    model: LlamaCppModel, plan: Plan, sequences: Sequence[PlannedSequence], outputs: Iterator[Outputs]
) -> dict[str, torch.Tensor]:
    scorer = OptionScorer(sequences)
    features = torch.empty((scorer.n_rows, model.width))
    for part in outputs:
        features[torch.from_numpy(part.rows)] = part.features
        if not (torch.isfinite(part.features).all() and torch.isfinite(part.logits).all()):
            raise NonFiniteError(
                f"{model.source.spec}: features or logits of llama.cpp are NaN or infinite; try --engine-gguf dense, "
                "which names the block where it begins"
            )
        scorer.update(part.rows, part.logits)
    scores = scorer.scores()
    return {
        "features": features[torch.from_numpy(gold_rows(sequences))],
        "log_likelihood": torch.from_numpy(scores.log_likelihood),
        "predicted_ids": torch.from_numpy(scores.predicted_ids),
        "hidden": torch.zeros((0, len(plan.layers), 0)),
    }


class _HeadCheck:
    """How well the dense head reproduces llama.cpp's own logits, against what rounding explains.

    llama.cpp rounds the features to the partner type of the head's weights: blocks of 8-bit integers for a quantized
    head, float16 or bfloat16 for a plain one. With a rounding error e of the features, no logit moves by more than
    `|scale| max_j ||h_j|| ||e||` (Cauchy and Schwarz; a soft cap only shrinks it). The dense head is itself rounded to
    its dtype, at most eps/2 of each number.
    """

    def __init__(self, model: LlamaCppModel) -> None:
        self.model = model
        self.difference, self.tolerance = 0.0, 0.0

    def update(self, outputs: Outputs) -> None:
        """Check some positions.

        Raises:
            VariantError: If the difference is larger than rounding explains.
        """
        head, spec = self.model.head, self.model.source.spec
        z = outputs.features[:_CHECKED_POSITIONS].double()
        own = outputs.logits[:_CHECKED_POSITIONS]
        ours = head.logits(z.float()).cpu()
        row_norm = float(torch.linalg.vector_norm(head.weight, dim=1, dtype=torch.float32).max())
        dense = float(torch.finfo(head.weight.dtype).eps) / 2 + 2.0**-20
        error = (_rounding(z, self.model.head_type) + dense * z.norm(dim=1)).max()
        self.difference = float((ours - own).abs().max())
        self.tolerance = abs(head.scale) * row_norm * float(error)
        if not self.difference <= self.tolerance:
            raise VariantError(
                f"{spec}: expected head(features) to equal llama.cpp's logits to {self.tolerance:.3g}, got a "
                f"difference of {self.difference:.3g}. This architecture cannot be audited with --engine-gguf llamacpp."
            )


def _rounding(z: torch.Tensor, head_type: str) -> torch.Tensor:
    """(rows,) largest norm of what rounding the features may take away."""
    if head_type in _FLOATS:
        return _norms(z) * _FLOATS[head_type]
    of_k = head_type.endswith("_K") or head_type.startswith(("IQ", "TQ"))
    size = _BLOCK_OF_K if of_k and head_type != "IQ4_NL" else _BLOCK
    blocks = torch.nn.functional.pad(z, (0, -z.shape[1] % size)).reshape(len(z), -1, size)
    # A step is the largest number over 127; rounding takes half of it away, the step's own float16 2^-11 of the rest.
    per_number = blocks.abs().amax(dim=2) * (0.5 / 127 + 2.0**-11)
    return _norms(per_number) * math.sqrt(size)


def _norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms
