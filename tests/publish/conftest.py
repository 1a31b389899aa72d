"""Results and sections to put into cards, and the made-up report of the report's own tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

from report_example import example_report

from hubaudit.report.schema import Report


def result(value: float, dataset: str = "allenai/ai2_arc") -> dict[str, Any]:
    """One entry of ours for `model-index[].results`."""
    return {
        "task": {"type": "text-generation", "name": "Text Generation"},
        "dataset": {"name": "arc: 'first' # of two", "type": dataset, "revision": "0" * 40},
        "metrics": [{"type": "divergence", "value": value, "name": "KL \u00e9 from the base (nats per token)"}],
        "source": {"url": "https://huggingface.co/org/x/blob/main/hubaudit/report.json", "name": "hubaudit"},
    }


@pytest.fixture
def one() -> list[dict[str, Any]]:
    """Results of a first run."""
    return [result(0.25)]


@pytest.fixture
def two() -> list[dict[str, Any]]:
    """Results of a later run, on one more dataset."""
    return [result(1e-5), result(0.5, "openai/gsm8k")]


@pytest.fixture(scope="session")
def _example() -> Report:
    made = example_report()
    made.tasks[0].source = f"allenai/ai2_arc@{'a' * 40} ARC-Challenge test"
    made.tasks[1].source = f"openai/gsm8k@{'b' * 40} main test"
    return made


@pytest.fixture
def report(_example: Report) -> Report:
    """The example, which a test may change; its datasets are pinned as a real one's are."""
    return _example.model_copy(deep=True)


@pytest.fixture(scope="session")
def _hostile() -> Report:
    return example_report(hostile=True)


@pytest.fixture
def hostile(_hostile: Report) -> Report:
    """The example with an attack in every string from outside, which a test may change."""
    return _hostile.model_copy(deep=True)
