"""A headless Chromium for pages, and everything that it complains about or asks for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Opened:
    """A page that is open, what it said on the console, and what it asked the network for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def many(self, selector: str) -> int:
        """How many elements a selector finds."""
        return int(self.page.locator(selector).count())

    def tip(self) -> str:
        """What the tooltip says, nothing where it is hidden."""
        tip = self.page.locator("#tip")
        return str(tip.inner_text()) if tip.evaluate("e => e.style.visibility") == "visible" else ""


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium, or the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def opened(launched: Any, address: str, *, width: int = 1200, dark: bool = False) -> Iterator[Opened]:
    """A page at an address, in a window of its own."""
    scheme = "dark" if dark else "light"
    context = launched.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        page = Opened(context.new_page())
        page.page.goto(address)
        page.page.wait_for_selector("#summary")
        yield page
    finally:
        context.close()
