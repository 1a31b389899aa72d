"""Findings about the files of a variant; those about figures are in tests/test_pipeline.py."""

from __future__ import annotations

import pytest
from report_example import example_report

from hubaudit.diagnose import diagnose
from hubaudit.report.schema import Report, TokenizerReport


def first_variant(report: Report, **tokenizer: object) -> dict[str, str]:
    """The texts of the first variant's findings by id, once it has this tokenizer."""
    model = report.variants[0].model
    assert model is not None
    same = {"n_tokens": 9, "n_differing": 0, "special_tokens": [], "chat_template": "same"}
    model.tokenizer = TokenizerReport.model_validate(same | tokenizer)
    diagnose(report)
    return {finding.id: finding.text for finding in report.variants[0].findings}


def test_the_same_tokenizer_is_no_finding() -> None:
    found = first_variant(example_report())
    assert not {"tokenizer_differs", "chat_template_differs", "vocabulary_differs"} & set(found)


def test_other_tokens_and_special_tokens_are_named() -> None:
    found = first_variant(example_report(), n_differing=3, special_tokens=["eos_token"])
    assert "3 token ids have other names, eos_token is another" in found["tokenizer_differs"]


@pytest.mark.parametrize(
    ("kind", "text"), [("differs", "not the base's"), ("missing", "is no chat"), ("added", "none")]
)
def test_the_chat_template(kind: str, text: str) -> None:
    assert text in first_variant(example_report(), chat_template=kind)["chat_template_differs"]


def test_a_padded_head_is_named_with_its_mass() -> None:
    report = example_report()
    model = report.variants[0].model
    assert model is not None
    model.head.vocabulary += 64
    block = report.variants[0].divergence["arc"]
    object.__setattr__(block, "extra_mass_variant", 0.25)
    assert "64" not in first_variant(example_report()).get("vocabulary_differs", "")
    text = first_variant(report)["vocabulary_differs"]
    assert f"the head has {model.head.vocabulary} rows" in text
    assert "at most 0.25 of the probability" in text
