"""What an audit would run and about how long that takes here, before anything runs."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import torch

from hubaudit.load.emulated_products import products_are_emulated
from hubaudit.progress import time_left

if TYPE_CHECKING:
    from hubaudit.collect import Plan

__all__ = ["GPU_SPEED", "Forecast", "audit_seconds", "gpu_seconds", "operations_a_second", "pass_seconds"]

# Of the speed of one large product, what a whole pass reaches on a CPU, measured on SmolLM2-135M; a guess elsewhere.
_EFFICIENCY = 0.65
GPU_SPEED = 5e13
"""Operations a second that a GPU of the last years gives; a guess, where there is none to measure."""
_FIXED_SECONDS = 12.0
"""Imports, tokenizing, statistics and the report."""
_LOAD_BYTES_A_SECOND = 2.5e8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """One audit that has not begun."""

    base: str
    revision: str | None
    variants: tuple[str, ...]
    tasks: tuple[tuple[str, int, int, str], ...]
    """Name, items, gold tokens and source of each."""
    contrast: str | None
    """The contrast set and the layers, in words."""
    n_tokens: int
    """Tokens through each model."""
    n_parameters: int
    device: str
    dtype: str
    evidence_bytes: int
    """Of each model."""
    seconds: float
    """Estimated, downloads not counted."""

    def text(self) -> str:
        """In a few lines for a terminal."""
        commit = f" at {self.revision}" if self.revision and self.revision not in self.base else ""
        lines = [f"base     {self.base}{commit}"]
        lines += [f"variant  {spec}" for spec in self.variants]
        lines += [
            f"task     {name}: {n} items, {gold} gold tokens, from {source}" for name, n, gold, source in self.tasks
        ]
        if self.contrast is not None:
            lines.append(f"contrast {self.contrast}")
        lines.append(
            f"run      {self.n_tokens} tokens through each of {1 + len(self.variants)} models on {self.device} in "
            f"{self.dtype}; evidence {self.evidence_bytes / 1e6:.1f} MB a model"
        )
        lines.append(f"time     about {time_left(self.seconds)} on this machine, downloads not counted (an estimate)")
        return "\n".join(lines)


def operations_a_second(device: torch.device, dtype: torch.dtype) -> float:
    """Additions and multiplications a second in a product of two large matrices, measured in a tenth of a second."""
    dtype = torch.float32 if products_are_emulated(dtype, device) else dtype
    n = 1024 if device.type == "cpu" else 8192
    one = torch.ones((n, n), dtype=dtype, device=device)
    one @ one
    best = float("inf")
    for _ in range(4):
        _wait(device)
        started = time.perf_counter()
        one @ one
        _wait(device)
        best = min(best, time.perf_counter() - started)
    return 2 * n**3 / best


def pass_seconds(plan: Plan, n_tokens: int, *, n_parameters: int, config: Any, speed: float) -> float:
    """Seconds of some tokens through one model, its scored positions through the head.

    Args:
        plan: The audit's plan.
        n_tokens: How many of its tokens, all or a sample.
        n_parameters: Parameters of the model; all of them are taken to multiply, as in a dense model.
        config: The text model's configuration.
        speed: From `operations_a_second`.
    """
    head = int(config.vocab_size) * int(config.hidden_size)
    body = max(0, n_parameters - head * (1 if getattr(config, "tie_word_embeddings", False) else 2))
    scored = sum(len(sequence.scored_positions) for sequence in plan.sequences) * n_tokens / max(1, plan.n_tokens)
    return (2.0 * body * n_tokens + 2.0 * head * scored) / (speed * _EFFICIENCY)


def audit_seconds(one_pass: float, floor: float, *, n_models: int, model_bytes: float) -> float:
    """Seconds of a whole audit: every model loaded and run once, and the base's compute floor."""
    load = 1.0 + 2 * model_bytes / _LOAD_BYTES_A_SECOND
    return _FIXED_SECONDS + n_models * (load + one_pass) + floor


def gpu_seconds(forecast: Forecast) -> float:
    """Seconds for which a GPU should be asked: an estimate for one of the last years, with room; not measured."""
    model_bytes = 2.0 * forecast.n_parameters
    one = 6.0 + model_bytes / 5e8 + 2.0 * forecast.n_parameters * forecast.n_tokens / 2e13
    return 30.0 + 1.5 * (1 + len(forecast.variants)) * one


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
