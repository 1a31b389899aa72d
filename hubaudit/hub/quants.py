"""The GGUF files of a repo or folder -> its quants: shards joined, what is no model left out. Names only, no I/O."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping

__all__ = ["Quant", "group_quants"]

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
# Projectors of multimodal models, importance matrices and prediction heads are no language models (TRAPS 9).
_NO_MODEL = re.compile(r"(?:^|[-._/])(?:mmproj|imatrix|mtp)(?:[-._/]|$)", re.IGNORECASE)
_LABEL = re.compile(
    r"(?:^|[-._/ ])((?:UD-|i1-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))(?=[-._/ ]|$)",
    re.IGNORECASE,
)
_BITS = re.compile(r"(?:Q|FP|BF|F)(\d+)", re.IGNORECASE)
_MAX_SHARDS = 1000


@dataclasses.dataclass(frozen=True)
class Quant:
    """One model among the GGUF files: a file, or all shards of one."""

    label: str
    """`Q4_K_M`, `i1-IQ2_XS`, `UD-Q4_K_XL`; the file's name where it has no label."""
    files: tuple[str, ...]
    """Path of each file, the first shard first."""
    size_bytes: int | None
    """Sum over the files; None where a size is unknown."""
    missing: tuple[str, ...] = ()
    """Shards that the names promise and nobody uploaded."""

    @property
    def bits(self) -> int | None:
        """Bits of the block type in the label, as 4 of `Q4_K_M`; the file as a whole holds a little more."""
        found = _BITS.search(self.label)
        return int(found[1]) if found else None

    @property
    def plain(self) -> bool:
        """Whether the label says that nothing is quantized."""
        return self.label.upper().lstrip("B").replace("FP", "F") in ("F16", "F32")


def group_quants(sizes: Mapping[str, int | None]) -> list[Quant]:
    """Group GGUF files into models.

    Args:
        sizes: Size in bytes, or None, of every file by its path; files of other kinds are passed over.

    Returns:
        The quants, the largest first; those of unknown size last, then by name.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sizes:
        if name.lower().endswith(".gguf") and not _NO_MODEL.search(name):
            shard = _SHARD.fullmatch(name)
            # The count is part of the key: a repo may hold the same quant cut in two ways.
            groups[f"{shard['stem']}\0{shard['count']}" if shard else name].append(name)
    quants = [_quant(sorted(names), sizes) for names in groups.values()]
    return sorted(quants, key=lambda quant: (-(quant.size_bytes or 0), quant.files))


def _quant(names: list[str], sizes: Mapping[str, int | None]) -> Quant:
    known = [size for name in names if (size := sizes[name]) is not None and size >= 0]
    total = sum(known) if len(known) == len(names) else None
    shard = _SHARD.fullmatch(names[0])
    missing: list[str] = []
    if shard:
        present = {name.lower() for name in names}
        count = min(int(shard["count"]), _MAX_SHARDS)
        promised = [f"{shard['stem']}-{number:05d}-of-{shard['count']}.gguf" for number in range(1, count + 1)]
        missing = [name for name in promised if name.lower() not in present]
    return Quant(_label(shard["stem"] if shard else names[0][: -len(".gguf")]), tuple(names), total, tuple(missing))


def _label(stem: str) -> str:
    """The last label of the file's name, else of its folder's, else the name itself."""
    folder, _, name = stem.rpartition("/")
    for text in (name, folder):
        if found := _LABEL.findall(text):
            label = str(found[-1])
            prefix, dash, rest = label.rpartition("-")
            prefix = "i1" if prefix.lower() == "i1" else prefix.upper()
            return f"{prefix}{dash}{rest.upper()}"
    return name
