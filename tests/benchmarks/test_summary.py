"""All figures: what is read from a benchmark's output, what is kept, and the pages that are written from it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.summary import running
from benchmarks.summary.figure import Aim, Benchmark, Figure
from benchmarks.summary.figures import BENCHMARKS
from benchmarks.summary.marks import filled, texts
from benchmarks.summary.page import page
from benchmarks.summary.store import Found, read_values, write_values
from tests.benchmarks.test_benchmarks import FOLDERS

GAP = Figure("gap", "worlds/*/gap", "share", Aim("at most", 0.15))
RIGHT = Figure("right", "right", "share", Aim("at least", 1.0), over="runs")
PLANNER = Benchmark("planner", 60.0, (GAP, RIGHT))


@pytest.mark.parametrize("unit", ["share", "seconds", "number"])
def test_what_was_not_reached_is_called_so(unit: Any, tmp_path: Path) -> None:
    late = Figure("late", "late", unit, Aim("at most", 0.03))
    found = {"whole": {"late": Found(late.value({"late": float("inf")}), "2026-11-18", "a command")}, "quick": {}}
    assert "| late | at most " in (written := page([Benchmark("planner", 60.0, (late,))], found, tmp_path))
    assert "| **not reached** | 2026-11-18 |" in written


def test_of_several_values_the_worst_counts() -> None:
    assert GAP.value({"worlds": {"a": {"gap": 0.1}, "b": {"gap": 0.4}}}) == 0.4
    assert GAP.value({"worlds": [{"gap": 0.3}, {"gap": None}]}) == 0.3
    assert GAP.value({}) is None
    assert RIGHT.value({"right": 3, "runs": 4}) == 0.75


def test_a_case_is_found_by_what_it_says() -> None:
    cases = [{"model": "a", "mbit": 5.0, "s": {"x": 3, "y": 2}}, {"model": "a", "mbit": 20.0, "s": {"x": 7}}]
    assert Figure("f", "cases/[model=a;mbit=20]/s/x", "seconds").value({"cases": cases}) == 7
    assert Figure("f", "cases/[model=a;mbit=5]/s/x|y", "seconds").value({"cases": cases}) == 2
    assert Figure("f", "cases/[model=b]/s/x", "seconds").value({"cases": cases}) is None


def test_every_figure_has_a_name_of_its_own_and_a_benchmark_that_exists() -> None:
    names = [figure.name for each in BENCHMARKS for figure in each.all_figures]
    assert len(set(names)) == len(names)
    assert {each.name for each in BENCHMARKS} <= set(FOLDERS)


def test_every_value_that_is_kept_is_of_a_figure() -> None:
    known = read_values()
    assert set(known["whole"]) | set(known["quick"]) <= {
        figure.name for each in BENCHMARKS for figure in each.all_figures
    }


def test_a_whole_value_is_shown_before_a_quick_one_and_a_miss_is_bold(tmp_path: Path) -> None:
    quick, whole = Found(0.01, "2026-11-18", "q", 1.0), Found(0.4, "2026-11-17", "w")
    shown = page([PLANNER], {"whole": {"gap": whole}, "quick": {"gap": quick}}, tmp_path)
    assert "| gap | at most 15% | **40%** | 2026-11-17 |  | `w` |" in shown
    assert "| right | at least 100% | not measured | | | `python -m benchmarks.planner` |" in shown
    assert "| 1% | 2026-11-18 | 1.0 | `q` |" in page([PLANNER], {"whole": {}, "quick": {"gap": quick}}, tmp_path)


def test_a_page_leads_to_what_each_benchmark_tells(tmp_path: Path) -> None:
    for name, figures in (("soak", "## Last figures\n"), ("peers", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"# All of {name}\n\n{figures}")
    assert page([], {"whole": {}, "quick": {}}, tmp_path).endswith("\n- [All of soak](soak/README.md#last-figures)\n")


def test_marks_in_a_page_get_the_last_value() -> None:
    known = texts([Benchmark("planner", 1.0, (), told=(Figure("`a` b", "a", "seconds"),))], read({"`a` b": 2.0}))
    marked = "takes <!--figure a b-->1 s<!--/figure-->, not <!--figure a b--><!--/figure-->"
    assert filled(marked, known) == marked.replace("1 s<", "2 s<").replace("--><!--/", "-->2 s<!--/")
    with pytest.raises(KeyError):
        filled("<!--figure c-->1 s<!--/figure-->", known)


def read(values: dict[str, float]) -> dict[str, dict[str, Found]]:
    """Whole values of today."""
    return {"whole": {name: Found(value, "2026-11-18", "c") for name, value in values.items()}, "quick": {}}


def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcomes: dict[str, Any], *words: str
) -> tuple[int | str | None, list[str]]:
    """Run the summary over benchmarks that print what is given; its exit code, and which were started."""
    began: list[str] = []

    def printed(benchmark: Benchmark, _budget_s: float, **_how: bool) -> Any:
        began.append(benchmark.name)
        return outcomes[benchmark.name]

    monkeypatch.setattr(
        running, "BENCHMARKS", (PLANNER, Benchmark("soak", 1.0, (Figure("s", "s", "number", GAP.aim),)))
    )
    monkeypatch.setattr(running, "_printed", printed)
    files = ["--into", str(tmp_path / "R.md"), "--values", str(tmp_path / "v.json")]
    monkeypatch.setattr(sys, "argv", ["summary", *files, *words])
    with pytest.raises(SystemExit) as ended:
        running.main()
    return ended.value.code, began


def test_it_goes_on_where_it_was_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worlds = {"worlds": {"a": {"gap": 0.1}}, "right": 1, "runs": 1}
    assert run(monkeypatch, tmp_path, {"planner": worlds, "soak": None}) == (1, ["planner", "soak"])
    assert run(monkeypatch, tmp_path, {"soak": {"s": 0.1}}) == (0, ["soak"])
    assert run(monkeypatch, tmp_path, {}) == (0, [])
    assert run(monkeypatch, tmp_path, {"planner": worlds, "soak": {}}, "--since", "2999-01-01") == (
        0,
        ["planner", "soak"],
    )
    assert "| gap | at most 15% | 10% |" in (tmp_path / "R.md").read_text()


def test_nothing_is_begun_after_its_minutes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, {}, "--minutes", "-1") == (0, [])


def test_a_benchmark_beyond_its_budget_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert running._printed(Benchmark("startup", 0.0, ()), 0.01, quick=True) is None
    assert "its last value stays" in capsys.readouterr().err


def test_values_come_back_as_they_were_kept(tmp_path: Path) -> None:
    known = {"whole": {"a": Found(1.0, "2026-11-18", "c")}, "quick": {"b": Found(None, "2026-11-18", "d", 2.0)}}
    write_values(known, tmp_path / "v.json")
    assert read_values(tmp_path / "v.json") == known
    assert json.loads((tmp_path / "v.json").read_text())["whole"]["a"]["value"] == 1.0


def test_what_was_printed_elsewhere_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "printed.json").write_text(json.dumps({"worlds": [{"gap": 0.07}], "load_average": [1.0, 2.0]}))
    command = "python -m benchmarks.planner --few"
    assert run(monkeypatch, tmp_path, {}, "--take", command, str(tmp_path / "printed.json")) == (0, [])
    taken = read_values(tmp_path / "v.json")["whole"]
    assert (taken.keys(), taken["gap"].value, taken["gap"].command) == ({"gap"}, 0.07, command)
    assert taken["gap"].load_average == 2.0
    code, began = run(monkeypatch, tmp_path, {}, "--take", "python -m benchmarks.plan", "printed.json")
    assert ("expected" in str(code), began) == (True, [])


def test_results_are_what_the_command_writes() -> None:
    written = page(BENCHMARKS, read_values(), running.FOLDER)
    assert running.RESULTS.read_text(encoding="utf-8") == written, "run: python -m benchmarks.summary --render"


@pytest.mark.parametrize("marked", running.MARKED, ids=lambda each: each.name)
def test_figures_in_other_pages_are_the_last_values(marked: Path) -> None:
    shown = marked.read_text(encoding="utf-8")
    assert shown == filled(shown, texts(BENCHMARKS, read_values())), "run: python -m benchmarks.summary --render"


FIGURE = re.compile(r"\d (?:s|ms|J|times)\b|\d%")


def test_no_measured_figure_stands_in_a_page_that_no_command_has_written() -> None:
    readme = (running.FOLDER.parent / "README.md").read_text(encoding="utf-8")
    pages = [re.sub(r"(?s)<!-- demo: begin -->.*<!-- demo: end -->", "", readme)]
    pages += [re.sub(r"<!--figure .+?<!--/figure-->", "", each.read_text(encoding="utf-8")) for each in running.MARKED]
    assert [FIGURE.findall(each) for each in pages] == [[], []]
