"""What decides an audit, checked as far as that needs no model."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Literal

from hubaudit.errors import InputError

__all__ = ["DEFAULT_CONTRAST", "DEFAULT_TASKS", "AuditSettings", "default_cache_dir"]

DEFAULT_TASKS = ("arc", "mmlu", "gsm8k")
DEFAULT_CONTRAST = "advbench-alpaca"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Everything that decides what an audit computes.

    Args:
        base: Hub id, `id@revision`, or local folder.
        variants: Variants as DESIGN's command line takes them.
        discover: Whether the base's children on the Hub are added.
        max_variants: Most variants to discover; None for `hubaudit.hub.discover`'s default.
        formats: Only these formats are discovered; empty for all that can be loaded.
        max_size: Largest weights of a discovered variant, as `2GB`.
        tasks: Names or paths of tasks.
        contrast: Contrast set, or None to leave directions and monitor out.
        probe: A saved linear probe (safetensors: direction, threshold, layer), or None for the base's own.
        limit: Items a task and prompts a class, a seeded sample; None takes all.
        layers: Decoder blocks to read, 0 = the first; None takes six spread over the depth.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        dtype: `auto`, `bfloat16`, `float16` or `float32`.
        batch_tokens: Tokens of a batch, padding included; None for 1024 on a CPU, 8192 on a GPU.
        weights: Whether items or tokens weigh the same in risks and drift.
        seed: Seed of samples and resampling.
        engine_gguf: What multiplies a GGUF file's weights: torch on their dense expansion, or llama.cpp beside it.
        structure: Whether the weights are compared too, by layer and projection.
        cache_dir: Where evidence is kept; None for the user's cache folder.
        resume: Whether evidence of earlier runs is used.
    """

    base: str
    variants: tuple[str, ...] = ()
    discover: bool = False
    max_variants: int | None = None
    formats: tuple[str, ...] = ()
    max_size: str | None = None
    tasks: tuple[str, ...] = DEFAULT_TASKS
    contrast: str | None = DEFAULT_CONTRAST
    probe: Path | None = None
    limit: int | None = 256
    layers: tuple[int, ...] | None = None
    device: str = "auto"
    dtype: str = "auto"
    batch_tokens: int | None = None
    weights: Literal["item", "token"] = "item"
    seed: int = 0
    engine_gguf: Literal["dense", "llamacpp"] = "dense"
    structure: bool = False
    cache_dir: Path | None = None
    resume: bool = True

    def __post_init__(self) -> None:
        """Check what needs no model to be checked."""
        if not self.tasks and self.contrast is None:
            raise InputError("expected at least one task or a contrast set; name a task with --tasks")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1, but got {self.limit}")
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise InputError(f"--batch-tokens must be at least 1, but got {self.batch_tokens}")
        if not self.discover and (self.max_variants is not None or self.formats or self.max_size):
            raise InputError("--max-variants, --formats and --max-size belong to --discover; add it")
        for values, what in ((self.variants, "variant"), (self.tasks, "task")):
            repeated = sorted({value for value in values if values.count(value) > 1})
            if repeated:
                raise InputError(f"the {what} {repeated[0]!r} is given twice; name it once")


def default_cache_dir() -> Path:
    """Where evidence is kept unless the user says otherwise: `$XDG_CACHE_HOME/hubaudit` or `~/.cache/hubaudit`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hubaudit"
