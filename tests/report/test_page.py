"""The page's text: whole, small, and safe whatever names the files hold."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from palmette.report.build import build_report
from palmette.report.entry import read_entries
from palmette.report.page import embed_json, render_page
from palmette.report.plan_view import cluster_view
from palmette.spec.link import Link
from palmette.spec.link_trace import BandwidthTrace
from tests.plan.problems import three_tiers
from tests.report.folders import plan_file, run_folder, tree

NASTY = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b\"'`${1}")


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.seen and self.seen[-1][0] == "script" and self.lasttag == "script":
            self.scripts[-1] += data


def parsed(text: str) -> Elements:
    found = Elements()
    found.feed(text)
    return found


def test_names_stay_names(tmp_path: Path) -> None:
    plan = tree(names=NASTY)
    text = build_report(read_entries([plan_file(tmp_path / f"{'<b>'}.json", plan)]), with_rivals=False)
    found = parsed(text)
    assert [tag for tag, _ in found.seen].count("script") == 2
    assert not any(tag in ("img", "b") for tag, _ in found.seen)
    data = json.loads(found.scripts[0])
    assert [i["id"] for i in data["entries"][0]["phases"][0]["instances"]] == list(NASTY)


def test_what_is_embedded_reads_back_and_cannot_end_the_script() -> None:
    data = {"</script>": ["<!--", "&amp;", "\u2028", "ü"]}
    text = embed_json(data)
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == data


def test_an_at_sign_in_a_title_stays() -> None:
    text = render_page("@script@ at @home@", "@data@", {"live": None, "entries": [], "pareto": None})
    assert "<h1>@script@ at @home@</h1>" in text


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    text = build_report(read_entries([run_folder(tmp_path / "run", tree())]), with_rivals=False)
    addresses = [value for _, attrs in parsed(text).seen for name, value in attrs.items() if name in ("src", "href")]
    assert addresses == ["data:,", "#summary"]
    assert set(re.findall(r"https?://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text


def test_a_long_run_with_many_nodes_stays_small(tmp_path: Path) -> None:
    text = build_report(read_entries([run_folder(tmp_path / "run", tree(), iterations=2000)]), with_rivals=False)
    assert len(text.encode()) < 3_000_000


def test_a_link_has_what_plans_count_on_in_either_direction() -> None:
    trace = BandwidthTrace(time_s=(0.0, 1.0), down_bps=(8e6, 4e6), up_bps=(2e6, 0.0))
    varying = Link(between=("phone", "server"), bandwidth_trace=trace)
    lossy = Link(between=("server", "cloud"), bandwidth_bps=1e9, latency_s=0.01, loss_share=0.01)
    found = cluster_view(three_tiers().model_copy(update={"links": (varying, lossy)}))["links"]
    assert [(each["up_bps"], each["down_bps"], each["varies"]) for each in found] == [
        (1e6, 6e6, True),
        (*lossy.rates_bps, False),
    ]
