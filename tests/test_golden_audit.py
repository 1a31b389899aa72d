"""Speed must not change a result: an audit of a tiny model against its committed figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"
sys.path.insert(0, str(GOLDEN))

from make_audit import audit_figures  # noqa: E402


def test_no_figure_of_the_golden_audit_has_changed(tmp_path: Path, tiny_tokenizer: Any) -> None:
    golden = json.loads((GOLDEN / "audit_tiny.json").read_text())
    found = audit_figures(tmp_path, tiny_tokenizer)
    assert found.keys() == golden.keys()
    assert len(golden) > 500
    # Counts, answers and verdicts are exact; processors add in different orders, so real numbers are not.
    changed = {
        path: (found[path], value)
        for path, value in golden.items()
        if found[path] != (pytest.approx(value, rel=1e-3, abs=1e-6) if isinstance(value, float) else value)
    }
    assert not changed
