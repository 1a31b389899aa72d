"""Rows of a Hub dataset at a pinned revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubaudit.hub.access import hub_errors, retried

__all__ = ["read_hub_rows"]


def read_hub_rows(repo_id: str, config: str | None, split: str) -> tuple[list[Mapping[str, Any]], str]:
    """Read one split of a dataset.

    Args:
        repo_id: Dataset id.
        config: Name of its configuration, or None for the default one.
        split: Name of the split.

    Returns:
        The rows, and the full commit SHA they were read at (`cache` when the Hub was not asked).

    Raises:
        AccessError: If the dataset is missing, gated, or the network is down.
    """
    import datasets
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    with hub_errors(repo_id, kind="dataset"):
        revision = None if HF_HUB_OFFLINE else retried(lambda: HfApi().dataset_info(repo_id)).sha
        bars = datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            rows = datasets.load_dataset(repo_id, config, split=split, revision=revision)
        finally:
            if not bars:
                datasets.enable_progress_bars()
    return list(rows), revision or "cache"
