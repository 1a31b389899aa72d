"""What llama.cpp's converter did to the tensors of each architecture, and the way back.

An architecture stands here only if a model written by llama.cpp's own `convert_hf_to_gguf.py` came back
through it number for number; any other is refused, since a missed rearrangement loads without a complaint.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from hubaudit.errors import ModelFileError

__all__ = ["Architecture", "architecture_for"]

Restore = Callable[[Any, torch.Tensor], torch.Tensor]
"""From the configuration and a tensor as the file holds it (torch's order) to the model's parameter."""


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A GGUF architecture: the model types of transformers that it stores, and what must be undone."""

    name: str
    model_types: frozenset[str]
    restore: dict[str, Restore] = dataclasses.field(default_factory=dict)
    """For a pattern over GGUF tensor names, how to undo the rearrangement."""

    def restorer(self, tensor_name: str, config: Any) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """How to undo what was done to a tensor; None if it was stored as it is."""
        for pattern, restore in self.restore.items():
            if re.fullmatch(pattern, tensor_name):
                return functools.partial(restore, config)
        return None


def _unpair(rows: torch.Tensor, n_heads: int) -> torch.Tensor:
    """From rotary pairs side by side back to halves, head by head."""
    return rows.reshape(n_heads, rows.shape[0] // n_heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _unpair_query(config: Any, tensor: torch.Tensor) -> torch.Tensor:
    return _unpair(tensor, config.num_attention_heads)


def _unpair_key(config: Any, tensor: torch.Tensor) -> torch.Tensor:
    return _unpair(tensor, getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def _minus_one(_config: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor - 1


def _transpose(_config: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.T


def _interleave_qkv(config: Any, tensor: torch.Tensor) -> torch.Tensor:
    """From all queries, all keys, all values to the three of each head in turn."""
    n_heads = config.num_attention_heads
    return tensor.reshape(3, n_heads, -1, *tensor.shape[1:]).swapaxes(0, 1).reshape(tensor.shape)


_PAIRED: dict[str, Restore] = {
    r"blk\.\d+\.attn_q\.(weight|bias)": _unpair_query,
    r"blk\.\d+\.attn_k\.(weight|bias)": _unpair_key,
}
_SHIFTED: dict[str, Restore] = {r".*norm\.weight": _minus_one}
_CONV1D: dict[str, Restore] = {r"blk\.\d+\.(attn_qkv|attn_output|ffn_up|ffn_down)\.weight": _transpose}
_FUSED: dict[str, Restore] = {r"blk\.\d+\.attn_qkv\.(weight|bias)": _interleave_qkv}

_ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("llama", frozenset({"llama", "mistral", "mixtral"}), _PAIRED),
        Architecture("granite", frozenset({"granite"}), _PAIRED),
        Architecture("smollm3", frozenset({"smollm3"}), _PAIRED),
        Architecture("arcee", frozenset({"arcee"}), _PAIRED),
        Architecture("olmo", frozenset({"olmo"}), _PAIRED),
        Architecture("mistral3", frozenset({"ministral3"}), _PAIRED),
        Architecture("gemma", frozenset({"gemma"}), _SHIFTED),
        Architecture("gemma2", frozenset({"gemma2"}), _SHIFTED),
        Architecture("gemma3", frozenset({"gemma3_text"}), _SHIFTED),
        Architecture("nemotron", frozenset({"nemotron"}), _SHIFTED),
        Architecture("gpt2", frozenset({"gpt2"}), _CONV1D),
        Architecture("gptneox", frozenset({"gpt_neox"}), _FUSED),
        Architecture("qwen2", frozenset({"qwen2"})),
        Architecture("qwen3", frozenset({"qwen3"})),
        Architecture("qwen2moe", frozenset({"qwen2_moe"})),
        Architecture("qwen3moe", frozenset({"qwen3_moe"})),
        Architecture("olmo2", frozenset({"olmo2", "olmo3"})),
        Architecture("olmoe", frozenset({"olmoe"})),
        Architecture("phi2", frozenset({"phi"})),
        Architecture("phi3", frozenset({"phi3"})),
        Architecture("starcoder2", frozenset({"starcoder2"})),
        Architecture("stablelm", frozenset({"stablelm"})),
        Architecture("command-r", frozenset({"cohere"})),
        Architecture("cohere2", frozenset({"cohere2"})),
        Architecture("glm4", frozenset({"glm4"})),
        Architecture("exaone4", frozenset({"exaone4"})),
        Architecture("seed_oss", frozenset({"seed_oss"})),
        Architecture("ernie4_5", frozenset({"ernie4_5"})),
        Architecture("hunyuan-dense", frozenset({"hunyuan_v1_dense"})),
    )
}


def architecture_for(name: str, model_type: str, *, file_name: str) -> Architecture:
    """The architecture of a file that is to become a variant of a base.

    Args:
        name: The file's `general.architecture`.
        model_type: The base's, of its text part.
        file_name: For the message.

    Raises:
        ModelFileError: If the architecture is not supported or stores another model type.
    """
    architecture = _ARCHITECTURES.get(name)
    if architecture is None:
        raise ModelFileError(
            f"{file_name}: expected an architecture whose tensors hubaudit can put back in place "
            f"({', '.join(sorted(_ARCHITECTURES))}), got {name}. Use a safetensors or bitsandbytes variant."
        )
    if model_type not in architecture.model_types:
        fits = " or ".join(sorted(architecture.model_types))
        raise ModelFileError(
            f"{file_name}: expected a file that fits the base, whose model type is {model_type}, got the architecture "
            f"{name}, which stores {fits}. Give the base that this file was made from."
        )
    return architecture
