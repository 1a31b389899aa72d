"""One model that descends from a base, as the listing shows it."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

__all__ = ["RELATIONS", "Child", "Relation"]

Relation = Literal["quantized", "adapter", "finetune"]
RELATIONS: tuple[Relation, ...] = ("quantized", "adapter", "finetune")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Child:
    """A repo, or one quant of a GGUF repo."""

    spec: str
    """The pinned reference that `hubaudit audit` takes: `ORG/NAME@SHA` or `ORG/NAME@SHA:file.gguf`."""
    repo_id: str
    revision: str
    """Full commit SHA."""
    relation: Relation
    format: str
    """One of `hubaudit.hub.children_format.FORMATS`, or the name of another quantization method."""
    quant: str | None = None
    """The label of a GGUF file, as `Q4_K_M`; None for other formats."""
    bits: float | None = None
    """Bits of a weight without scales and zero points."""
    bits_per_weight: float | None = None
    """Stored bits over parameters, scales and zero points included; None where the parameters are not known."""
    size_bytes: int | None = None
    """Size of the weights."""
    downloads: int = 0
    """Of the repo, in the last 30 days."""
    head_quantized: bool | None = None
    """Whether the output head, or the embedding tied to it, is stored quantized; None where it was not read."""
    head_type: str | None = None
    """How the head is stored."""
    reason: str | None = None
    """Why hubaudit cannot load it; None where it can."""
    wrong_base: str | None = None
    """Why it cannot come from the base that it names; None where nothing contradicts it."""

    @property
    def loadable(self) -> bool:
        """Whether hubaudit can load it."""
        return self.reason is None

    def to_dict(self) -> dict[str, Any]:
        """The fields, and `loadable`."""
        return dataclasses.asdict(self) | {"loadable": self.loadable}
