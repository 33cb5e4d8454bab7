"""What to minimise, as it is written on the command line."""

from __future__ import annotations

import math

import pytest

from palmette.errors import InputError
from palmette.spec.goal import QUANTITIES, Goal, parse_weights, value


@pytest.mark.parametrize("name", QUANTITIES)
def test_one_quantity(name: str) -> None:
    assert parse_weights(name) == {name: 1.0}
    assert Goal(weights=parse_weights(name)).single == str(Goal(weights=parse_weights(name))) == name


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("0.3*time+0.7*energy", {"time": 0.3, "energy": 0.7}),
        (" 2 * edp + power ", {"edp": 2.0, "power": 1.0}),
        ("1e-3*time + 1e+2*energy", {"time": 0.001, "energy": 100.0}),
        ("time+energy", {"time": 1.0, "energy": 1.0}),
    ],
)
def test_a_weighted_sum(text: str, weights: dict[str, float]) -> None:
    assert parse_weights(text) == weights
    goal = Goal(weights=weights)
    assert goal.single is None
    assert parse_weights(str(goal)) == weights


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tiem", "did you mean time?"),
        ("", "expected time|energy|power|edp|cost|carbon or a weighted sum"),
        ("time*0.3", "weighted sum such as 0.3*time+0.7*energy"),
        ("time+", "weighted sum"),
        ("0*time", "expected a weight above 0"),
        ("-1*time", "expected a weight above 0"),
        ("1e999*time", "expected a weight above 0"),
        ("1.2.3*time", "expected a weight above 0"),
        ("time+2*time", "time stands there twice"),
    ],
)
def test_what_is_no_goal_is_told_in_a_line(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_weights(text)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("goal: ")
    assert expected in line


@pytest.mark.parametrize("argument", ["deadline_s", "iteration_deadline_s", "loss"])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (-1, "above 0"),
        (0, "above 0"),
        (math.nan, "above 0"),
        (math.inf, "of at most 1e+18"),
        (1e19, "of at most 1e+18"),
    ],
)
def test_a_limit_that_nothing_can_mean_is_refused(argument: str, limit: float, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        Goal(**{argument: limit})
    assert str(caught.value) == f"{argument}: {limit}: expected a number {expected}"


@pytest.mark.parametrize(
    ("weights", "line"),
    [
        ({}, "weights: {}: expected at least one quantity"),
        ({"time": 0}, "weights: 0: expected a weight above 0"),
        ({"energy": -1.5, "time": 1}, "weights: -1.5: expected a weight above 0"),
        ({"tiem": 1}, "goal: tiem: no such goal; did you mean time?"),
    ],
)
def test_weights_that_nothing_can_mean_are_refused(weights: dict[str, float], line: str) -> None:
    with pytest.raises(InputError) as caught:
        Goal(weights=weights)
    assert str(caught.value) == line


def test_every_wrong_limit_is_told() -> None:
    with pytest.raises(InputError) as caught:
        Goal(loss=-1, deadline_s=0)
    assert [fault.field for fault in caught.value.faults] == ["deadline_s", "loss"]


def test_quantities_follow_from_time_and_energy() -> None:
    assert [value(name, 2.0, 10.0) for name in ("time", "energy", "power", "edp")] == [2, 10, 5, 20]
    assert value("power", 0.0, 0.0) == 0
