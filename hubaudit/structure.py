"""Base and variant weight by weight: one row a projection of a decoder block, two matrices in memory."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from hubaudit.errors import VariantError
from hubaudit.load.folder import first_line
from hubaudit.load.memory import memory_guard
from hubaudit.load.model import ModelSource
from hubaudit.load.projection_names import PROJECTIONS, Place, place_of, split
from hubaudit.load.weight_reader import Weights, open_weights
from hubaudit.progress import Progress, Silent, short_spec
from hubaudit.report.structure_block import Structure, StructureRow
from hubaudit.stats.structure import WeightDifference, compare_weights

__all__ = ["compare_structure"]

_MOST_NAMED = 200
_EMBEDDINGS, _HEAD = (None, None, "embeddings"), (None, None, "head")
_NORM = re.compile(r"norm|\bln_|layernorm", re.IGNORECASE)
_NO_PLACE = "no projection of attention or MLP, embedding or head by its name"

_Places = dict[tuple[int | None, int | None, str], tuple[str, Place]]


def compare_structure(base: ModelSource, variant: ModelSource, progress: Progress | None = None) -> Structure:
    """Compare all projections of a variant with its base's, read tensor by tensor.

    Args:
        base: The base's files.
        variant: The variant's.
        progress: Is told of every tensor.

    Returns:
        A row a projection, in the order of layers; what has no counterpart is named with the reason.

    Raises:
        HubAuditError: As `open_weights`, or if no matrix of the variant has a counterpart.
    """
    progress = progress or Silent()
    old, new = open_weights(base, base), open_weights(variant, base)
    before, after = _places(old), _places(new)
    _untie(before, after)
    _untie(after, before)
    common = [key for key in before if key in after]
    reasons = _missing(old, new, before, after)
    rows: list[StructureRow] = []
    progress.begin(f"weights of {short_spec(variant.spec)}", len(common))
    try:
        with memory_guard(f"comparing weights of {variant.spec}"):
            for key in common:
                rows += _rows(old, new, before[key], after[key], reasons)
                progress.advance(1)
    finally:
        progress.end()
    if not rows:
        first = next(iter(reasons.items()), ("no tensor", "none was found"))
        raise VariantError(
            f"{variant.spec}: expected projections of attention and MLP that the base has too, got none "
            f"({first[0][:120]}: {first[1]}); a state-space model has none, and other models need their own base"
        )
    order = {name: at for at, name in enumerate(PROJECTIONS)}
    rows.sort(key=lambda row: (math.inf if row.layer is None else row.layer, order.get(row.projection, 99)))
    return Structure(
        relative_error=_overall([row.difference for row in rows]),
        n_weights=sum(row.difference.n_weights for row in rows),
        rows=rows,
        not_compared=dict(list(reasons.items())[:_MOST_NAMED]),
    )


def _places(weights: Weights) -> _Places:
    found: _Places = {}
    for name in weights.readers:
        place = place_of(name)
        if place is not None:
            found[place.layer, place.expert, "+".join(place.parts)] = (name, place)
    return found


def _untie(places: _Places, other: _Places) -> None:
    """A tied head is the embeddings: they meet the other side's head, where that has one of its own."""
    if _HEAD not in places and _HEAD in other and _EMBEDDINGS in places:
        places[_HEAD] = (places[_EMBEDDINGS][0], Place(None, ("head",)))


def _missing(old: Weights, new: Weights, before: _Places, after: _Places) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for weights, own, other, elsewhere in ((old, before, after, "variant"), (new, after, before, "base")):
        for key, (name, place) in own.items():
            if key not in other:
                reasons[name] = f"the {elsewhere} has no {_label(place)}"
        known = {name for name, _ in own.values()}
        for name in weights.readers:
            if name not in known and name.endswith(".weight") and _NORM.search(name) is None:
                reasons.setdefault(name, _NO_PLACE)
    return reasons


def _label(place: Place) -> str:
    what = "/".join(place.parts)
    return what if place.layer is None else f"{what} in decoder block {place.layer}"


def _rows(
    old: Weights, new: Weights, base: tuple[str, Place], variant: tuple[str, Place], reasons: dict[str, str]
) -> list[StructureRow]:
    name, place = base
    try:
        first = split(old.readers[name](), place, old.config)
        second = split(new.readers[variant[0]](), variant[1], new.config)
    except (IndexError, RuntimeError) as exc:
        reasons[name] = f"cannot be read as a matrix: {first_line(exc)}"
        return []
    rows = []
    for part in list(first):
        # Each matrix leaves its dictionary, so that two are in memory and not all that were fused.
        left, right = first.pop(part), second.pop(part, None)
        if right is None or left.shape != right.shape:
            found = "none" if right is None else str(list(right.shape))
            reasons[name] = f"expected the base's shape {list(left.shape)}, got {found}"
            continue
        try:
            difference = compare_weights(_array(left), _array(right))
        except ValueError as exc:
            reasons[name] = first_line(exc)
            continue
        rows.append(StructureRow(layer=place.layer, projection=part, expert=place.expert, difference=difference))
    return rows


def _array(tensor: torch.Tensor) -> Any:
    """Float32, contiguous, and no view of what another projection still needs."""
    return tensor.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format).numpy()


def _overall(differences: list[WeightDifference]) -> float | None:
    errors = sum((entry.relative_error * entry.base_norm) ** 2 for entry in differences if entry.relative_error)
    norms = sum(entry.base_norm**2 for entry in differences)
    return math.sqrt(errors / norms) if norms else None
