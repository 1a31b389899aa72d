"""The HTML page: complete, self-contained, and deaf to what strings from outside would like it to do."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_example import HOSTILE

from hubaudit.report.figures import COLUMNS
from hubaudit.report.html import to_html
from hubaudit.report.schema import Report
from hubaudit.report.text import clean

CHROMIUM = Path("/usr/bin/chromium")
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Elements with attributes, the text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.in_drawing: list[bool] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_drawing.append("svg" in self.open)
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_drawing.append("svg" in self.open)
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def structure(page: Page) -> list[tuple[str, tuple[str, ...]]]:
    """Elements outside the drawings with the names of their attributes, and all that can run or fetch."""
    return [
        (name, tuple(sorted(attributes)))
        for place, (name, attributes) in enumerate(page.elements)
        if not page.in_drawing[place] or name in ("script", "style", "a", "image", "foreignObject")
    ]


def test_the_page_is_well_formed(page_text: str) -> None:
    page = Page(page_text)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [attributes["href"][1:] for attributes in page.all("a")]
    assert set(targets) <= set(ids)
    assert page.all("html")[0]["lang"] == "en"


def test_nothing_is_fetched(page_text: str) -> None:
    text = page_text
    page = Page(text)
    for tag, attributes in page.elements:
        for key in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
            assert attributes.get(key, "#").startswith("#") or attributes[key] == "data:,", (tag, attributes)
        assert not any(key.startswith("on") for key in attributes), (tag, attributes)
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}


def test_the_policy_allows_this_script_and_no_other(page_text: str) -> None:
    page = Page(page_text)
    (policy,) = [entry["content"] for entry in page.all("meta") if entry.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256("".join(page.scripts).encode()).digest()).decode()
    assert len(page.all("script")) == 1
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_every_variant_column_and_plot_is_there(page_text: str) -> None:
    text = page_text
    page = Page(text)
    words = " ".join(page.texts)
    for label in ("Q8_0", "rtn:8@g128", "bnb:nf4", "tiny-60M-distilled", "tiny-135M-EXL3"):
        assert label in words
    for column in COLUMNS:
        assert column.title in words
        assert column.meaning in words
    assert {entry.get("id") for entry in page.all("figure")} == {
        f"plot-{name}"
        for name in ("flips", "size", "bound", "axes", "direction", "monitor", "structure", "ranking", "series")
    }
    plots = [entry for entry in page.all("svg") if "plot" in entry.get("class", "")]
    assert len(plots) == 18, "a wide and a narrow form of each"
    assert all(entry["role"] == "img" and len(entry["aria-label"]) > 40 for entry in plots)


def test_figures_explain_themselves(page_text: str) -> None:
    page = Page(page_text)
    hints = [entry["title"] for entry in page.all("abbr")]
    assert len(hints) > 19 * len(COLUMNS)
    assert all(hints)
    assert any(hint.startswith("Undefined: the variant's features are 384 wide") for hint in hints)
    assert any("n = 3120 tokens" in hint and "Without any change: 0" in hint for hint in hints)


def test_plots_follow_the_pages_colours(page_text: str) -> None:
    text = re.sub(r'<figure id="plot-structure".*?</figure>', "", page_text, flags=re.DOTALL)  # its colours are a scale
    plots = "".join(re.findall(r'<svg class="plot.*?</svg>', text, flags=re.DOTALL))
    assert "var(--ink)" in plots
    assert 'id="plot-structure"' not in text
    assert re.findall(r"(?:fill|stroke|color): #[0-9a-f]{6}", plots) == []
    style = text[text.index("<style>") : text.index("</style>")]
    used = set(re.findall(r"var\((--[a-z]+)\)", plots))
    dark = style[style.index("prefers-color-scheme: dark") :]
    assert used - {"--sans"} <= set(re.findall(r"(--[a-z]+):", dark))


def test_changed_answers_show_both_sides_and_count_the_rest(report: Report) -> None:
    items = report.variants[0].changed_items["arc"]
    item = items[0].model_copy(update={"base_answer": "the base said\nthis", "variant_answer": "x" * 2000})
    report.variants[0].changed_items["arc"] = [item] + items * 30
    report.variants = report.variants[:1]
    text = to_html(report)
    assert "the base said\nthis" in text
    assert "x" * 600 not in text
    assert re.search(r"x{200,260}…x{200,260}", text), "long answers are shortened"
    assert f"Changed answers on arc: {1 + 30 * len(items)}" in text
    assert f"{1 + 30 * len(items) - 60} more are in report.json." in text


def test_hostile_strings_stay_text(page_text: str, hostile_page_text: str) -> None:
    text = hostile_page_text
    page = Page(text)
    assert page.open == []
    assert len(page.all("script")) == 1
    assert "<!--" not in text
    assert "\x1b" not in text
    assert clean(HOSTILE) in " ".join(page.texts)
    harmless = structure(Page(page_text))
    assert len(harmless) > 5000
    assert structure(page) == harmless, "no element or attribute more than in a harmless report"


def test_reports_with_little_in_them(report: Report) -> None:
    report.contrast, report.compute_floor, report.ranking, report.findings = None, None, {}, []
    report.ranking_pooled, report.series, report.variants = None, [], report.variants[-1:]
    text = to_html(report)
    assert "In pictures" not in text
    assert "No variant was audited completely." in text
    report.variants, report.tasks = [], []
    assert "This audit has no variants." in to_html(report)


@pytest.fixture
def browser() -> Iterator[Any]:
    """A real browser, where this machine has one."""
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright, which no extra installs")
    if not CHROMIUM.exists():
        pytest.skip(f"needs a browser at {CHROMIUM}")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with sync.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield running
        running.close()


def test_in_a_browser(browser: Any, page_text: str, hostile_page_text: str, tmp_path: Path) -> None:
    (tmp_path / "hostile.html").write_text(hostile_page_text, encoding="utf-8")
    (tmp_path / "report.html").write_text(page_text, encoding="utf-8")
    heard: list[str] = []
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.on("dialog", lambda dialog: heard.append("dialog") or dialog.dismiss())
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if not request.url.startswith("file:") else None)
    for name in ("hostile", "report"):
        page.goto((tmp_path / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone need not scroll sideways"
    assert heard == []

    names = "[...document.querySelectorAll('#figures tbody th')].map(cell => cell.textContent.slice(1))"
    values = "[...document.querySelectorAll('#figures tbody tr')].map(row => row.children[8].dataset.sort)"
    header = page.locator("#figures thead button", has_text="Bound")
    header.click()
    order = page.evaluate(values)
    known = [float(value) for value in order if value]
    assert known == sorted(known)
    assert len(known) == 16
    assert order[-3:] == ["", "", ""], "undefined figures stay last"
    header.click()
    order = page.evaluate(values)
    assert [float(value) for value in order if value] == known[::-1]
    assert order[-3:] == ["", "", ""]
    assert page.evaluate(names)[0] == "rtn:3@g128"

    page.evaluate("document.querySelector('#figures tbody abbr[tabindex=\"0\"]').focus()")
    assert page.inner_text("#explain")
    page.evaluate("document.querySelector('#figures tbody tr').querySelector('abbr').focus()")
    assert "Stored size" in page.inner_text("#explain")
    page.keyboard.press("ArrowRight")
    assert "Stored bits" in page.inner_text("#explain")
    page.keyboard.press("Escape")
    assert page.inner_text("#explain") == ""
