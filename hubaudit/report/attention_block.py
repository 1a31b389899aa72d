"""What a variant's attention projections change when they alone are swapped into the base."""

from __future__ import annotations

from pydantic import Field

from hubaudit.report.block import Block
from hubaudit.stats.shape_drift import Estimate

__all__ = ["FIGURE_LABELS", "AttentionSensitivity", "SwapEffect"]

FIGURE_LABELS = {"attention_kl": "KL of attention", "one_minus_omega": "1 - Omega", "kl": "KL of logits"}
"""What tables and plots call the figures of a swap."""


class SwapEffect(Block):
    """What one swap changes, over all tokens of all items."""

    layer: int | None
    """Decoder block, 0 = the first; null for all blocks at once."""
    projection: str
    """q, k, v or o; for the control all of them."""
    attention_kl: Estimate
    """KL(base || swapped) of the attention weights, mean over heads, blocks and positions, nats."""
    one_minus_omega: Estimate
    """Shape drift of the features at the head's input."""
    kl: Estimate
    """KL(base || swapped) of the next-token distributions, mean over scored tokens, nats."""


class AttentionSensitivity(Block):
    """The swaps of one variant's attention projections into its base."""

    n_items: int
    """Items that ran."""
    n_positions: int
    """Positions whose attention was compared."""
    n_tokens: int
    """Scored tokens."""
    dtype: str
    """Number format of activations and weights."""
    control: SwapEffect
    """The base's own projections swapped into itself: exactly 0 or nothing here counts."""
    overall: list[SwapEffect]
    """One projection of all blocks at a time."""
    rows: list[SwapEffect]
    """One projection of one block at a time."""
    ratio: dict[str, Estimate]
    """By figure: its sum over the swaps of q and k in all blocks, over its sum over those of v and o."""
    not_swapped: dict[str, str] = Field(default_factory=dict)
    """Projections left out, with the reason."""
    notes: list[str] = Field(default_factory=list)
    """Plain sentences."""
