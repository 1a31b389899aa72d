"""What audits leave on the server's disk, kept within bounds: evidence, and on a Space the Hub's cache."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

__all__ = ["keep_within"]


def keep_within(work: Path, max_bytes: int) -> None:
    """Remove what is not needed for stored audits once it has grown too large.

    Args:
        work: The folder of evidence; it goes as a whole, since any part may be shared.
        max_bytes: Of the evidence, and of the Hub's cache on a Space. Elsewhere that cache belongs to the user.
    """
    if _size(work) > max_bytes:
        shutil.rmtree(work, ignore_errors=True)
    if not os.environ.get("SPACE_ID"):
        return
    from huggingface_hub import scan_cache_dir

    with contextlib.suppress(Exception):  # a cache that cannot be read is no reason to fail an audit
        cache = scan_cache_dir()
        oldest = sorted(cache.repos, key=lambda repo: repo.last_accessed)
        left, commits = cache.size_on_disk, []
        for repo in oldest:
            if left <= max_bytes:
                break
            commits += [revision.commit_hash for revision in repo.revisions]
            left -= repo.size_on_disk
        cache.delete_revisions(*commits).execute()
        for file in cache.incomplete_files:  # of downloads that were cancelled; no audit runs now
            Path(file.file_path).unlink(missing_ok=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
