"""The README says what the code does."""

from __future__ import annotations

from pathlib import Path

from hubaudit.findings import FINDINGS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_findings_is_the_one_in_the_code() -> None:
    rows = [f"| `{name}` | {text} |" for name, text in FINDINGS.items()]
    assert "\n".join(rows) in README


def test_every_link_leads_somewhere() -> None:
    import re

    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
