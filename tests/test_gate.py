from __future__ import annotations

import pytest

from hubaudit.errors import InputError
from hubaudit.findings import FINDINGS
from hubaudit.gate import parse_gate


def test_a_finding_or_a_comparison() -> None:
    assert parse_gate("accuracy_drop").finding == "accuracy_drop"
    gate = parse_gate("prism_bound.bound >= 1e-3")
    assert (gate.block, gate.key, gate.sign, gate.value) == ("prism_bound", "bound", ">=", 1e-3)
    assert parse_gate("correctness_agreement<0.95").block is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "expected a comparison"),
        ("bound<x", "expected a number after <, got 'x'"),
        ("other.bound<1", "expected a block among"),
        ("prism_bound.kl_max<1", "no block of the report has a key 'kl_max'"),
        ("bond<1", "did you mean bound"),
    ],
)
def test_what_is_neither(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_gate(text)


def test_findings_have_one_line_each() -> None:
    assert all(text and "\n" not in text for text in FINDINGS.values())
