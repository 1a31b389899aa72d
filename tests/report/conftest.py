"""Reports to render: a realistic one, and one whose every string is an attack."""

from __future__ import annotations

import pytest
from report_example import example_report

from hubaudit.report.html import to_html
from hubaudit.report.schema import Report


@pytest.fixture(scope="session")
def plain_example() -> Report:
    """The example; not to be changed."""
    return example_report()


@pytest.fixture(scope="session")
def hostile_example() -> Report:
    """The example with attacks; not to be changed."""
    return example_report(hostile=True)


@pytest.fixture
def report(plain_example: Report) -> Report:
    """The example, which a test may change."""
    return plain_example.model_copy(deep=True)


@pytest.fixture
def hostile(hostile_example: Report) -> Report:
    """The example with an attack in every string that comes from outside."""
    return hostile_example.model_copy(deep=True)


@pytest.fixture(scope="session")
def page_text(plain_example: Report) -> str:
    """The HTML page of the example."""
    return to_html(plain_example)


@pytest.fixture(scope="session")
def hostile_page_text(hostile_example: Report) -> str:
    """The HTML page of the attacks."""
    return to_html(hostile_example)
