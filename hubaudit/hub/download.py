"""The files of a pinned repo on this machine: room checked first, progress shown, resumed by huggingface_hub."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from hubaudit.errors import OutOfDiskError
from hubaudit.hub.access import hub_errors
from hubaudit.hub.repo_files import RepoFiles
from hubaudit.progress import Progress

__all__ = ["download"]

_AT_ONCE = 4
_TELL_SECONDS = 0.25
_SPARE_BYTES = 2**28
"""What other programs may need meanwhile: 256 MiB."""


def download(files: RepoFiles, names: Sequence[str], progress: Progress) -> Path:
    """Fetch some files of a repo, those that the cache does not hold.

    Args:
        files: The repo at its commit.
        names: Which of its files, at least one.
        progress: Is told the bytes.

    Returns:
        The folder of the snapshot, in huggingface_hub's cache.

    Raises:
        OutOfDiskError: If they do not fit, before anything is fetched, or the disk fills up.
        AccessError: If a file cannot be read.
    """
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

    with hub_errors(files.repo_id):
        cached = {
            name: try_to_load_from_cache(files.repo_id, name, revision=files.revision, cache_dir=None) for name in names
        }
        missing = [name for name in names if not isinstance(cached[name], str)]
        if not missing:
            return _folder(Path(str(cached[names[0]])), names[0])
        needed = sum(files.sizes[name] for name in missing)
        _check_room(files.repo_id, needed, Path(constants.HF_HUB_CACHE))
        fetched = _Counter()
        bar = _bar(fetched)

        def fetch(name: str) -> str:
            return hf_hub_download(files.repo_id, name, revision=files.revision, tqdm_class=bar)

        progress.begin(f"downloading {files.repo_id}", needed)
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            futures = [pool.submit(fetch, name) for name in missing]
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=_TELL_SECONDS, return_when="FIRST_EXCEPTION")
                # Told from this thread, whose step it is; a listener that stops the work does so here, too.
                progress.advance(fetched.take())
                for future in done:
                    future.result()
            paths = [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            progress.end()
    return _folder(Path(paths[0]), missing[0])


def _folder(path: Path, name: str) -> Path:
    return path.parents[name.count("/")]


def _check_room(repo_id: str, needed: int, cache: Path) -> None:
    existing = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed + _SPARE_BYTES > free:
        raise OutOfDiskError(
            f"{repo_id}: its files take {needed / 1e9:.1f} GB, but {existing} has {free / 1e9:.1f} GB free; "
            "free space, or set HF_HOME to another disk"
        )


class _Counter:
    """Bytes that threads have fetched since they were last asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    def add(self, amount: int) -> None:
        with self._lock:
            self._bytes += amount

    def take(self) -> int:
        with self._lock:
            amount, self._bytes = self._bytes, 0
        return amount


def _bar(fetched: _Counter) -> Any:
    """A bar as huggingface_hub drives it, which counts instead of drawing."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]  # as below

    class Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*arguments, **{**options, "disable": True})
            if resumed := int(options.get("initial") or 0):
                fetched.add(resumed)

        def update(self, n: float | None = 1) -> None:
            fetched.add(int(n or 0))

    return Bar
