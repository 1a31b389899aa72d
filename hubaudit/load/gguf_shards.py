"""A GGUF model may lie in several files, NAME-00001-of-00003.gguf; one of them stands for all."""

from __future__ import annotations

import re
from pathlib import Path

from hubaudit.errors import ModelFileError

__all__ = ["shard_paths"]

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


def shard_paths(path: Path) -> list[Path]:
    """All files of the GGUF model that `path` belongs to, in order.

    Args:
        path: A single file, or any shard.

    Raises:
        ModelFileError: If a shard is missing; the message names it.
    """
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    shards = [path.with_name(f"{match['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing or not shards:
        raise ModelFileError(
            f"{path.name} is one of {count} files of a model: expected all of them in {path.parent}, "
            f"{missing[0] if missing else 'the first'} is missing. Download the others."
        )
    return shards
