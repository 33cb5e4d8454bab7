"""The table of all figures: what is read from a benchmark's output, what is kept, and what of a file is replaced."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.summary import running
from benchmarks.summary.figures import BENCHMARKS, Aim, Benchmark, Figure
from benchmarks.summary.page import BEGIN, END, put_into, section
from benchmarks.summary.store import Found, read_values, write_values
from tests.benchmarks.test_benchmarks import FOLDERS

GAP = Figure("gap", "worlds/*/gap", "share", Aim("at most", 0.15))
RIGHT = Figure("right", "right", "share", Aim("at least", 1.0), over="runs")
PLANNER = Benchmark("planner", 60.0, (GAP, RIGHT))


def test_of_several_values_the_worst_counts() -> None:
    assert GAP.value({"worlds": {"a": {"gap": 0.1}, "b": {"gap": 0.4}}}) == 0.4
    assert GAP.value({"worlds": [{"gap": 0.3}, {"gap": None}]}) == 0.3
    assert GAP.value({}) is None
    assert RIGHT.value({"right": 3, "runs": 4}) == 0.75


def test_every_figure_has_a_name_of_its_own_and_a_benchmark_that_exists() -> None:
    names = [figure.name for each in BENCHMARKS for figure in each.figures]
    assert len(set(names)) == len(names)
    assert {each.name for each in BENCHMARKS} <= set(FOLDERS)


def test_every_value_that_is_kept_is_of_a_figure() -> None:
    known = read_values()
    assert set(known["whole"]) | set(known["quick"]) <= {figure.name for each in BENCHMARKS for figure in each.figures}


def test_a_whole_value_is_shown_before_a_quick_one_and_a_miss_is_bold() -> None:
    quick, whole = Found(0.01, "2026-11-18", "q", 1.0), Found(0.4, "2026-11-17", "w")
    shown = section([PLANNER], {"whole": {"gap": whole}, "quick": {"gap": quick}})
    assert "| gap | at most 15% | **40%** | 2026-11-17 |  | `w` |" in shown
    assert "| right | at least 100% | not measured | | | `python -m benchmarks.planner` |" in shown
    assert "| 1% | 2026-11-18 | 1.0 | `q` |" in section([PLANNER], {"whole": {}, "quick": {"gap": quick}})


def test_only_the_section_of_a_file_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "R.md"
    page.write_text("# Results\n\nFigures.\n\n## Soak\n\nBy hand.\n")
    put_into(page, f"{BEGIN}\none\n{END}")
    first = page.read_text()
    put_into(page, f"{BEGIN}\ntwo\n{END}")
    assert first == f"# Results\n\nFigures.\n\n{BEGIN}\none\n{END}\n\n## Soak\n\nBy hand.\n"
    assert page.read_text() == first.replace("one", "two")


def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcomes: dict[str, Any], *words: str
) -> tuple[int, list[str]]:
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
    return int(str(ended.value.code)), began


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


def test_the_table_in_results_is_that_of_the_values_that_are_kept() -> None:
    assert section(BENCHMARKS, read_values()) in running.RESULTS.read_text(encoding="utf-8"), (
        "run: python -m benchmarks.summary --render"
    )
