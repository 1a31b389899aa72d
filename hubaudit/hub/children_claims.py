"""Whether a repo that names a base can really come from it: widths, depth and vocabulary, and what its files name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from hubaudit.hub.reference import REPO_ID

__all__ = ["ModelShape", "adapter_claim", "card_claim", "shape_of", "wrong_shape"]

# Padding of the embedding and added tokens; another tokenizer's vocabulary differs by far more.
_VOCABULARY_SLACK = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelShape:
    """What a model cannot change without becoming another one; None where it is not known."""

    model_type: str | None = None
    hidden_size: int | None = None
    n_layers: int | None = None
    vocabulary: int | None = None
    """Rows of the embedding, padding included."""
    remote_code: bool = False
    """Whether the config names code of the repo's own."""


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape that a config.json states, also of a multimodal model's language part."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    model_type = config.get("model_type")
    return ModelShape(
        model_type=model_type if isinstance(model_type, str) else None,
        hidden_size=_count(config, inner, "hidden_size", "n_embd", "d_model"),
        n_layers=_count(config, inner, "num_hidden_layers", "n_layer", "n_layers"),
        vocabulary=_count(config, inner, "vocab_size"),
        remote_code=bool(config.get("auto_map")),
    )


def wrong_shape(base: ModelShape, found: ModelShape) -> str | None:
    """Why a model of this shape cannot come from the base; None where it can, or nothing is known.

    A vocabulary may differ by padding and added tokens, 1024 rows at most.
    """
    if base.hidden_size and found.hidden_size and base.hidden_size != found.hidden_size:
        return f"its hidden size is {found.hidden_size}, the base's {base.hidden_size}"
    if base.n_layers and found.n_layers and base.n_layers != found.n_layers:
        return f"it has {found.n_layers} layers, the base {base.n_layers}"
    if base.vocabulary and found.vocabulary and abs(base.vocabulary - found.vocabulary) > _VOCABULARY_SLACK:
        return f"its vocabulary has {found.vocabulary:,} rows, the base's {base.vocabulary:,}"
    return None


def card_claim(base_id: str, bases: Iterable[str]) -> str | None:
    """Why the card's `base_model` contradicts the tag that the repo was found by.

    Args:
        base_id: Id of the base.
        bases: What the card names; a card that names nothing contradicts nothing.
    """
    named = [name for name in bases if name]
    if not named or base_id.lower() in {name.lower() for name in named}:
        return None
    return f"its card names another base: {named[0][:100]}"


def adapter_claim(base_id: str, named: Any) -> str | None:
    """Why an adapter's config names another base than its card.

    The same rule as when it is loaded: a path of somebody's disk says nothing, another Hub id does.
    """
    if not isinstance(named, str) or not REPO_ID.fullmatch(named) or named.lower() == base_id.lower():
        return None
    return f"its adapter_config.json names another base: {named[:100]}"


def _count(config: Mapping[str, Any], inner: Mapping[str, Any], *keys: str) -> int | None:
    for holder in (config, inner):
        for key in keys:
            value = holder.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
