"""A batch of planned sequences as tensors: ids, and where branches share a prefix, positions and mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from hubaudit.collect.plan import PlannedSequence

__all__ = ["ModelInputs", "packed_inputs", "plain_paths"]

PAD_ID = 0
PAD_BRANCH = -1


@dataclasses.dataclass(frozen=True)
class ModelInputs:
    """What a model is called with."""

    input_ids: torch.Tensor
    """(rows, length), padded at the right."""
    position_ids: torch.Tensor | None = None
    """(rows, length), or None for 0, 1, 2, ..."""
    attention_mask: torch.Tensor | None = None
    """(rows, 1, length, length), 0 where a token sees another and the lowest number elsewhere; None for causal."""


def packed_inputs(sequences: Sequence[PlannedSequence], *, dtype: torch.dtype, device: torch.device) -> ModelInputs:
    """Tensors for sequences of about equal length.

    Padding comes last and attention is causal, so no real token sees it. A mask is made only where a sequence
    has branches: plain batches keep the fast causal kernels.

    Args:
        sequences: At least one.
        dtype: Of the mask: the model's own.
        device: Of the model.
    """
    length = max(len(sequence.input_ids) for sequence in sequences)
    ids = torch.full((len(sequences), length), PAD_ID, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence.input_ids)] = torch.tensor(sequence.input_ids, dtype=torch.long)
    if not any(sequence.branches for sequence in sequences):
        return ModelInputs(ids.to(device))
    positions = torch.arange(length).repeat(len(sequences), 1)
    branch = torch.zeros((len(sequences), length), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        branch[row, len(sequence.input_ids) :] = PAD_BRANCH
        for number, (start, stop) in enumerate(sequence.branches, start=1):
            branch[row, start:stop] = number
            positions[row, start:stop] -= start - sequence.prefix_length
    causal = torch.ones((length, length), dtype=torch.bool).tril()
    seen = causal & ((branch[:, None, :] == 0) | (branch[:, None, :] == branch[:, :, None]))
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
    return ModelInputs(ids.to(device), positions.to(device), mask[:, None].to(device))


def plain_paths(sequence: PlannedSequence) -> tuple[list[PlannedSequence], list[tuple[int, int]]]:
    """A packed sequence as the separate texts it stands for.

    Returns:
        The texts, and for every packed position the text and the position in it that compute the same.
    """
    if not sequence.branches:
        return [sequence], [(0, position) for position in range(len(sequence.input_ids))]
    prefix = sequence.input_ids[: sequence.prefix_length]
    texts = [PlannedSequence(prefix + sequence.input_ids[start:stop]) for start, stop in sequence.branches]
    places = [(0, position) for position in range(len(prefix))]
    for number, (start, stop) in enumerate(sequence.branches):
        places += [(number, len(prefix) + offset) for offset in range(stop - start)]
    return texts, places
