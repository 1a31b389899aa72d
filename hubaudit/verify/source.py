"""A report to verify: a file, or `hubaudit/report.json` of a Hub repo."""

from __future__ import annotations

import re
from pathlib import Path

from hubaudit.errors import InputError
from hubaudit.hub.access import hub_errors
from hubaudit.report.schema import MAX_REPORT_BYTES, Report, read_report

__all__ = ["REPORT_IN_REPO", "find_report"]

REPORT_IN_REPO = "hubaudit/report.json"
_REPO = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)


def find_report(reference: str) -> Report:
    """Read a report.

    Args:
        reference: Path of a report.json, or `ORG/NAME[@revision]` for the one in that model repo.

    Raises:
        InputError: If it is neither, or no report.
        AccessError: If the repo has none or cannot be read.
    """
    path = Path(reference)
    match = _REPO.fullmatch(reference)
    if path.exists() or match is None or ".." in reference or reference.endswith(".json"):
        return read_report(path)
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    repo_id, revision = match[1], match[2]
    with hub_errors(repo_id):
        if not HF_HUB_OFFLINE:
            found = HfApi(library_name="hubaudit").get_paths_info(repo_id, [REPORT_IN_REPO], revision=revision)
            size = next((getattr(entry, "size", 0) for entry in found), None)
            if size is None:
                raise InputError(
                    f"{repo_id}: expected {REPORT_IN_REPO} in the repo, got none; pass the path of a report.json"
                )
            if size > MAX_REPORT_BYTES:
                raise InputError(f"{repo_id}: a report has at most {MAX_REPORT_BYTES} bytes, but this one has {size}")
        stored = hf_hub_download(repo_id, REPORT_IN_REPO, revision=revision)
    return read_report(stored)
