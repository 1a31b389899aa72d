"""Contrast sets: two lists of prompts whose activations give a direction."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from hubaudit.errors import InputError
from hubaudit.hub.datasets import read_hub_rows
from hubaudit.tasks.read import BUILTIN_FOLDER, read_jsonl, read_text

__all__ = ["MIN_PER_CLASS", "ContrastSet", "load_contrast"]

MIN_PER_CLASS = 8


@dataclasses.dataclass(frozen=True)
class ContrastSet:
    """Prompts of class A (label 1) and class B (label 0)."""

    name: str
    source: str
    prompts_a: tuple[str, ...]
    prompts_b: tuple[str, ...]


def load_contrast(name: str, *, limit: int | None, seed: int) -> ContrastSet:
    """Load a contrast set.

    Args:
        name: `advbench-alpaca`, `builtin`, or two paths of `.txt` or `.jsonl` files joined by a comma.
        limit: Prompts to keep of each class, a seeded sample; None keeps all.
        seed: Seed of the sample.

    Returns:
        The two lists.

    Raises:
        InputError: If the name is unknown, a file is unusable, or a class has fewer than 8 prompts.
        AccessError: If a dataset cannot be read from the Hub.
    """
    if name == "builtin":
        prompts_a = _lines(BUILTIN_FOLDER / "contrast_declined.txt")
        prompts_b = _lines(BUILTIN_FOLDER / "contrast_accepted.txt")
        source = "hubaudit builtin"
    elif name == "advbench-alpaca":
        rows_a, revision_a = read_hub_rows("walledai/AdvBench", None, "train")
        rows_b, revision_b = read_hub_rows("tatsu-lab/alpaca", None, "train")
        prompts_a = [str(row["prompt"]) for row in rows_a]
        prompts_b = [str(row["instruction"]) for row in rows_b if not row.get("input")]
        source = f"walledai/AdvBench@{revision_a}, tatsu-lab/alpaca@{revision_b}"
    elif name.count(",") == 1:
        path_a, path_b = (Path(part.strip()) for part in name.split(","))
        prompts_a, prompts_b = _prompts(path_a), _prompts(path_b)
        source = f"{path_a}, {path_b}"
    else:
        raise InputError(
            f"unknown contrast set {name!r}: expected advbench-alpaca, builtin, or two files joined by a comma"
        )
    for which, prompts in (("first", prompts_a), ("second", prompts_b)):
        if len(prompts) < MIN_PER_CLASS:
            raise InputError(
                f"contrast set {name}: expected at least {MIN_PER_CLASS} prompts in the {which} class, "
                f"but got {len(prompts)}; add prompts"
            )
    return ContrastSet(name, source, _sample(prompts_a, limit, seed), _sample(prompts_b, limit, seed))


def _sample(prompts: list[str], limit: int | None, seed: int) -> tuple[str, ...]:
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    chosen = np.random.default_rng(seed).choice(len(prompts), size=max(limit, MIN_PER_CLASS), replace=False)
    return tuple(prompts[index] for index in sorted(chosen.tolist()))


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def _prompts(path: Path) -> list[str]:
    if path.suffix != ".jsonl":
        return _lines(path)
    prompts = []
    for line, row in read_jsonl(path):
        value = row.get("prompt", row.get("instruction"))
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{path}, line {line}: expected a text in the field prompt or instruction")
        prompts.append(value)
    return prompts
