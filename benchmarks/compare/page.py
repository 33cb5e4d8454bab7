"""When a page is there, can be seen, and answers, in a headless Chromium."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
# The click waits in the queue until the page has nothing else to do; the next frame shows what it changed.
ANSWERED = """() => new Promise(done => {
  const before = document.querySelector("#summary").textContent;
  document.querySelector("#entry-1").click();
  requestAnimationFrame(() => setTimeout(() => done({
    now: performance.now(), changed: document.querySelector("#summary").textContent !== before
  })));
})"""


def opened(page: Path, slow: int, turns: int) -> dict[str, float]:
    """Medians over several visits, each in a window of its own, by a processor ``slow`` times as slow."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        visit(browser, page, slow)  # the browser's own first time
        visits = [visit(browser, page, slow) for _ in range(turns)]
        browser.close()
    return {name: round(statistics.median(each[name] for each in visits), 1) for name in visits[0]}


def visit(browser: Browser, page: Path, slow: int) -> dict[str, float]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    context.new_cdp_session(opened).send("Emulation.setCPUThrottlingRate", {"rate": slow})
    opened.goto(page.as_uri(), wait_until="domcontentloaded")
    answer: dict[str, Any] = opened.evaluate(ANSWERED)
    assert answer["changed"], "the click has to change what is shown"
    times: dict[str, float] = opened.evaluate(
        """() => ({
          parsed_ms: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
          painted_ms: Math.max(0, ...performance.getEntriesByType("paint").map(e => e.startTime)),
        })"""
    )
    context.close()
    return times | {"answered_ms": answer["now"]}
