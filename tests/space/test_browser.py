"""The page in a real browser: what a visitor does, from the search to the pull request."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_example import example_report

from hubaudit.hub import access

BASE, QUANTS = "acme/SmolLM2-135M-Instruct", "quantizer/SmolLM2-135M-Instruct-GGUF"
QUANT_CARD = f"---\nbase_model: {BASE}\nbase_model_relation: quantized\ntags: [gguf]\n---\n# GGUF files\n"

# gradio and its web server warn about each other.
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

Serve = Callable[..., str]
Open = Callable[..., Any]


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """An audit in the store before the page starts."""
    from hubaudit.space.store import AuditStore

    return AuditStore(tmp_path / "store").save(example_report()).audit_id


@pytest.fixture
def smollm2_hub(hub: Any, smollm2: Path, quantized: dict[str, Path]) -> Any:
    """The real model and a repo with two quants of it."""
    hub.add_folder(BASE, smollm2, card="---\nlicense: apache-2.0\n---\n# SmolLM2\n", downloads=100)
    hub.add(QUANTS, {"README.md": QUANT_CARD} | {path.name: path for path in quantized.values()}, downloads=9)
    return hub


def find(page: Any, base: str) -> None:
    page.get_by_role("tab", name="Audit", exact=True).click()
    page.get_by_label("Base model").fill(base)
    page.get_by_label("Base model").press("Enter")
    page.get_by_role("button", name="Find its variants").click()


def test_the_whole_journey(
    smollm2_hub: Any, serve: Serve, open_page: Open, shot: Callable[..., None], tmp_path: Path
) -> None:
    page = open_page(serve(sign_in=True))
    page.get_by_role("tab", name="Audit", exact=True).click()
    box = page.get_by_label("Base model")
    box.click()
    box.press_sequentially("smol", delay=40)
    page.get_by_role("option", name=BASE).click()
    page.get_by_role("button", name="Find its variants").click()
    page.get_by_text(re.compile("2 variants on the Hub")).wait_for()
    shot(page, "journey-1-found")
    page.get_by_label(re.compile("bnb:nf4")).uncheck()
    page.get_by_label(re.compile(re.escape(f"{QUANTS}:Q4_0"))).check()
    slider = page.get_by_role("spinbutton", name=re.compile("Items of each task"))
    slider.fill("4")
    slider.press("Tab")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text(re.compile(r"time\s+about")).wait_for()
    shot(page, "journey-2-plan")
    run = page.get_by_role("button", name="Run the audit")
    run.click()
    page.locator(".progress-text").first.wait_for()
    shot(page, "journey-3-running")
    frame = page.frame_locator("iframe.audit")
    frame.get_by_role("heading", name=re.compile("variant")).first.wait_for(timeout=120_000)
    assert frame.get_by_text("Q4_0").first.is_visible()
    shot(page, "journey-4-read")

    with page.expect_download() as download:
        page.get_by_role("link", name="Download JSON").or_(page.get_by_role("button", name="Download JSON")).click()
    report = json.loads(Path(download.value.path()).read_text())
    assert report["base"]["repo_id"] == BASE
    assert [variant["status"] for variant in report["variants"]] == ["done"]

    link = page.get_by_role("link", name="Link to this audit").get_attribute("href")
    again = open_page(page.url.split("?")[0] + link)
    again.frame_locator("iframe.audit").get_by_text("Q4_0").first.wait_for()

    page.get_by_role("button", name=re.compile("Publish to the model")).click()
    page.get_by_role("button", name=re.compile("Sign in")).click()
    page.wait_for_timeout(2000)
    page.frame_locator("iframe.audit").get_by_text("Q4_0").first.wait_for()
    page.get_by_role("button", name=re.compile("Publish to the model")).click()
    page.get_by_role("button", name=re.compile("Logout")).wait_for()
    page.get_by_role("button", name="Preview").click()
    page.get_by_text(re.compile("a pull request with")).first.wait_for()
    shot(page, "journey-5-preview")
    page.get_by_role("button", name="Open the pull request").click()
    page.get_by_text("Opened:").wait_for()
    shot(page, "journey-6-published")
    (request,) = smollm2_hub.repos["models", QUANTS].pull_requests
    assert request
    assert "TESTSECRET" not in page.content()


def test_cancel_in_the_middle(smollm2_hub: Any, serve: Serve, open_page: Open, shot: Callable[..., None]) -> None:
    page = open_page(serve())
    find(page, BASE)
    page.get_by_text(re.compile("2 variants on the Hub")).wait_for()
    slider = page.get_by_role("spinbutton", name=re.compile("Items of each task"))
    slider.fill("200")
    slider.press("Tab")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text(re.compile(r"time\s+about")).wait_for()
    page.get_by_role("button", name="Run the audit").click()
    page.get_by_text(re.compile("running base")).wait_for(timeout=60_000)
    started = time.monotonic()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile("the audit was stopped")).wait_for()
    assert time.monotonic() - started < 20
    shot(page, "cancelled")


def test_two_visitors_at_once(hub: Any, tiny_hub: Callable[[str, int], None], serve: Serve, open_page: Open) -> None:
    tiny_hub("acme/one", 0)
    tiny_hub("acme/two", 1)
    url = serve()
    pages = {base: open_page(url) for base in ("acme/one", "acme/two")}
    for base, page in pages.items():
        find(page, base)
        page.get_by_text(re.compile("0 variants on the Hub")).wait_for()
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_text(re.compile(r"time\s+about")).wait_for()
    for page in pages.values():
        page.get_by_role("button", name="Run the audit").click()
    for base, page in pages.items():
        page.frame_locator("iframe.audit").get_by_text(base).first.wait_for(timeout=90_000)
        other = next(name for name in pages if name != base)
        assert other not in page.locator("iframe.audit").get_attribute("srcdoc")


def test_a_model_that_is_too_large_is_refused_with_the_ways_on(
    hub: Any, tiny_hub: Callable[[str, int], None], serve: Serve, open_page: Open, shot: Callable[..., None]
) -> None:
    tiny_hub("acme/one", 0)
    page = open_page(serve(max_parameters=1000))
    find(page, "acme/one")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text("does not run on this page").wait_for()
    assert page.get_by_text(re.compile("hubaudit audit acme/one@")).first.is_visible()
    assert page.get_by_text(re.compile("hf jobs run")).first.is_visible()
    assert page.get_by_role("button", name="Run the audit").is_disabled()
    shot(page, "refused")


def test_the_hub_is_down(hub: Any, serve: Serve, open_page: Open, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_WAITS", (0.0,))
    hub.fail(".*", 503, times=10_000)
    page = open_page(serve())
    page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
    find(page, "acme/one")
    page.get_by_text(re.compile("acme/one: ")).wait_for(timeout=60_000)
    assert "Traceback" not in page.content()


@pytest.mark.parametrize("typed", ["/etc/passwd", "../..", "<script>alert(1)</script>", "acme/one@main", "x" * 300])
def test_what_is_no_repo_is_refused(hub: Any, serve: Serve, open_page: Open, typed: str) -> None:
    page = open_page(serve())
    find(page, typed)
    page.get_by_text("expected a model's id on the Hub").wait_for()
    # Only the search as one types was asked.
    assert {request.split("?")[0] for request in hub.requests} <= {"GET /api/models", "GET /api/agent-harnesses"}


def test_files_are_compared(serve: Serve, open_page: Open, tmp_path: Path, shot: Callable[..., None]) -> None:
    rows = [{"id": n, "prediction": "A" if n % 3 else "B", "reference": "A"} for n in range(60)]
    (tmp_path / "base.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed = [row | ({"prediction": "C"} if row["id"] % 10 == 1 else {}) for row in rows]
    (tmp_path / "variant.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))
    page = open_page(serve())
    page.get_by_role("tab", name="Compare", exact=True).click()
    inputs = page.locator("input[type=file]:visible, [role=tabpanel]:visible input[type=file]")
    inputs.nth(0).set_input_files(str(tmp_path / "base.jsonl"))
    page.get_by_text("base.jsonl").first.wait_for()
    page.locator("[role=tabpanel]:visible input[type=file]").first.set_input_files(str(tmp_path / "variant.jsonl"))
    page.get_by_text("variant.jsonl").first.wait_for()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("flip_rate").first.wait_for()
    assert "36 right answers kept, 4 lost" in page.locator("img.plot").get_attribute("alt")
    shot(page, "compared")
    assert str(tmp_path) not in page.content()
    assert "/tmp/gradio" not in page.locator("[role=tabpanel]:visible").inner_text()


HOSTILE = {
    "script.csv": 'id,prediction,reference\n1,<script>alert(1)</script>,A\n2,=HYPERLINK("http://x"),A\n',
    "bomb.json": "[" * 200_000,
    "broken.json": "{not json",
    "empty.jsonl": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_do_nothing(serve: Serve, open_page: Open, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HOSTILE[name])
    page = open_page(serve())
    page.get_by_role("tab", name="Compare", exact=True).click()
    panel = "[role=tabpanel]:visible input[type=file]"
    page.locator(panel).nth(0).set_input_files(str(tmp_path / name))
    page.get_by_text(name).first.wait_for()
    page.locator(panel).first.set_input_files(str(tmp_path / name))
    page.get_by_role("button", name="Compare", exact=True).click()
    outcome = (
        page.get_by_text("flip_rate").first if name == "script.csv" else page.get_by_text(re.compile("Error")).first
    )
    outcome.wait_for()
    assert page.locator("script:text('alert(1)')").count() == 0


def test_a_huge_file_is_refused(serve: Serve, open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "huge.jsonl").write_text("{}\n" * 100_000)
    page = open_page(serve(max_upload_bytes=100_000))
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.locator("[role=tabpanel]:visible input[type=file]").first.set_input_files(str(tmp_path / "huge.jsonl"))
    told = page.get_by_text(re.compile("exceed|size|large", re.IGNORECASE)).first
    told.wait_for()
    assert told.is_visible()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("upload two files").wait_for()
    assert page.get_by_text("flip_rate").count() == 0


def test_a_hostile_report_stays_in_its_frame(serve: Serve, open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(example_report(hostile=True).to_json())
    page = open_page(serve())
    page.get_by_role("button", name=re.compile("Show a report.json")).click()
    page.locator("[role=tabpanel]:visible input[type=file]").first.set_input_files(str(tmp_path / "report.json"))
    page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
    assert page.locator("iframe.audit").get_attribute("sandbox") == "allow-scripts"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_the_first_look(
    serve: Serve, open_page: Open, stored: str, width: int, scheme: str, shot: Callable[..., None]
) -> None:
    url = serve()
    page = open_page(url, width=width, scheme=scheme)
    page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
    # No part of the page is wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    look = f"{'phone' if width < 500 else 'desktop'}-{scheme}"
    shot(page, f"{look}-read")
    for tab in ("Audit", "Compare", "Metrics"):
        page.get_by_role("tab", name=tab, exact=True).click()
        shot(page, f"{look}-{tab.split()[0].lower()}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keyboard_is_enough(serve: Serve, open_page: Open, stored: str) -> None:
    page = open_page(serve())
    page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
    page.get_by_role("tab", name="Read").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_label("Base model").wait_for()
    names = page.evaluate(
        "[...document.querySelectorAll('[role=tabpanel] button, [role=tabpanel] input')]"
        ".filter(e => e.offsetParent && !(e.innerText || e.getAttribute('aria-label') || (e.labels||[]).length"
        " || e.title || e.placeholder)).length"
    )
    assert names == 0


def test_a_link_that_is_not_there_says_so(serve: Serve, open_page: Open, stored: str) -> None:
    page = open_page(serve() + "?audit=" + "0" * 16)
    told = page.get_by_text(re.compile("no audit with this link"))
    told.wait_for()
    assert told.is_visible()
    # The newest audit is shown in its place.
    page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
    assert stored in page.get_by_role("link", name="Link to this audit").get_attribute("href")


def test_a_restart_loses_nothing(serve: Serve, open_page: Open, stored: str) -> None:
    for _ in range(2):
        page = open_page(serve() + f"?audit={stored}")
        page.frame_locator("iframe.audit").get_by_role("heading").first.wait_for()
        assert stored in page.get_by_role("link", name="Link to this audit").get_attribute("href")
