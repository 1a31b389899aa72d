"""Files that are either whole or not there: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path

from hubaudit.errors import HubAuditError, InputError, OutOfDiskError

__all__ = ["remove_file", "write_file"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_file(path: Path, content: bytes) -> Path:
    """Write a file atomically, making its folder where needed.

    Args:
        path: The file; an older one is replaced.
        content: All of its bytes.

    Returns:
        `path`.

    Raises:
        OutOfDiskError: If the disk is full; the older file stays as it was.
        InputError: If the file cannot be written for another reason.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _error(path, len(content), exc) from exc
    return path


def remove_file(path: Path) -> None:
    """Remove a file if it is there.

    Raises:
        InputError: If it is there and cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise _error(path, 0, exc) from exc


def _error(path: Path, n_bytes: int, exc: OSError) -> HubAuditError:
    if exc.errno in _FULL:
        return OutOfDiskError(
            f"{path}: the disk is full, {n_bytes} bytes are needed ({exc.strerror}); "
            "free some space, or name another folder with --out or --cache-dir"
        )
    why = exc.strerror or exc
    return InputError(
        f"{path}: cannot be written ({why}); name a folder that you may write to with --out or --cache-dir"
    )
