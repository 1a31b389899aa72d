"""The base as the reference set sees it: computed once, kept for a run that resumes."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from hubaudit.errors import InputError
from hubaudit.files import write_file
from hubaudit.stats.shape_drift import SequenceSums
from hubaudit.train.penalty import evaluating, reference_features
from hubaudit.train.reference import Reference

__all__ = ["STATE_FILE", "State", "as_base", "load_state", "measure", "save_state"]

STATE_FILE = "shape_reference.safetensors"
_BATCH = 8


@dataclasses.dataclass(frozen=True)
class State:
    """Features and losses of one model on one set of sequences, on the CPU."""

    features: torch.Tensor
    """(tokens, d), in the model's dtype."""
    losses: torch.Tensor
    """Cross-entropy summed over each sequence's predicted tokens, in nats, (sequences,), float64."""


@torch.no_grad()
def measure(model: Any, reference: Reference, device: torch.device) -> State:
    """Features and losses of a model as it is, without dropout, eight sequences at a time."""
    features, losses = [], []
    with evaluating(model):
        for start in range(0, len(reference.input_ids), _BATCH):
            rows = slice(start, start + _BATCH)
            part = Reference(reference.input_ids[rows], reference.attention_mask[rows]).to(device)
            features.append(reference_features(model, part).cpu())
            losses.append(_losses(model, part))
    return State(torch.cat(features), torch.cat(losses))


def _losses(model: Any, part: Reference) -> torch.Tensor:
    output = model(input_ids=part.input_ids, attention_mask=part.attention_mask, use_cache=False)
    logits = output["logits"] if isinstance(output, dict) else output[0]
    rows = torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2).float(), part.labels[:, 1:], reduction="none"
    )
    return rows.double().sum(1).cpu()


def sequence_sums(reference: Reference, base: State, now: State) -> SequenceSums:
    """What each sequence adds to the moments of both."""
    lengths = reference.attention_mask.sum(1).tolist()
    parts = ([row.double().numpy() for row in torch.split(state.features, lengths)] for state in (base, now))
    return SequenceSums.of(*parts)


@contextlib.contextmanager
def as_base(model: Any) -> Any:
    """The model without its adapters, where it has any."""
    disable = getattr(model, "disable_adapter", None)
    with disable() if callable(disable) else contextlib.nullcontext():
        yield


def save_state(folder: Path, state: State, reference: Reference) -> None:
    """Write the base's state beside the checkpoints."""
    tensors = {"features": state.features.contiguous(), "losses": state.losses.contiguous()}
    write_file(folder / STATE_FILE, safetensors.torch.save(tensors, {"reference": reference.digest}))


def load_state(folder: Path, reference: Reference) -> State | None:
    """What `save_state` wrote; None where there is nothing.

    Raises:
        InputError: If the file belongs to another reference set, or cannot be read.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, "pt") as file:
            digest = (file.metadata() or {}).get("reference")
            state = State(file.get_tensor("features"), file.get_tensor("losses"))
    except (safetensors.SafetensorError, OSError) as exc:
        raise InputError(f"{path}: cannot be read ({exc}); remove it and start the run anew") from exc
    if digest != reference.digest or len(state.features) != reference.n_tokens:
        raise InputError(
            f"{path}: belongs to another reference set; resume with the reference set that the run began with, or "
            "start it in another output_dir"
        )
    return state


def predicted_tokens(reference: Reference) -> Any:
    """Tokens of each sequence that have a token before them, (sequences,)."""
    return np.maximum(reference.attention_mask.sum(1).double().numpy() - 1, 0)
