"""``palmette plan pact`` and its rivals on the command line: the fields of the format, options, exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.world import World
from tests.spec.faulty import DATA, plain

PROBLEM = DATA / "problem.json"


def spoilt(world: World, **changes: Any) -> Any:
    return world.write("spoilt.json", json.dumps(plain("problem.json") | changes))


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "one-switch"])
def test_the_plan(world: World, strategy: str) -> None:
    plan = world.json("plan", strategy, "--problem", PROBLEM)
    assert (plan["format"], plan["strategy"], plan["estimate"]) == ("palmette.plan/1", strategy, None)
    assert set(plan["decision"]) >= {"schedule", "energy_j", "time_s", "loss"}
    assert all(set(stretch) == {"model", "nodes", "epochs"} for stretch in plan["decision"]["schedule"])
    assert plan["decision"]["loss"] <= 0.15


def test_options_of_its_own(world: World) -> None:
    careless = world.json("plan", "pact", "--problem", PROBLEM, "--no-risk")["decision"]
    assert careless["energy_j"] <= 11.1 + 1e-9
    bolder = world.json("plan", "pact", "--problem", PROBLEM, "--independent")["decision"]
    assert bolder["loss"] <= 0.15
    sooner = world.json("plan", "pact", "--problem", PROBLEM, "--deadline", "12s", "--loss", "0.5")["decision"]
    assert sooner["time_s"] <= 12
    assert sooner["loss"] <= 0.5


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "static-learn", "one-switch"])
@pytest.mark.parametrize(
    "options",
    [("--loss", "1e308"), ("--deadline", "1e300 s"), ("--loss", "nan"), ("--bound", "0.1")],
    ids=["loss", "deadline", "no number", "bound of a table"],
)
def test_options_out_of_bounds_are_told(world: World, strategy: str, options: tuple[str, str]) -> None:
    done = world.palmette("plan", strategy, "--problem", PROBLEM, *options)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert options[0] in line


def test_people_see_the_schedule(world: World) -> None:
    done = world.palmette("plan", "pact", "--problem", PROBLEM)
    assert done.code == 0
    assert "silver" in done.out
    assert "\nloss " in done.out


def test_check_knows_the_format(world: World) -> None:
    done = world.palmette("check", PROBLEM)
    assert (done.code, done.out.partition(": ")[2]) == (
        0,
        "a PACT problem: 2 pairs of model and nodes, 1 change between them\n",
    )


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "static-learn", "one-switch"])
def test_out_of_reach_exits_with_3(world: World, strategy: str) -> None:
    done = world.palmette("plan", strategy, "--problem", spoilt(world, deadline_s=3.0))
    assert (done.code, done.out) == (3, "")
    (line,) = done.err.splitlines()
    assert "target_loss: 0.15: cannot be reached within 3 s; the least loss that can be reached by then is 1.62" in line


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"start": {"model": "X", "nodes": "gold", "loss": 1.0}}, "start.model: X: no such model"),
        ({"deadline_s": -1}, "deadline_s: -1: expected a number greater than 0"),
        ({"format": "palmette.pact/9"}, "format: palmette.pact/9: expected"),
    ],
)
def test_bad_input_exits_with_2(world: World, changes: dict[str, Any], line: str) -> None:
    done = world.palmette("plan", "pact", "--problem", spoilt(world, **changes))
    assert (done.code, done.out) == (2, "")
    assert line in done.err


def test_margins_and_missing_files(world: World) -> None:
    done = world.palmette("plan", "static-learn", "--problem", PROBLEM, "--margin", "1.5")
    assert (done.code, "--margin: 1.5: expected" in done.err) == (2, True)
    assert world.palmette("plan", "pact").code == 2
