"""A reference resolved to files on this machine: what a loader is given."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

__all__ = ["Kind", "ModelSource"]

Kind = Literal["dense", "gguf", "bnb", "rtn", "lora"]


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """What to load, resolved from a user's spec to files on this machine."""

    spec: str
    """As the user typed it."""
    kind: Kind
    """`bnb` and `rtn` are made on the spot from the base's folder."""
    path: Path
    """A folder of safetensors, or a .gguf file; for `bnb` and `rtn` the base's folder, for `lora` the adapter's."""
    option: str | None = None
    """For bnb `int8`, `nf4` or `fp4`; for rtn `BITS` or `BITS@gGROUP`, as in `4@g128` or `4@g128,v=6`; else None."""
    repo_id: str | None = None
    """The Hub repo that the files came from, if any."""
    revision: str | None = None
    """The full commit SHA of that repo."""
    base_path: Path | None = None
    """For `lora` the base's folder, which the adapter is applied to; else None."""
