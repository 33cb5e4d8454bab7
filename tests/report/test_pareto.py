"""All strategies in one picture: which of them nothing beats, against a look at every pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.plan.core.comparison import compare
from palmette.report import pareto
from palmette.report.build import entry_view
from palmette.report.entry import read_entries
from palmette.report.pareto import pareto_view
from tests.plan.problems import node, three_tiers
from tests.report.folders import plan_file, run_folder, tree


@pytest.mark.slow
def test_the_front_is_what_no_other_beats(tmp_path: Path) -> None:
    entries = read_entries([plan_file(tmp_path / "p.json", tree())])
    found = pareto_view(entries, [entry_view(entry) for entry in entries])
    assert found is not None
    rows = found["rows"]
    for row in rows:
        better = [
            other
            for other in rows
            if other["time_s"] <= row["time_s"]
            and other["energy_j"] <= row["energy_j"]
            and (other["time_s"], other["energy_j"]) != (row["time_s"], row["energy_j"])
        ]
        assert row["on_front"] == (not better)
    assert {row["strategy"] for row in rows} >= {"all-device", "all-edge", "all-cloud", "hybrid"}


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only strategies that plan in a moment."""
    names = ("all-device", "all-edge", "all-cloud", "jointdnn+")
    monkeypatch.setattr(pareto, "compare", lambda task: compare(task, names=names))


@pytest.mark.usefixtures("_few")
def test_own_plans_and_runs_are_points_too(tmp_path: Path) -> None:
    entries = read_entries([plan_file(tmp_path / "p.json", tree()), run_folder(tmp_path / "run", tree(), stretch=2.0)])
    views = [entry_view(entry) for entry in entries]
    found = pareto_view(entries, views)
    assert found is not None
    assert found["workloads"] == ["tiny, batch 12"]
    own = [point for point in found["points"] if point["entry"]]
    assert [(point["entry"], point["measured"]) for point in own] == [("p", False), ("run", False), ("run", True)]
    assert own[2]["time_s"] == pytest.approx(2 * own[1]["time_s"])


@pytest.mark.usefixtures("_few")
def test_a_plan_of_the_page_that_beats_all_strategies_is_alone_on_the_front(tmp_path: Path) -> None:
    entries = read_entries([plan_file(tmp_path / "p.json", tree())])
    view = entry_view(entries[0])
    view["estimate"] |= {"iteration_s": 1e-9, "iteration_j": 1e-9}
    found = pareto_view(entries, [view])
    assert found is not None
    assert not any(row["on_front"] for row in found["rows"])


@pytest.mark.usefixtures("_few")
def test_without_energies_there_are_rows_but_no_points(tmp_path: Path) -> None:
    nodes = {name: node(tier, power=None) for name, tier in (("server", "edge"), ("cloud", "cloud"))}
    cluster = three_tiers(**nodes, phone=node("device", samples=1000, power=None))
    entries = read_entries([plan_file(tmp_path / "p.json", tree(cluster))])
    found = pareto_view(entries, [entry_view(entry) for entry in entries])
    assert found is not None
    assert found["points"] == []
    assert found["rows"]
    assert not any(row["on_front"] for row in found["rows"])


def test_without_inputs_there_is_no_front(tmp_path: Path) -> None:
    entries = read_entries([plan_file(tmp_path / "p.json", tree().model_copy(update={"inputs": None}))])
    assert pareto_view(entries, [entry_view(entry) for entry in entries]) is None
