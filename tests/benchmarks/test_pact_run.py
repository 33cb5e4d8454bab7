"""What PACT knows in ``benchmarks.pact_run``, which switches it is offered, and when it takes the way out."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from benchmarks.pact_run import beginnings
from benchmarks.pact_run.beginnings import Beginnings
from benchmarks.pact_run.deciding import Deadline, leaves, offered, rates_now
from benchmarks.pact_run.pilot import EpochsToTarget, Known, Line
from benchmarks.pact_run.setting import PAIRS, TARGET, WAY_OUT, phases, task
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import EpochStatus
from palmette.spec.problem import Pair

GOLD, SILVER, BRONZE = PAIRS
SWITCHES = [(GOLD, SILVER), (GOLD, BRONZE), (SILVER, BRONZE)]


def test_epochs_that_follow_the_law_are_certain() -> None:
    seen = [(seed, (x / 5, float(y)), math.exp(1 + x / 5 - y / 4)) for seed in range(6) for x in (1, 4) for y in (0, 3)]
    found = EpochsToTarget.of(seen)
    assert found.weights == pytest.approx((1, 1, -0.25))
    assert found.within((0.8, 4.0), 0.99) == pytest.approx(math.exp(0.8))


def test_nineteen_of_twenty_further_trainings_need_no_more_epochs() -> None:
    draw, kept, many = Random(0), 0, 400
    for _ in range(many):
        seeds = [draw.gauss(0, 0.1) for _ in range(7)]
        trainings = [
            (seed, (height,), math.exp(2 + height / 2 + seeds[seed] + draw.gauss(0, 0.1)))
            for seed in range(7)
            for height in (0.6, 1.0, 1.6)
        ]
        known = EpochsToTarget.of([each for each in trainings if each[0] < 6])
        _, features, epochs = trainings[-2]
        kept += epochs <= known.within(features, 0.95)
    assert 0.92 <= kept / many <= 0.99


def always(epochs: float, features: int) -> EpochsToTarget:
    """As many epochs whatever the features."""
    return EpochsToTarget((math.log(epochs), *[0.0] * features), 0.0, 5)


def told(*, bronze: float = 5.0, rest: float = 1.0, way_out: float = 5.0) -> Known:
    return Known(
        dict.fromkeys(PAIRS, (-0.2, -0.1)),
        dict.fromkeys(SWITCHES, Line(0.0, 0.0)),
        dict.fromkeys((GOLD, SILVER), always(bronze, 2)),
        always(rest, 1),
        always(way_out, 2),
    )


def standing(clock: Deadline, before: list[tuple[Pair, float]], left_epochs: float) -> EpochStatus:
    """A training with time for so many more epochs of bronze."""
    pair = before[-1][0]
    time_s = (clock.task.goal.deadline_s or 0.0) - left_epochs * clock.epochs_s(BRONZE, 1)
    losses, there = [loss for _, loss in before], sum(each == pair for each, _ in before)
    return EpochStatus(len(before), clock.phases[pair], losses, Evaluation(losses[-1]), time_s, 1.0, there, 1.0)


@pytest.fixture(scope="module")
def clock() -> Deadline:
    asked = task(recorded=True)
    return Deadline(asked, phases(asked))


@pytest.mark.parametrize(("bronze", "epochs", "last"), [(5.0, 4, True), (30.0, 4, False), (5.0, 1, None)])
def test_bronze_is_offered_only_where_it_is_in_time(
    clock: Deadline, bronze: float, epochs: int, last: bool | None
) -> None:
    before = [(GOLD, 1.0)] * (epochs // 2) + [(SILVER, 0.5)] * (epochs - epochs // 2)
    found = offered(clock, told(bronze=bronze), standing(clock, before, 10), before)
    assert ((SILVER, BRONZE) in found) == bool(last)
    assert ((GOLD, BRONZE) in found) == (last is not None), "what could be done from elsewhere stays"


@pytest.mark.parametrize(
    ("rest", "left_epochs", "loss", "expected"),
    [
        (2.0, 2.5, 0.2, False),  # bronze is in time
        (3.0, 6.0, 0.2, False),  # so it is with much time
        (9.0, 6.0, 0.2, False),  # it is not, but the way out can wait for another epoch
        (9.0, 2.5, 0.2, True),  # now or never
        (9.0, 1.0, 0.2, False),  # too late for either: bronze is as good as any
        (9.0, 2.5, TARGET, False),  # it is over
    ],
)
def test_the_way_out_is_taken_at_the_last_moment_and_only_if_needed(
    clock: Deadline, rest: float, left_epochs: float, loss: float, expected: bool
) -> None:
    before = [(GOLD, 1.0)] * 3 + [(SILVER, 0.5)] * 4 + [(BRONZE, loss)] * 5
    assert clock.epochs_s(WAY_OUT, 5) < 2 * clock.epochs_s(BRONZE, 1)
    found = leaves(clock, told(rest=rest), standing(clock, before, left_epochs), before)
    assert found == expected


def test_the_table_has_the_epochs_of_bronze_as_they_should_be_from_here() -> None:
    known = replace(told(bronze=10.0), rises=dict.fromkeys(SWITCHES, Line(0.4, 0.0)))
    before = [(GOLD, 1.0)] * 3 + [(SILVER, TARGET * math.e)] * 4
    expected, robust = rates_now(known, before).runs[BRONZE]
    assert (expected, robust) == pytest.approx((-0.14, -0.14)), "a height of 1 and a rise of 0.4 in ten epochs"
    assert rates_now(known, before[:3]).runs == known.runs, "on gold it is that of all pilots"


class Counted:
    """A training that only counts its epochs."""

    trained: list[str] = []

    def __init__(self, path: str = "") -> None:
        self.path = path

    def twin(self) -> Counted:
        return Counted(self.path)

    def epoch(self, pruning: float, part: str) -> float:
        self.path += part
        Counted.trained.append(self.path)
        return float(len(self.path) + pruning)


def test_schedules_share_their_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "fresh", lambda _: Counted())
    monkeypatch.setattr(beginnings, "KEPT", 6)
    monkeypatch.setattr(Counted, "trained", [])
    made = Beginnings({"gold": "g", "silver": "s", "bronze": "b"}, 0)  # type: ignore[dict-item]
    assert made.losses([GOLD, GOLD, BRONZE]) == [1, 2, pytest.approx(3.6)]
    assert made.losses([GOLD, GOLD, SILVER, SILVER])[-1] == pytest.approx(4.5)
    assert Counted.trained == ["g", "gg", "ggb", "ggs", "ggss"], "each of them once"
    for length in range(1, 9):
        made.losses([GOLD] * 2 + [BRONZE] * length)
    assert made.losses([GOLD, GOLD, GOLD])[-1] == 3
    assert Counted.trained.count("gg") == 1, "what all others begin with was not given up"
