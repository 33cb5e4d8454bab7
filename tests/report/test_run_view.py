"""What a page says of a run, against sums that are worked out otherwise."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import fmean

import pytest

import palmette as pt
from palmette.report.build import entry_view
from palmette.report.entry import read_entry
from palmette.report.run_view import MAX_POINTS, downsample
from tests.plan.problems import node, three_tiers
from tests.report.folders import run_folder, tree


def test_energy_of_the_trace_is_the_evaluators_where_the_run_went_as_predicted(tmp_path: Path) -> None:
    plan = tree()
    view = entry_view(read_entry(run_folder(tmp_path / "run", plan, stretch=1.0)))
    for name, predicted in view["energy"]["nodes"].items():
        assert view["run"]["energy"]["nodes"][name] == pytest.approx(predicted)
    estimate = pt.estimate(plan)
    assert estimate.nodes is not None
    for name, node_ in estimate.nodes.items():
        assert sum(view["energy"]["nodes"][name].values()) == pytest.approx(node_.energy_j)


def test_the_loss_stands_over_time_and_energy(tmp_path: Path) -> None:
    plan = tree()
    view = entry_view(read_entry(run_folder(tmp_path / "run", plan, stretch=1.0, iterations=4)))
    estimate = pt.estimate(plan)
    assert estimate.iteration_j is not None
    for number, (time_s, joules, loss, iteration) in enumerate(view["run"]["loss"]):
        assert iteration == number
        assert loss == 2.3 / (1 + number)
        assert time_s == pytest.approx((number + 1) * estimate.iteration_s)
        assert joules == pytest.approx((number + 1) * estimate.iteration_j)
    assert view["run"]["evaluated"][0][4] == 0.75


def test_joules_so_far_end_at_what_the_run_says_it_spent(tmp_path: Path) -> None:
    view = entry_view(read_entry(run_folder(tmp_path / "run", tree(), energy_j=1000.0)))
    assert view["run"]["loss"][-1][1] == pytest.approx(1000.0)


def test_the_iteration_of_median_length_is_shown_from_its_start(tmp_path: Path) -> None:
    plan = tree()
    view = entry_view(read_entry(run_folder(tmp_path / "run", plan, stretch=1.5)))
    timeline = view["run"]["timeline"]
    assert min(row[3] for row in timeline) == 0
    assert max(row[4] for row in timeline) == pytest.approx(1.5 * pt.estimate(plan).iteration_s)
    assert len(timeline) == len(view["timeline"])


def test_without_power_there_are_no_joules(tmp_path: Path) -> None:
    plan = tree(three_tiers(cloud=node("cloud", power=None)))
    view = entry_view(read_entry(run_folder(tmp_path / "run", plan)))
    assert (view["energy"], view["run"]["energy"]) == (None, None)
    assert all(row[1] is None for row in view["run"]["loss"])


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", tree(), iterations=0, ended="running", iteration_s=None, energy_j=None)
    for name in ("trace.jsonl", "metrics.jsonl"):
        (folder / name).unlink()
    run = entry_view(read_entry(folder))["run"]
    assert (run["iterations"], run["loss"], run["timeline"], run["energy"]) == (0, [], [], None)


def test_long_runs_are_thinned_evenly_and_keep_their_end() -> None:
    rows = list(range(10 * MAX_POINTS + 3))
    kept = downsample(rows)
    assert len(kept) <= MAX_POINTS
    assert kept[-1] == rows[-1]
    assert len({b - a for a, b in itertools.pairwise(kept)}) == 1


@pytest.mark.parametrize(("ended", "shown"), [("done", True), ("running", False)])
def test_a_run_of_a_schedule_stands_beside_its_ideal_curve(tmp_path: Path, ended: str, shown: bool) -> None:
    """By its last complete epoch: a run that goes on is still within its first."""
    ideal = {"start_loss": 2.3, "target_loss": 0.1, "deadline_s": 1e4, "unit_s": 1.0}
    plan = tree().model_copy(update={"decision": {"ideal": ideal}})
    folder = run_folder(tmp_path / "run", plan, iterations=12, ended=ended)
    view = entry_view(read_entry(folder))["run"]
    if not shown:
        assert view["value"] is None
    else:
        assert view["value"]["loss"] == pytest.approx(fmean(2.3 / (1 + n) for n in range(12)))
        assert view["value"]["time_s"] == pytest.approx(view["loss"][-1][0])
        assert "the ideal curve, value 0." in view["value"]["verdict"]
    assert entry_view(read_entry(run_folder(tmp_path / "other", tree())))["run"]["value"] is None
