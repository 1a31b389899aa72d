"""Fixtures for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of papers' tables and real data, which only the developers' machines have."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the reference data in {SHARED}, which is not part of the project")
    return SHARED
