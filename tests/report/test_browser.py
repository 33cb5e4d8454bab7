"""The page in a real browser: every chart with its data, pointing, toggling, keys, themes, a phone."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import palmette as pt
from palmette.report.build import build_report
from palmette.report.entry import read_entries
from palmette.report.live_run import LiveRun
from palmette.report.live_server import LiveServer
from palmette.spec.cluster import Cluster
from palmette.spec.reading import money
from tests.plan.problems import link, node, profile
from tests.report.browsing import Opened, browser, opened
from tests.report.folders import plan_file, run_folder, tree
from tests.report.test_page import NASTY

pytestmark = pytest.mark.browser
CHARTS = ("tree", "timeline", "loss-time", "loss-energy", "energy", "pareto")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    paths = [
        run_folder(folder / "as planned", tree(), stretch=1.0),
        run_folder(folder / "slower", tree(), stretch=1.3),
        plan_file(folder / "a plan.json", tree()),
    ]
    file = folder / "report.html"
    file.write_text(build_report(read_entries(paths)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def shown(chromium: Any, address: str) -> Iterator[Opened]:
    with opened(chromium, address) as page:
        yield page
        assert page.complaints == []
        assert page.requests == [address]  # nothing but the page itself


def test_every_chart_is_there_with_its_data(shown: Opened) -> None:
    for name in CHARTS:
        assert shown.many(f"#chart-{name}") == 1, name
    assert shown.many("#chart-tree .instance") == 3
    assert shown.many("#chart-tree .node") == 3
    assert shown.many("#chart-tree .link") == 2
    assert shown.many("#chart-tree .source") == 2
    predicted, measured = (shown.many(f"#chart-timeline .op.{track}") for track in ("predicted", "measured"))
    assert predicted == measured > 10
    assert shown.many("#chart-loss-time .line") == shown.many("#chart-loss-energy .line") == 2
    assert shown.page.locator("#chart-loss-time .line").first.get_attribute("data-points") == "5"
    assert shown.many("#chart-energy .part") >= 6
    assert shown.many("#chart-pareto .point") >= 8
    assert shown.many("#chart-pareto .front") == 1
    assert shown.many("#strategies tbody tr") >= 5
    assert shown.many("#entries tbody tr") == 3
    assert "modelled" in shown.page.locator("#energy-source").inner_text()


def test_it_is_interactive_within_a_second(shown: Opened) -> None:
    ready = shown.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    assert ready < 1000


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("#chart-tree .instance", "whole on cloud"),
        ("#chart-tree .node", "cloud: cloud"),
        ("#chart-timeline .op.measured.backward", "backward of"),
        ("#chart-loss-time .dot", "loss"),
        ("#chart-energy .part", "idle"),
        ("#chart-pareto .point", "planned for"),
    ],
)
def test_pointing_at_a_part_says_what_it_is(shown: Opened, selector: str, told: str) -> None:
    part = shown.page.locator(selector).first
    part.scroll_into_view_if_needed()
    part.hover(force=True)
    assert told in shown.tip()
    shown.page.mouse.move(2, 2)
    shown.page.wait_for_function("document.getElementById('tip').style.visibility === 'hidden'")


@pytest.mark.parametrize(
    ("button", "selector"),
    [
        ("kind-forward", "#chart-timeline .op.forward"),
        ("track-predicted", "#chart-timeline .op.predicted"),
        ("run-slower", "#chart-loss-time .line[data-run=slower]"),
        ("part-idle_j", "#chart-energy .part.idle_j"),
        ("strategy-all-cloud", "#chart-pareto .point[data-strategy=all-cloud]"),
    ],
)
def test_toggles_take_away_and_bring_back(shown: Opened, button: str, selector: str) -> None:
    before = shown.many(selector)
    toggle = f'[data-toggle="{button}"]'
    assert before > 0
    shown.page.click(toggle)
    assert shown.many(selector) == 0
    assert shown.page.get_attribute(toggle, "aria-pressed") == "false"
    shown.page.click(toggle)
    assert shown.many(selector) == before


def test_another_entry_can_be_chosen(shown: Opened) -> None:
    assert "as planned" in shown.page.inner_text("#summary")
    shown.page.click("#entry-1")
    assert "+30.0%" in shown.page.inner_text("#summary")
    shown.page.click("#entry-2")
    assert shown.many("#chart-timeline .op.measured") == 0


def test_zooming_widens_the_timeline(shown: Opened) -> None:
    width = float(shown.page.get_attribute("#chart-timeline", "width") or 0)
    shown.page.click("[aria-label='Zoom in']")
    assert float(shown.page.get_attribute("#chart-timeline", "width") or 0) > 1.8 * width - 200


def test_a_keyboard_reaches_every_control_in_order_and_walks_through_charts(shown: Opened) -> None:
    page = shown.page
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.dataset.toggle || ''"))
    charts = list(dict.fromkeys(name for name in reached if name.startswith("chart-")))
    assert charts == [f"chart-{name}" for name in (*CHARTS, "sliders-0")]
    assert "log" in reached
    page.focus("#chart-tree")
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#said")
    page.keyboard.press("ArrowRight")
    assert first
    assert page.inner_text("#said") not in ("", first)
    assert shown.tip()
    outline = page.evaluate("getComputedStyle(document.querySelector('#chart-tree')).outlineStyle")
    assert outline == "solid"


def test_focus_stays_on_a_toggle_that_was_pressed_by_key(shown: Opened) -> None:
    shown.page.focus('[data-toggle="kind-forward"]')
    shown.page.keyboard.press("Enter")
    assert shown.page.evaluate("document.activeElement.dataset.toggle") == "kind-forward"


@pytest.mark.parametrize("width", [360, 390, 768])
def test_a_phone_needs_no_sideways_scrolling(chromium: Any, address: str, width: int) -> None:
    with opened(chromium, address, width=width) as page:
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        assert all(page.many(f"#chart-{name}") for name in CHARTS)
        assert page.complaints == []


def test_dark_is_dark(chromium: Any, address: str) -> None:
    colours = []
    for dark in (False, True):
        with opened(chromium, address, dark=dark) as page:
            colours.append(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, night = (sum(map(int, colour[4:-1].split(","))) for colour in colours)
    assert light > 600
    assert night < 150


def test_names_of_files_run_nothing(chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    plan = plan_file(tmp_path / "<img src=x onerror=alert(1)>.json", tree(names=NASTY))
    file.write_text(build_report(read_entries([plan]), with_rivals=False), encoding="utf-8")
    with opened(chromium, file.as_uri()) as page:
        assert page.complaints == []
        assert page.many("img") == 0
        assert page.many("#chart-tree .instance") == 3


def test_plans_without_inputs_or_trees_have_a_page_too(chromium: Any, tmp_path: Path) -> None:
    bare = tree().model_copy(update={"inputs": None, "estimate": None})
    tables = bare.model_copy(update={"phases": (), "decision": {"energy_j": 1.0}})
    paths = [plan_file(tmp_path / "bare.json", bare), plan_file(tmp_path / "tables.json", tables)]
    file = tmp_path / "page.html"
    file.write_text(build_report(read_entries(paths)), encoding="utf-8")
    with opened(chromium, file.as_uri()) as page:
        assert page.many("#chart-tree .instance") == 3
        page.page.click("#entry-1")
        assert "tables alone" in page.page.inner_text("#tree")
        assert page.complaints == []


def test_a_live_page_follows_the_run_to_its_end(chromium: Any, tmp_path: Path) -> None:
    whole = run_folder(tmp_path / "whole", tree(), iterations=6)
    folder = run_folder(tmp_path / "run", tree(), iterations=0, ended="running", iteration_s=None, accuracy=None)
    texts = {name: (whole / name).read_text().splitlines(keepends=True) for name in ("trace.jsonl", "metrics.jsonl")}
    halves = {"trace.jsonl": len(texts["trace.jsonl"]) // 3, "metrics.jsonl": 2}
    for name, text in texts.items():
        (folder / name).write_text("".join(text[: halves[name]]))
    with LiveServer(LiveRun(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            with opened(chromium, server.address) as page:
                page.page.wait_for_selector("#live-state:has-text('2 iterations')")
                assert page.many("#now [data-node]") == 3
                assert page.page.get_attribute("#chart-loss-time .line", "data-points") == "2"
                for name, text in texts.items():
                    with (folder / name).open("a") as file:
                        file.writelines(text[halves[name] :])
                shutil.copy(whole / "run.json", folder / "run.json")
                page.page.wait_for_selector("#live-state:has-text('has ended: done')")
                assert page.page.get_attribute("#chart-loss-time .line", "data-points") == "6"
                assert page.complaints == []
                assert {address.rpartition("/")[0] + "/" for address in page.requests} == {server.address}
        finally:
            server.shutdown()
            thread.join()


def test_money_reads_as_everywhere_else(shown: Opened) -> None:
    script = files("palmette.report").joinpath("assets", "base.js").read_text(encoding="utf-8")
    told = script.partition("const money = ")[2].partition("\n};")[0] + "\n}"
    amounts = [0.0, 1.43e-7, 2.92e-6, 0.0000445, 0.0123, 0.5, 1.0, 1234.5]
    shown_as = shown.page.evaluate(f"{amounts}.map((each) => ({told})(each, 'EUR'))")
    assert shown_as == [money(each, "EUR") for each in amounts]


def test_nodes_may_be_called_like_what_every_object_of_the_language_knows(chromium: Any, tmp_path: Path) -> None:
    names = ("constructor", "__proto__", "toString", "<b>x</b>", "x" * 80)
    owner = node("device", samples=10)
    nodes = dict.fromkeys(names, owner) | {"hasOwnProperty": node("edge")}
    cluster = Cluster(nodes=nodes, links=tuple(link(name, "hasOwnProperty") for name in names))
    known = profile(2, **dict.fromkeys(nodes, 1.0))
    plan_file(tmp_path / "plan.json", pt.plan("federated", profile=known, cluster=cluster, batch=5))
    page = tmp_path / "report.html"
    page.write_text(build_report(read_entries([tmp_path / "plan.json"]), with_rivals=False), encoding="utf-8")
    for width in (1300, 400):
        with opened(chromium, page.as_uri(), width=width) as shown:
            assert shown.complaints == []
            assert shown.many("#chart-tree .node") == 6
            assert shown.many("#chart-tree b") == 0
            assert shown.page.locator("#chart-tree .linked").all_text_contents() == ["5 links of 8 Mbit/s"]
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
