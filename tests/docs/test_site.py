"""The documentation site builds strictly, and needs nothing from elsewhere; in a browser no page complains."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.report.browsing import Opened, browser

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs-material (scripts/install docs)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, "scripts/collect_pages"], cwd=ROOT, check=True, timeout=60)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_it_builds_strictly_and_works_offline(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="(https?://[^"]*)"', index) == []
    assert (site / "search" / "search_index.js").exists()


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_no_page_complains_is_too_wide_or_asks_the_network(site: Path) -> None:
    with browser() as launched:
        context = launched.new_context(viewport={"width": 400, "height": 800}, color_scheme="dark")
        opened = Opened(context.new_page())
        for file in sorted(site.rglob("*.html")):
            if file.name != "404.html":  # it is for a server, and has the addresses of one
                opened.page.goto(file.as_uri())
                wide = opened.page.evaluate("document.documentElement.scrollWidth")
                assert (wide <= 400, opened.complaints) == (True, []), file
        assert [each for each in opened.requests if not each.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
@pytest.mark.timeout(240)
def test_the_search_box_answers_without_a_server(site: Path) -> None:
    asked = {"what-if": "command-line.html", "guessed": "measure-your-machines.html", "Flower": "worth-it.html"}
    asked |= {"--trust-code": "command-line.html"}
    with browser() as launched:
        found = launched.new_context(viewport={"width": 1300, "height": 900}).new_page()
        found.goto((site / "index.html").as_uri())
        for word, page in asked.items():
            assert any(page in link for link in _answers(found, word)), word
        for word in ("price", "pt.plan", "bandwidth_trace"):
            assert "benchmarks" not in _answers(found, word)[0], word


def _answers(page: Any, word: str) -> list[str]:
    """Where a search leads; it is typed again while the index is still being read."""
    for _ in range(30):
        page.click(".md-search__input")
        page.fill(".md-search__input", "")
        page.keyboard.type(word)
        page.wait_for_timeout(1000)
        links = page.locator(".md-search-result__link").all()
        if links:
            return [str(link.get_attribute("href")) for link in links]
    return []
