"""The audit as a Python call. The steps are in `hubaudit.pipeline`, imported late: torch is slow to import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hubaudit.progress import Progress, Silent
from hubaudit.settings import DEFAULT_CONTRAST, DEFAULT_TASKS, AuditSettings

if TYPE_CHECKING:
    from hubaudit.report.schema import Report

__all__ = ["audit"]


def audit(
    base: str,
    variants: Sequence[str] = (),
    *,
    discover: bool = False,
    max_variants: int | None = None,
    formats: Sequence[str] = (),
    max_size: str | None = None,
    tasks: Sequence[str] = DEFAULT_TASKS,
    contrast: str | None = DEFAULT_CONTRAST,
    probe: Path | None = None,
    limit: int | None = 256,
    layers: Sequence[int] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch_tokens: int | None = None,
    weights: Literal["item", "token"] = "item",
    seed: int = 0,
    engine_gguf: Literal["dense", "llamacpp"] = "dense",
    structure: bool = False,
    cache_dir: Path | str | None = None,
    resume: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Compare variants with their base: agreement, bound, divergence, directions and monitor.

    Args:
        base: Hub id, `id@revision`, or local folder of safetensors.
        variants: Hub ids, folders, `.gguf` files, `bnb:nf4`, `rtn:4@g128`, ...
        discover: Whether the base's children on the Hub are added.
        max_variants: Most variants to discover.
        formats: Only these formats are discovered.
        max_size: Largest weights of a discovered variant, as `2GB`.
        tasks: Names or paths of tasks.
        contrast: Contrast set, or None.
        probe: A saved linear probe, or None.
        limit: Items a task and prompts a class; None takes all.
        layers: Decoder blocks to read; None takes six.
        device: Where to compute.
        dtype: Number format of the activations.
        batch_tokens: Tokens of a batch; None for 1024 on a CPU, 8192 on a GPU.
        weights: `item` or `token`.
        seed: Seed of samples and resampling.
        engine_gguf: `dense`, or `llamacpp` to run GGUF files in llama.cpp too and split their drift.
        structure: Whether the weights are compared too.
        cache_dir: Where evidence is kept.
        resume: Whether evidence of earlier runs is used.
        progress: Listener for long work.

    Returns:
        The report; variants that failed are in it with their error.

    Raises:
        InputError: If an argument or an input file is not usable.
        AccessError: If the base cannot be read.
        ResourceError: If the base does not fit.

    Example:
        >>> import hubaudit
        >>> report = hubaudit.audit("org/base", ["bnb:nf4"], tasks=["arc"])  # doctest: +SKIP
    """
    from hubaudit.pipeline import Pipeline

    settings = AuditSettings(
        base=base,
        variants=tuple(variants),
        discover=discover,
        max_variants=max_variants,
        formats=tuple(formats),
        max_size=max_size,
        tasks=tuple(tasks),
        contrast=contrast,
        probe=probe,
        limit=limit,
        layers=tuple(layers) if layers is not None else None,
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        weights=weights,
        seed=seed,
        engine_gguf=engine_gguf,
        structure=structure,
        cache_dir=Path(cache_dir) if cache_dir is not None else None,
        resume=resume,
    )
    return Pipeline(settings, progress or Silent()).run()
