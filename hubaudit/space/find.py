"""From what a visitor types to the settings of an audit: search, the base's variants, and what may be chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hubaudit.errors import AccessError, InputError
from hubaudit.hub.access import hub_errors
from hubaudit.hub.child import Child
from hubaudit.hub.children import Listing, list_children
from hubaudit.hub.reference import REPO_ID
from hubaudit.settings import AuditSettings
from hubaudit.space.limits import Limits
from hubaudit.space.store import AuditStore

__all__ = ["COLUMNS", "ON_THE_SPOT", "TASKS", "Found", "find_variants", "make_settings", "search_models"]

MIN_TYPED = 2
N_SUGGESTED = 10
N_LISTED = 40
ON_THE_SPOT = {
    "bnb:nf4": "bitsandbytes NF4, made here from the base",
    "bnb:int8": "bitsandbytes INT8, made here from the base",
    "rtn:8": "round to nearest, 8 bits, made here",
    "rtn:4": "round to nearest, 4 bits, made here",
    "rtn:3": "round to nearest, 3 bits, made here",
}
TASKS = {
    "builtin": "Built-in questions (no download)",
    "arc": "ARC Challenge",
    "mmlu": "MMLU",
    "csqa": "CommonsenseQA",
    "gsm8k": "GSM8K (forced answers)",
}
COLUMNS = ("Variant", "Format", "Bits", "Size, MB", "Downloads", "Can be audited", "Stored audit")


@dataclasses.dataclass(frozen=True)
class Found:
    """A base and its variants."""

    base: str
    """`ORG/NAME`, as the Hub spells it."""
    revision: str
    n_parameters: int | None
    rows: list[list[str | float | int | None]]
    """One a child, in the order of `COLUMNS`."""
    choices: dict[str, str]
    """What can be chosen: the pinned reference by its label."""
    sizes: dict[str, int]
    """Bytes of the weights by reference, where the Hub says."""
    notes: list[str]

    @property
    def pinned(self) -> str:
        """`ORG/NAME@SHA`: no folder of this machine has such a name."""
        return f"{self.base}@{self.revision}"


def search_models(typed: str) -> list[str]:
    """Ids of the most downloaded language models that match, at most ten; none where the Hub cannot be asked."""
    typed = typed.strip()[:96]
    if len(typed) < MIN_TYPED:
        return []
    from huggingface_hub import HfApi

    try:
        with hub_errors(typed):
            models = list(HfApi().list_models(search=typed, sort="downloads", limit=N_SUGGESTED))
    except AccessError:
        return []
    return [model.id for model in models if REPO_ID.fullmatch(model.id) and ".." not in model.id]


def find_variants(base: str, store: AuditStore) -> Found:
    """The base's children, those that can be audited first in the choice.

    Raises:
        InputError: If the text is no repo id.
        AccessError: If the Hub cannot be asked, or has no such model.
    """
    base = base.strip()
    if not REPO_ID.fullmatch(base) or ".." in base:
        raise InputError("expected a model's id on the Hub, ORG/NAME, as HuggingFaceTB/SmolLM2-135M-Instruct")
    listing: Listing = list_children(base, limit=N_LISTED)
    audited = {spec for entry in store.of(listing.base.repo_id) for spec in entry.variants}
    choices = {_label(child): child.spec for child in listing.children if child.loadable and not child.wrong_base}
    choices |= {f"{spec}: {meaning}": spec for spec, meaning in ON_THE_SPOT.items()}
    return Found(
        base=listing.base.repo_id,
        revision=listing.base.revision,
        n_parameters=listing.base.n_parameters,
        rows=[_row(child, audited) for child in listing.children],
        choices=choices,
        sizes={child.spec: child.size_bytes or 0 for child in listing.children},
        notes=list(listing.notes),
    )


def make_settings(
    found: Found,
    variants: Sequence[str],
    tasks: Sequence[str],
    limit: float,
    *,
    limits: Limits,
    store: AuditStore,
) -> AuditSettings:
    """Settings from a visitor's choices, each checked against what was offered.

    Args:
        found: What was offered.
        variants: Labels of the chosen variants.
        tasks: Names of tasks.
        limit: Items a task.
        limits: Of this server.
        store: Its folder holds the evidence, too.

    Raises:
        InputError: If nothing was chosen, too much, or something that was not offered.
    """
    if not (set(variants) <= set(found.choices) and set(tasks) <= set(TASKS)):
        raise InputError("one of the choices was not offered for this base; find its variants again")
    if not variants or not tasks:
        raise InputError("choose at least one variant and one task")
    if len(variants) > limits.max_variants:
        raise InputError(f"choose at most {limits.max_variants} variants; {len(variants)} are chosen")
    if not 1 <= limit <= limits.max_items:
        raise InputError(f"the items of a task must be 1 to {limits.max_items}")
    return AuditSettings(
        base=found.pinned,
        variants=tuple(dict.fromkeys(found.choices[label] for label in variants)),
        tasks=tuple(dict.fromkeys(tasks)),
        contrast="builtin",
        limit=int(limit),
        cache_dir=store.folder / "work",
    )


def _name(child: Child) -> str:
    """The repo, and of a GGUF repo the file."""
    return child.repo_id + (f":{child.quant}" if child.quant else "")


def _label(child: Child) -> str:
    size = f", {child.size_bytes / 1e6:.0f} MB" if child.size_bytes else ""
    return f"{_name(child)} ({child.format}{size})"


def _row(child: Child, audited: set[str]) -> list[str | float | int | None]:
    reason = child.wrong_base or child.reason
    bits = child.bits_per_weight or child.bits
    return [
        _name(child),
        child.format,
        round(bits, 2) if bits else None,
        round(child.size_bytes / 1e6) if child.size_bytes else None,
        child.downloads,
        "yes" if reason is None else f"no: {reason}",
        "yes" if child.spec in audited else "no",
    ]
