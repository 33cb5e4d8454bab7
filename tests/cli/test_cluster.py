"""``palmette plan cluster`` on the command line: the fields of the format, options, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import World
from tests.spec.faulty import DATA, plain

TABLE = DATA / "measurements.json"


def spoilt(world: World, **changes: Any) -> Path:
    content = plain("measurements.json")
    content["devices"]["jtx2"] |= changes
    return world.write("spoilt.json", json.dumps(content))


@pytest.mark.parametrize("goal", ["time", "power", "energy", "edp", "0.3*time+0.7*energy"])
def test_the_plan_without_profile_and_cluster(world: World, goal: str) -> None:
    plan = world.json("plan", "cluster", "--measurements", TABLE, "--goal", goal)
    assert (plan["format"], plan["strategy"], plan["model"], plan["batch"]) == (
        "palmette.plan/1",
        "cluster",
        "alexnet",
        32,
    )
    assert plan["estimate"] is None
    decision = plan["decision"]
    assert decision["exact"] is True
    assert decision["ranking"][0]["devices"] == decision["devices"]
    assert plan["plan_s"] > 0


def test_people_see_ranking_lead_and_front(world: World) -> None:
    done = world.palmette("plan", "cluster", "--measurements", TABLE, "--goal", "edp", "--pareto")
    assert done.code == 0
    assert "parameter server on" in done.out
    assert "behind" in done.out
    assert "front of time and energy among all clusters" in done.out


def test_people_are_not_told_a_lead_over_nothing(world: World) -> None:
    done = world.palmette("plan", "cluster", "--measurements", spoilt(world, power_w=0.0), "--goal", "power")
    assert "the next best cannot be compared with 0" in done.out


def test_an_empty_goal_is_none(world: World) -> None:
    (line,) = world.refused("plan", "cluster", "--measurements", TABLE, "--goal", "")
    assert line.startswith("--goal: '': expected time|energy|power|edp")


def test_a_file_keeps_the_decision(world: World) -> None:
    file = world.folder / "plan.json"
    assert world.palmette("plan", "cluster", "--measurements", TABLE, "-o", file).code == 0
    done = world.palmette("check", file, TABLE)
    assert done.code == 0
    assert "measurements of alexnet: 3 devices" in done.out


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"step_s": 0}, "step_s: 0"),
        ({"step_s": -1.0}, "step_s: -1.0"),
        ({"step_s": float("nan")}, "step_s: nan"),
        ({"step_s": float("inf")}, "step_s: inf"),
        ({"power_w": -5.0}, "power_w: -5.0"),
        ({"build_s": -5.0}, "build_s: -5.0"),
    ],
)
def test_a_bad_device_is_one_line(world: World, changes: Any, field: str) -> None:
    file = spoilt(world, **changes)
    (line,) = world.refused("plan", "cluster", "--measurements", file)
    assert line.startswith(f"{file}: devices.jtx2.{field}: expected")


def test_no_device_and_no_steps(world: World) -> None:
    file = world.write("empty.json", json.dumps(plain("measurements.json") | {"devices": {}, "steps": 0}))
    lines = world.refused("plan", "cluster", "--measurements", file)
    assert [line.split(": ")[1] for line in lines] == ["steps", "devices"]


def test_no_file_and_no_such_file(world: World) -> None:
    (line,) = world.refused("plan", "cluster")
    assert "--measurements" in line
    (line,) = world.refused("plan", "cluster", "--measurements", world.folder / "nowhere.json")
    assert "cannot be read" in line


def test_measurements_of_another_model(world: World) -> None:
    (line,) = world.refused("plan", "cluster", "--measurements", TABLE, *world.inputs)
    assert line == "measurements.model: alexnet: the profile is of tiny; expected measurements of the same model"
    (line,) = world.refused("plan", "cluster", "--measurements", TABLE, "--profile", world.profile)
    assert "expected measurements of the same model" in line


def test_a_deadline_that_no_cluster_meets(world: World) -> None:
    (line,) = world.refused("plan", "cluster", "--measurements", TABLE, "--deadline", "1 s", code=3)
    assert line.startswith("--deadline: 1 s: cannot be met; the least that can be had is ")


@pytest.mark.slow
def test_comparing_passes_it_over(world: World) -> None:
    rows = world.json("compare", *world.inputs)["strategies"]
    (row,) = [row for row in rows if row["strategy"] == "cluster"]
    assert "--measurements" in row["skipped"]
