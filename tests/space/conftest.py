"""The page served on loopback, and a real browser."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

SHOTS = os.environ.get("HUBAUDIT_SCREENSHOTS")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Serves an app from a store in the test's folder; returns its address."""
    pages = []

    def start(*, sign_in: bool = False, **limits: Any) -> str:
        from hubaudit.space.app import SpaceApp
        from hubaudit.space.layout import launch_options, queued
        from hubaudit.space.limits import Limits
        from hubaudit.space.store import AuditStore

        app = SpaceApp(AuditStore(tmp_path / "store"), Limits(**limits), sign_in=sign_in)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            page = queued(app)
            _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(app))
        pages.append(page)
        return str(url)

    yield start
    for page in pages:
        page.close(verbose=False)


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a session of its own and fails the test when the page reports an error of its script."""
    contexts, errors = [], []

    def opened(url: str, *, width: int = 1280, scheme: str = "light") -> Any:
        size = {"width": width, "height": 900}
        context = chromium.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors


@pytest.fixture
def shot() -> Callable[[Any, str], None]:
    """Keeps a picture of the page in the folder that HUBAUDIT_SCREENSHOTS names; without one nothing is kept."""

    def take(page: Any, name: str) -> None:
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            page.wait_for_timeout(400)
            page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)

    return take


@pytest.fixture
def tiny_hub(hub: Any, tiny_tokenizer: Any, tmp_path: Path) -> Callable[[str, int], None]:
    """Puts a tiny random model on the tests' Hub."""

    def add(repo_id: str, seed: int) -> None:
        from tiny_llama import save_tiny_llama

        folder = save_tiny_llama(tmp_path / repo_id.replace("/", "-"), tiny_tokenizer, seed=seed)
        hub.add_folder(repo_id, folder, downloads=5)

    return add
