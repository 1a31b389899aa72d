"""Which of a base's children to audit, by one rule that can be read in a minute.

The rule of `--discover`:

1. Left out are children that cannot be loaded, that contradict the base they name, of another format than asked
   for, larger than allowed, and GGUF files in which nothing is quantized.
2. Repos take turns, the most downloaded first, until `max_variants` are chosen. A repo of safetensors or an adapter
   has one turn. A GGUF repo offers its quants in the order Q4_K_M, Q8_0, Q5_K_M, Q6_K, Q3_K_M, Q2_K, Q4_0, then the
   others, the largest first; `ORG/NAME:*` audits all of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from hubaudit.errors import InputError
from hubaudit.hub.child import Child
from hubaudit.hub.children import DEFAULT_LIMIT, Listing, list_children
from hubaudit.hub.children_format import FORMATS
from hubaudit.progress import Progress

__all__ = ["DEFAULT_MAX_VARIANTS", "LOADABLE_FORMATS", "Discovery", "LeftOut", "choose", "discover", "parse_size"]

DEFAULT_MAX_VARIANTS = 8
LOADABLE_FORMATS = tuple(name for name, reason in FORMATS.items() if reason is None)
_QUANT_ORDER = ("Q4_K_M", "Q8_0", "Q5_K_M", "Q6_K", "Q3_K_M", "Q2_K", "Q4_0")
_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)}
_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?I?B?)\s*", re.IGNORECASE | re.ASCII)


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A child that is not audited, and why."""

    spec: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Discovery:
    """The children of a base, and those to audit."""

    base: str
    """`ORG/NAME@SHA`."""
    chosen: list[str]
    """Pinned references of the variants to audit, in the order in which they were chosen."""
    rows: list[Child]
    """All children that were read."""
    left_out: list[LeftOut]
    """Every row that was not chosen."""
    notes: list[str]
    """What the rows do not show."""


def discover(
    base: str,
    *,
    max_variants: int = DEFAULT_MAX_VARIANTS,
    formats: Collection[str] | None = None,
    max_size: int | str | None = None,
    limit: int = DEFAULT_LIMIT,
    progress: Progress | None = None,
) -> Discovery:
    """Find the variants of a base that are worth an audit.

    Args:
        base: Hub id, `ORG/NAME` or `ORG/NAME@revision`.
        max_variants: Most variants to choose.
        formats: Only these formats; all that can be loaded by default.
        max_size: Largest weights of a variant, in bytes or as `2GB`.
        limit: Most repos to look at, the most downloaded ones.
        progress: Is told of repos that were read.

    Raises:
        InputError: If `base` is no Hub id, or an option is not usable.
        AccessError: If the base does not exist or the Hub cannot be asked.
    """
    most_bytes = parse_size(max_size) if isinstance(max_size, str) else max_size
    _check(max_variants, formats, most_bytes)
    listing = list_children(base, limit=limit, progress=progress)
    return choose(listing, max_variants=max_variants, formats=formats, max_size=most_bytes)


def choose(
    listing: Listing, *, max_variants: int, formats: Collection[str] | None = None, max_size: int | None = None
) -> Discovery:
    """Apply the rule at the top of this file to a listing; nothing is read.

    Raises:
        InputError: If an option is not usable.
    """
    _check(max_variants, formats, max_size)
    wanted = {name.lower() for name in formats} if formats else None
    turns: dict[str, list[Child]] = {}
    reasons: dict[str, str] = {}
    for child in listing.children:
        reason = _unsuited(child, wanted, max_size)
        if reason is None:
            turns.setdefault(child.repo_id, []).append(child)
        else:
            reasons[child.spec] = reason
    ordered = [sorted(group, key=_place) for group in turns.values()]
    rounds = max(map(len, ordered), default=0)
    queue = [group[turn].spec for turn in range(rounds) for group in ordered if turn < len(group)]
    reasons |= dict.fromkeys(queue[max_variants:], f"only {max_variants} variants were asked for")
    return Discovery(
        base=f"{listing.base.repo_id}@{listing.base.revision}",
        chosen=queue[:max_variants],
        rows=listing.children,
        left_out=[LeftOut(child.spec, reasons[child.spec]) for child in listing.children if child.spec in reasons],
        notes=listing.notes,
    )


def parse_size(text: str) -> int:
    """Bytes of `2GB`, `500 MB`, `1.5GiB` or `1000000`; kB, MB, GB are powers of 1000, KiB, MiB, GiB of 1024.

    Raises:
        InputError: If the text is no size.
    """
    match = _SIZE.fullmatch(text)
    unit = match[2].upper() if match else ""
    unit = unit if unit in _UNITS else f"{unit}B"
    n_bytes = round(float(match[1]) * _UNITS[unit]) if match and unit in _UNITS else 0
    if n_bytes <= 0:
        raise InputError(f"a size must be a number of bytes, or as 500MB, 2GB or 1.5GiB, but got {text!r}")
    return n_bytes


def _unsuited(child: Child, formats: set[str] | None, max_size: int | None) -> str | None:
    """Why a child is not considered."""
    if child.reason is not None:
        return child.reason
    if child.wrong_base is not None:
        return f"it may not come from this base: {child.wrong_base}"
    if formats is not None and child.format not in formats:
        return f"its format {child.format} was not asked for"
    if max_size is not None and (child.size_bytes is None or child.size_bytes > max_size):
        found = "of unknown size" if child.size_bytes is None else f"{child.size_bytes / 1e9:.2f} GB"
        return f"it is {found}, the limit {max_size / 1e9:.2f} GB"
    if child.format == "gguf" and _plain(child):
        return "nothing in it is quantized; name it to audit it"
    return None


def _plain(child: Child) -> bool:
    return (child.quant or "").upper() in ("F32", "F16", "BF16", "FP16", "FP32")


def _place(child: Child) -> tuple[int, int]:
    """Safetensors before GGUF, then the order of quants, then the largest first."""
    if child.quant is None:
        return -1, 0
    label = child.quant.upper().removeprefix("UD-").removeprefix("I1-")
    known = label in _QUANT_ORDER
    return (_QUANT_ORDER.index(label) if known else len(_QUANT_ORDER)), -(child.size_bytes or 0)


def _check(max_variants: int, formats: Collection[str] | None, max_size: int | None) -> None:
    if max_variants < 1:
        raise InputError(f"--max-variants must be at least 1, but got {max_variants}")
    unknown: Sequence[str] = sorted({name.lower() for name in formats or ()} - set(LOADABLE_FORMATS))
    if unknown:
        raise InputError(f"--formats must be among {', '.join(LOADABLE_FORMATS)}, but got {', '.join(unknown)}")
    if max_size is not None and max_size < 1:
        raise InputError(f"--max-size must be at least 1 byte, but got {max_size}")
