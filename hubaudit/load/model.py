"""What a loader is given and what it returns: sources, loaded models, and the check of their head."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from hubaudit.hub.source import ModelSource

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

    from hubaudit.stats.head import Head

__all__ = ["BaseContext", "HeadCheck", "LoadedModel", "ModelSource"]


@dataclasses.dataclass(frozen=True)
class HeadCheck:
    """How well `head.logits(z)` reproduces the model's own logits on a probe batch."""

    max_abs_difference: float
    """Largest absolute difference between the two, in logits."""
    tolerance: float
    """What rounding in the model's dtype explains, in logits; a larger difference is an error."""
    n_positions: int
    """Token positions compared, each over the whole vocabulary."""
    scale: float
    """Multiplier of the raw head output that was measured, 1 where there is none."""
    softcap: float | None
    """Soft cap c of `c * tanh(v / c)` that was measured, None where there is none."""


@dataclasses.dataclass(frozen=True)
class BaseContext:
    """The base model as a variant is built from it: its configuration and its folder."""

    config: PretrainedConfig
    folder: Path

    @classmethod
    def from_folder(cls, folder: Path, *, trust_remote_code: bool = False) -> BaseContext:
        """Read the base's config.json.

        Raises:
            ModelFileError: If the folder or its config.json is missing or unreadable.
            InputError: If the configuration needs remote code that was not asked for.
        """
        from hubaudit.load.folder import read_config

        return cls(read_config(folder, trust_remote_code=trust_remote_code), folder)


@dataclasses.dataclass
class LoadedModel:
    """A model ready for forward passes, with what a report says about it."""

    source: ModelSource
    format: str
    """`safetensors`, `gguf:Q4_0` (the type most parameters have), `bnb:nf4`, `rtn:4@g128`."""
    engine: str
    """What multiplies the weights: `torch` or `bitsandbytes`."""
    dtype: str
    """The dtype of activations and dense weights, as in `bfloat16`."""
    device: torch.device
    model: torch.nn.Module
    """In eval mode, without gradients."""
    head: Head
    """The map from head input to logits, over torch weights that the model shares where it can."""
    layers: list[torch.nn.Module]
    """Decoder blocks in order; a block's output is (or starts with) the hidden state."""
    quantized_fraction: float
    """Share of parameters stored quantized; embeddings and head count, a tied matrix once."""
    bits_per_weight: float
    """Stored bits (scales and zero points included) over the number of parameters."""
    size_bytes: int
    """Bytes that the stored tensors take, scales and zero points included."""
    weight_error: float | None
    """`||W_variant - W_base||_F / ||W_base||_F` over the quantized weights, where both were at hand."""
    head_check: HeadCheck
    notes: list[str] = dataclasses.field(default_factory=list)
    """Plain sentences for the report."""

    def close(self) -> None:
        """Free the model's memory. Afterwards `model`, `head` and `layers` are gone."""
        from hubaudit.load.memory import release

        self.layers.clear()
        del self.model, self.head
        release(self.device)
