"""Audits as files: kept over restarts, read again by their id, and optionally copied to a dataset repo."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from hubaudit.errors import HubAuditError, InputError
from hubaudit.files import write_file
from hubaudit.report.schema import Report, read_report

__all__ = ["AuditStore", "StoredAudit"]

_ID = re.compile(r"[0-9a-f]{16}")
_MAX_BYTES = 50_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredAudit:
    """One audit in the list."""

    audit_id: str
    base: str
    created: str
    variants: tuple[str, ...]
    path: Path

    @property
    def title(self) -> str:
        """For a list: base, number of variants, day."""
        count = f"{len(self.variants)} variant" + ("s" if len(self.variants) != 1 else "")
        return f"{self.base} · {count} · {self.created[:10]}"


class AuditStore:
    """A folder with a subfolder for each audit, named by the hash of its report."""

    def __init__(
        self, folder: Path, *, bundled: Path | None = None, dataset: str | None = None, max_stored: int = 2000
    ) -> None:
        """Use a folder, which need not exist yet.

        Args:
            folder: Where new audits go.
            bundled: Audits that come with the program, only read.
            dataset: A dataset repo that each new audit is copied to, with the server's own token.
            max_stored: Audits kept in the folder.
        """
        self.folder = folder
        self.bundled = bundled
        self.dataset = dataset
        self.max_stored = max_stored
        self._known: dict[Path, tuple[int, StoredAudit]] = {}
        self._lock = threading.Lock()

    def save(self, report: Report) -> StoredAudit:
        """Keep an audit.

        Raises:
            OutOfDiskError: If the disk is full.
        """
        content = report.to_json().encode("utf-8")
        audit_id = hashlib.sha256(content).hexdigest()[:16]
        path = write_file(self.folder / audit_id / "report.json", content)
        self._forget_oldest()
        return self._entry(path, report)

    def copy_to_dataset(self, audit: StoredAudit) -> str | None:
        """Copy an audit to the dataset repo, if there is one.

        Returns:
            What went wrong, for the server's log; None where nothing did. The audit is kept here in any case.
        """
        if self.dataset is None:
            return None
        from huggingface_hub import HfApi

        try:
            HfApi(token=os.environ.get("HF_TOKEN")).upload_file(
                path_or_fileobj=audit.path.read_bytes(),
                path_in_repo=f"audits/{audit.audit_id}/report.json",
                repo_id=self.dataset,
                repo_type="dataset",
                commit_message=f"audit {audit.audit_id}",
            )
        except Exception as exc:  # the Hub's and its HTTP client's trees; the audit itself must not be lost
            return f"{self.dataset}: {type(exc).__name__}"
        return None

    def fetch_from_dataset(self) -> None:
        """Take over the dataset repo's audits, as after a restart on an empty disk; one that is no report is left."""
        if self.dataset is None:
            return
        from huggingface_hub import HfApi

        with contextlib.suppress(Exception):  # without the Hub the page serves what it has
            api = HfApi(token=os.environ.get("HF_TOKEN"))
            names = [name for name in api.list_repo_files(self.dataset, repo_type="dataset") if _is_report(name)]
            for name in names[-self.max_stored :]:
                target = self.folder / name.split("/")[1] / "report.json"
                if not target.exists():
                    source = api.hf_hub_download(self.dataset, name, repo_type="dataset")
                    with contextlib.suppress(HubAuditError):
                        self._adopt(Path(source), target)

    def list(self) -> list[StoredAudit]:
        """All audits, the newest first; files that are no report are left out."""
        found = []
        for place in (self.folder, self.bundled):
            for path in sorted(place.glob("*/report.json")) if place is not None and place.is_dir() else ():
                if _ID.fullmatch(path.parent.name) and (entry := self._read_entry(path)) is not None:
                    found.append(entry)
        return sorted(found, key=lambda entry: entry.created, reverse=True)

    def of(self, base: str) -> Sequence[StoredAudit]:
        """The audits of one base, the newest first."""
        return [entry for entry in self.list() if entry.base == base]

    def load(self, audit_id: str) -> Report:
        """An audit by its id.

        Raises:
            InputError: If there is none; ids of another form never reach the file system.
        """
        if _ID.fullmatch(audit_id):
            for place in (self.folder, self.bundled):
                path = place / audit_id / "report.json" if place is not None else None
                if path is not None and path.is_file():
                    return read_report(path)
        raise InputError("there is no audit with this id here; it may have been removed. Choose one from the list")

    def _adopt(self, source: Path, target: Path) -> None:
        if source.stat().st_size <= _MAX_BYTES:
            read_report(source)
            write_file(target, source.read_bytes())

    def _read_entry(self, path: Path) -> StoredAudit | None:
        try:
            stamp = path.stat().st_mtime_ns
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                self._known[path] = known = (stamp, self._entry(path, read_report(path)))
        except (HubAuditError, OSError):  # no report, or removed meanwhile
            return None
        return known[1]

    @staticmethod
    def _entry(path: Path, report: Report) -> StoredAudit:
        return StoredAudit(
            audit_id=path.parent.name,
            base=report.base.repo_id or report.base.spec.rstrip("/").rsplit("/", 1)[-1],
            created=report.created,
            variants=tuple(variant.spec for variant in report.variants),
            path=path,
        )

    def _forget_oldest(self) -> None:
        with self._lock:
            folders = [path for path in self.folder.iterdir() if _ID.fullmatch(path.name)]
            folders.sort(key=lambda path: path.stat().st_mtime)
            for path in folders[: max(0, len(folders) - self.max_stored)]:
                shutil.rmtree(path, ignore_errors=True)


def _is_report(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 3 and (parts[0], parts[2]) == ("audits", "report.json") and bool(_ID.fullmatch(parts[1]))
