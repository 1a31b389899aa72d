"""Which projection of which decoder block a stored tensor holds, by its name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["IN_BLOCKS", "PROJECTIONS", "Place", "is_stored_transposed", "place_of", "split", "write_parts"]

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down", "embeddings", "head")
"""In the order of tables and plots; `qkv` stands for fused ones whose layout is not known."""

IN_BLOCKS = PROJECTIONS[:7]
"""Those inside decoder blocks, which quantizers round."""

_BLOCK = re.compile(r"(?:.*\.)?(?:layers|h|blocks)\.(?P<layer>\d{1,4})\.(?P<rest>.+)\.weight")
_EXPERT = re.compile(r"(?:.*\.)?experts\.(?P<expert>\d{1,5})\..*")
_OUTSIDE = (
    (re.compile(r"(?:.*\.)?(?:embed_tokens|wte|word_embeddings|embed_in)\.weight"), "embeddings"),
    (re.compile(r"(?:.*\.)?(?:lm_head|embed_out|output_layer)\.weight"), "head"),
)
_INSIDE = tuple(
    (re.compile(rf"(?:.*\.)?{pattern}"), parts)
    for pattern, parts in (
        ("q_proj", ("q",)),
        ("k_proj", ("k",)),
        ("v_proj", ("v",)),
        (r"(?:\w*attn|\w*attention)\.(?:o_proj|out_proj|dense|c_proj)", ("o",)),
        ("(?:qkv_proj|c_attn|query_key_value|Wqkv)", ("q", "k", "v")),
        ("gate_up_proj", ("gate", "up")),
        ("(?:gate_proj|w1)", ("gate",)),
        ("(?:up_proj|w3|fc1|c_fc|dense_h_to_4h)", ("up",)),
        (r"(?:down_proj|w2|fc2|dense_4h_to_h|mlp\.c_proj)", ("down",)),
    )
)
# Conv1D stores (inputs, outputs); heads in turn bring their own q, k and v.
_TRANSPOSED, _BY_HEAD = ("gpt2",), ("gpt_neox",)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a tensor stands in the model, whatever prefix its name has."""

    layer: int | None
    """Decoder block, 0 = the first; None outside of blocks."""
    parts: tuple[str, ...]
    """The projections that it holds, several where they are fused."""
    expert: int | None = None
    """Number of the expert, None where there are none."""


def place_of(name: str) -> Place | None:
    """The place of a stored tensor.

    Args:
        name: As in a safetensors file.

    Returns:
        Its place; None for norms, biases, and whatever is no projection of a transformer.

    Example:
        >>> place_of("model.layers.3.self_attn.q_proj.weight")
        Place(layer=3, parts=('q',), expert=None)
    """
    for pattern, part in _OUTSIDE:
        if pattern.fullmatch(name):
            return Place(None, (part,))
    block = _BLOCK.fullmatch(name)
    if block is None:
        return None
    expert = _EXPERT.fullmatch(block["rest"])
    for pattern, parts in _INSIDE:
        if pattern.fullmatch(block["rest"]):
            return Place(int(block["layer"]), parts, int(expert["expert"]) if expert else None)
    return None


def split(tensor: torch.Tensor, place: Place, config: Any) -> dict[str, torch.Tensor]:
    """A stored tensor as matrices of shape (outputs, inputs), one a projection.

    Args:
        tensor: As the file holds it, (outputs, inputs), transposed for GPT-2.
        place: Its place.
        config: The text configuration, whose heads say where q, k and v meet.

    Returns:
        Views of the tensor, copies where heads in turn bring their own q, k and v; a fused one whose rows do not add
        up stays whole, as `qkv` or `gateup`.
    """
    views = _views(tensor, place, config)
    return {part: view.flatten(0, 1) for part, view in views.items()} if _is_by_head(place, config) else views


def is_stored_transposed(place: Place, config: Any) -> bool:
    """Whether the file holds (inputs, outputs) there."""
    return config.model_type in _TRANSPOSED and place.layer is not None


def write_parts(weight: torch.Tensor, place: Place, config: Any, matrices: Mapping[str, torch.Tensor]) -> None:
    """Write matrices, (outputs, inputs) each, to where `split` reads them.

    Args:
        weight: As the file holds it; is changed.
        place: Its place.
        config: The text configuration.
        matrices: By projection; others stay.
    """
    views = _views(weight, place, config)
    for part, matrix in matrices.items():
        views[part].copy_(matrix.reshape(views[part].shape))


def _views(tensor: torch.Tensor, place: Place, config: Any) -> dict[str, torch.Tensor]:
    """The parts where they lie: (outputs, inputs), or (heads, outputs of a head, inputs)."""
    if is_stored_transposed(place, config):
        tensor = tensor.T
    if len(place.parts) == 1:
        return {place.parts[0]: tensor}
    if _is_by_head(place, config):
        heads = tensor.view(config.num_attention_heads, 3, -1, tensor.shape[-1])
        return {part: heads[:, at] for at, part in enumerate(place.parts)}
    rows = _rows(place, config, len(tensor))
    if sum(rows) != len(tensor):
        return {"".join(place.parts): tensor}
    return dict(zip(place.parts, torch.split(tensor, rows), strict=True))


def _is_by_head(place: Place, config: Any) -> bool:
    return config.model_type in _BY_HEAD and len(place.parts) == 3


def _rows(place: Place, config: Any, n_rows: int) -> list[int]:
    if len(place.parts) == 2:
        return [n_rows // 2, n_rows // 2]
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    return [heads * width, keys * width, keys * width]
