"""The page of a fleet in a browser, wide and narrow: equal nodes folded, tables that sort, sliders that move bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import palmette as pt
from palmette.plan.core.comparison import compare
from palmette.report import pareto
from palmette.report.build import build_report
from palmette.report.entry import read_entries
from palmette.spec.hourly_price import HourlyPrice
from tests.plan import fleets
from tests.report.browsing import Opened, browser, opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A fleet of 20 phones, three edge servers and a cloud that is rented; planned by what plans in a moment."""
    folder = tmp_path_factory.mktemp("fleet")
    known, cluster = fleets.fleet()
    rented = cluster.nodes["cloud"].model_copy(update={"price": HourlyPrice(per_hour=0.4, currency="EUR")})
    cluster = cluster.model_copy(update={"nodes": {**cluster.nodes, "cloud": rented}})
    made = pt.plan("hybrid", profile=known, cluster=cluster, batch=fleets.BATCH, effort=0.01)
    (folder / "plan.json").write_text(made.to_json())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pareto, "compare", lambda task: compare(task, {"effort": 0.01}, ["hybrid"]))
        (folder / "report.html").write_text(build_report(read_entries([folder / "plan.json"])), encoding="utf-8")
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as launched:
        yield launched


@pytest.fixture(params=[1300, 400])
def shown(chromium: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Opened]:
    with opened(chromium, address, width=request.param) as page:
        yield page
        assert page.complaints == []
        assert page.page.evaluate("document.documentElement.scrollWidth") <= request.param


def test_equal_nodes_are_one_until_unfolded(shown: Opened) -> None:
    few = shown.many("#chart-tree .node")
    assert few <= 10
    assert " × phone" in str(shown.page.locator("#chart-tree").text_content())
    shown.page.click('[data-toggle="folded"]')
    assert shown.many("#chart-tree .node") == 24
    assert shown.many("#chart-tree .link") > few


def test_links_of_folded_nodes_are_counted_whole(shown: Opened) -> None:
    assert shown.many("#chart-tree .node") <= 10
    labels = shown.page.locator("#chart-tree .linked").all_text_contents()
    assert {"7 links of 40 Mbit/s", "7 links of 30 Mbit/s", "6 links of 20 Mbit/s"} <= set(labels)


def test_equal_links_of_unfolded_nodes_share_a_line_and_a_label(shown: Opened) -> None:
    shown.page.click('[data-toggle="folded"]')
    labels = shown.page.locator("#chart-tree .linked").all_text_contents()
    assert {"7 links of 40 Mbit/s", "7 links of 30 Mbit/s", "6 links of 20 Mbit/s"} <= set(labels)
    shown.page.locator("#chart-tree .alike").first.dispatch_event("pointermove")
    assert "to phone2, phone5" in shown.tip()
    shown.page.locator("#chart-tree .link").first.dispatch_event("pointerdown")
    named, speed, *_ = shown.tip().splitlines()
    assert (set(named.split(" – ")), speed) == ({"phone2", "edge2"}, "20 Mbit/s")


def test_sliders_move_the_bars(shown: Opened) -> None:
    wide = "[...document.querySelectorAll('#chart-sliders-0 .bar')].map((bar) => bar.getAttribute('width')).join()"
    told = "document.querySelector('#chart-sliders-0').textContent"
    before = shown.page.evaluate(told)
    shown.page.locator("#slider-0-epochs").evaluate("e => { e.value = 9; e.dispatchEvent(new Event('input')); }")
    longer = shown.page.evaluate(told)
    assert longer != before
    assert "1000" in shown.page.locator("label[for=slider-0-epochs]").inner_text()
    before = shown.page.evaluate(wide)
    shown.page.locator("#slider-0-0").evaluate("e => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    assert shown.page.evaluate(told) != longer
    assert shown.page.evaluate(wide) != before
    shown.page.click("#sliders-0-cost")
    assert "EUR" in shown.page.evaluate(told)


def test_a_click_on_a_heading_sorts(shown: Opened) -> None:
    cells = "[...document.querySelectorAll('#strategies tbody tr')].map((row) => row.children[2].textContent)"
    shown.page.click("#sort-strategies-2")
    rising = shown.page.evaluate(cells)
    shown.page.click("#sort-strategies-2")
    assert shown.page.evaluate(cells) == rising[::-1]
    assert len(set(rising)) > 1


def test_timeline_and_energy_fold_the_same_nodes_and_links_are_named(shown: Opened) -> None:
    for chart in ("timeline", "energy"):
        assert " × phone" in str(shown.page.locator(f"#chart-{chart}").text_content())
    assert "each" in str(shown.page.locator("#chart-energy").text_content())
    assert shown.many("#chart-tree .linked") >= 3
    folded = float(shown.page.get_attribute("#chart-timeline", "height") or 0)
    shown.page.click('[data-toggle="folded"]')
    assert float(shown.page.get_attribute("#chart-timeline", "height") or 0) > 2 * folded
