"""What PACT knows in ``benchmarks.pact_run``, which switches it is offered, and what its schedules share."""

from __future__ import annotations

import math
from random import Random

import pytest

from benchmarks.pact_run import beginnings
from benchmarks.pact_run.beginnings import Beginnings
from benchmarks.pact_run.deciding import offered
from benchmarks.pact_run.pilot import MOST, Course, EpochsToTarget, Known, Line
from benchmarks.pact_run.setting import PAIRS, TARGET, phases, task
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import EpochStatus

GOLD, SILVER, BRONZE = PAIRS


def course(seed: int, height: float, whole: int, epochs: int) -> Course:
    """A training on bronze that reaches the target after so many epochs."""
    return Course(seed, BRONZE, [1.0] * (epochs - 1) + [TARGET], (SILVER, TARGET * math.exp(height)), whole)


def test_epochs_that_follow_the_plane_have_no_margin() -> None:
    seen = [course(seed, (seed + whole) / 5, whole, 2 + seed + 2 * whole) for seed in range(6) for whole in (4, 5, 7)]
    found = EpochsToTarget.of(seen)
    assert (found.constant, found.per_height, found.per_whole) == pytest.approx((2, 5, 1))
    assert found.margin == pytest.approx(0, abs=1e-6)
    assert found.robust(TARGET * math.exp(0.8), 4) == pytest.approx(10)


def test_a_training_that_never_gets_there_counts_as_the_longest() -> None:
    lost = Course(0, BRONZE, [1.0] * MOST, (SILVER, 1.0), 4)
    assert EpochsToTarget.of([lost] * 3).robust(1.0, 4) == pytest.approx(MOST)


def test_nineteen_of_twenty_further_trainings_need_no_more_epochs() -> None:
    draw, kept, many = Random(0), 0, 400
    for _ in range(many):
        seeds = [draw.gauss(0, 1) for _ in range(7)]
        trainings = [
            (seed, height, round(4 + 5 * height + seeds[seed] + draw.gauss(0, 1)))
            for seed in range(7)
            for height in (0.6, 1.0, 1.6)
        ]
        known = EpochsToTarget.of([course(seed, height, 4, epochs) for seed, height, epochs in trainings if seed < 6])
        _, height, epochs = trainings[-2]
        kept += epochs <= known.robust(TARGET * math.exp(height), 4)
    assert 0.92 <= kept / many <= 0.99


@pytest.mark.parametrize(("margin", "losses", "last"), [(0.0, 6, True), (30.0, 6, False), (0.0, 2, None)])
def test_bronze_is_offered_only_where_it_is_in_time(margin: float, losses: int, last: bool | None) -> None:
    asked = task(recorded=True)
    pairs = phases(asked)
    switches = [(GOLD, SILVER), (GOLD, BRONZE), (SILVER, BRONZE)]
    known = Known(
        dict.fromkeys(PAIRS, (-0.2, -0.1)),
        dict.fromkeys(switches, Line(0.0, 0.0)),
        dict.fromkeys((GOLD, SILVER), EpochsToTarget(5.0, 1.0, 0.0, margin)),
    )
    standing = EpochStatus(losses, pairs[SILVER], [0.5] * losses, Evaluation(0.5), 4.0, 1.0, 2, 1.0)
    found = offered(asked, pairs, known, standing)
    assert ((SILVER, BRONZE) in found) == bool(last)
    assert ((GOLD, BRONZE) in found) == (last is not None), "what could be done from elsewhere stays"


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
