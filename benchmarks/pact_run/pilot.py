"""What PACT knows beforehand: how fast each model learnt on its nodes in earlier trainings with other seeds.

The pilots are pruned and handed over after some epochs, once and twice, and trained on. An epoch lowers the loss by
about the same factor, wherever it stands; so changes add up, as PACT's table wants it, in the logarithm of the loss.
The table has the means of what was seen, and robust figures that 19 of 20 do not exceed. The first epochs after
a switch win much of its rise back, so that what counts is what is left after ``WON_BACK`` epochs; the lower the loss,
the more that is, along a line. A training that lost more is often the faster afterwards, so what is uncertain about the
rise and the epochs after it is counted once, in the epochs.

A pair that another may follow can still be left when it learns slowly; from the last one there is nowhere to go. So a
switch to that is offered only where there is time for as many epochs as it may take to the target, robustly
(``EpochsToTarget``). Pilots are few and those of one seed alike, so that is a t-interval with one degree of freedom for
each seed but one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from benchmarks.pact_run.replay import Trainee, fresh
from benchmarks.pact_run.setting import PAIRS, TARGET
from palmette.spec.problem import Pair
from palmette.zoo.data import DataSplit

WHOLE, FIRST, SECOND = 10, (4, 5, 7), (2, 4, 6, 8)
"""Epochs of the whole network, and after how many the first and the second switch come."""
AFTER = {"silver": 10, "bronze": 14}
"""Epochs that follow a switch to a set; more on bronze, where the target takes them."""
MOST = 24
"""Epochs on bronze in all."""
WON_BACK = 3
CONFIDENCE = 0.95
"""How many of further trainings should need no more epochs to the target than is robust."""
Switch = tuple[Pair, Pair]
Floats = npt.NDArray[np.float64]
LEARNING = 1.5
"""Where the loss is above, the whole network has hardly begun to learn."""


@dataclass(frozen=True)
class Course:
    """The losses of a training in one pair, after each epoch, and before the switch to it, if there was one.

    ``whole`` is how many epochs the whole network had been trained for by then.
    """

    seed: int
    pair: Pair
    losses: list[float]
    came: tuple[Pair, float] | None = None
    whole: int = 0


def courses(seed: int, parts: dict[str, DataSplit], first_switches: Sequence[int] = FIRST) -> list[Course]:
    """A training of the whole network, and all those that went on from it."""
    whole, medium, small = PAIRS
    trunk, first = fresh(seed), Course(seed, whole, [])
    found = [first]
    for done in range(1, WHOLE + 1):
        first.losses.extend(_trained(trunk, whole, parts, 1))
        if done not in first_switches:
            continue
        came = (whole, first.losses[-1])
        found.append(Course(seed, small, _to_target(trunk.twin(), small, parts), came, done))
        branch, since = trunk.twin(), Course(seed, medium, [], came, done)
        for epoch in range(1, AFTER["silver"] + 1):
            since.losses.extend(_trained(branch, medium, parts, 1))
            if epoch in SECOND:
                later = _to_target(branch.twin(), small, parts)
                found.append(Course(seed, small, later, (medium, since.losses[-1]), done))
        found.append(since)
    return found


def _trained(trainee: Trainee, pair: Pair, parts: dict[str, DataSplit], epochs: int) -> list[float]:
    return [trainee.epoch(float(pair[0]), parts[pair[1]]) for _ in range(epochs)]


def _to_target(trainee: Trainee, pair: Pair, parts: dict[str, DataSplit]) -> list[float]:
    losses = _trained(trainee, pair, parts, AFTER["bronze"])
    while min(losses) > TARGET and len(losses) < MOST:
        losses.extend(_trained(trainee, pair, parts, 1))
    return losses


@dataclass(frozen=True)
class Line:
    """A switch's rise over the logarithm of the loss before it."""

    base: float
    slope: float

    def at(self, loss: float) -> float:
        """The rise at a loss."""
        return self.base + self.slope * math.log(loss)


@dataclass(frozen=True)
class EpochsToTarget:
    """The epochs of the last pair, linear in the height of the loss before and in the whole network's epochs.

    ``margin`` is how many more they may be, robustly.
    """

    constant: float
    per_height: float
    per_whole: float
    margin: float

    @classmethod
    def of(cls, seen: Sequence[Course]) -> EpochsToTarget:
        """By least squares."""
        columns = np.array([(1.0, height(each.came[1] if each.came else 0.0), each.whole) for each in seen])
        epochs = np.array([_epochs_to_target(each.losses) for each in seen])
        fitted, *_ = np.linalg.lstsq(columns, epochs, rcond=None)
        off, left = epochs - columns @ fitted, max(1, len(seen) - len(fitted))
        seeds = len({each.seed for each in seen})
        deviation = math.sqrt(float(off @ off) / left * (1 + 1 / seeds))
        margin = deviation * float(student.ppf(CONFIDENCE, max(1, seeds - 1)))
        return cls(*map(float, fitted), margin)

    def robust(self, loss: float, whole: int) -> float:
        """Epochs that should do."""
        return self.constant + self.per_height * height(loss) + self.per_whole * whole + self.margin


def height(loss: float) -> float:
    """How far a loss is above the target, as a logarithm; 0 at the target and below."""
    return max(0.0, math.log(loss / TARGET)) if loss > 0 else 0.0


def _epochs_to_target(losses: Sequence[float]) -> float:
    return float(next((epoch for epoch, loss in enumerate(losses, 1) if loss <= TARGET), MOST))


@dataclass(frozen=True)
class Known:
    """Changes of the logarithm of the loss: of an epoch in each pair, expected and robust; and lines for switches.

    And the epochs to the target in the last pair, by the pair before.
    """

    runs: dict[Pair, tuple[float, float]]
    rises: dict[Switch, Line]
    to_target: dict[Pair, EpochsToTarget]


def known(seen: Sequence[Course]) -> Known:
    """What the pilots teach."""
    runs = {pair: _told(_rates([each for each in seen if each.pair == pair])) for pair in PAIRS}
    switches = [(here, there) for at, there in enumerate(PAIRS) for here in PAIRS[:at]]
    rises = {switch: _line(seen, switch, runs[switch[1]][0]) for switch in switches}
    last = [each for each in seen if each.pair == PAIRS[-1]]
    return Known(
        runs, rises, {pair: EpochsToTarget.of([c for c in last if c.came and c.came[0] == pair]) for pair in PAIRS[:-1]}
    )


def _told(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.quantile(values, 0.95))


def _rates(seen: Sequence[Course]) -> list[float]:
    """The mean change of an epoch in each training, by least squares."""
    return [float(np.polyfit(epochs, heights, 1)[0]) for epochs, heights in map(_steady, seen)]


def _steady(course: Course) -> tuple[Floats, Floats]:
    """Epochs in which a training learns steadily, and the logarithms of their losses."""
    steady = [
        (epoch, math.log(loss))
        for epoch, loss in enumerate(course.losses, 1)
        if (epoch >= WON_BACK if course.came else loss < LEARNING)
    ]
    epochs, heights = np.array(steady).T
    return epochs, heights


def _line(seen: Sequence[Course], switch: Switch, rate: float) -> Line:
    """What is left of the rises of a switch, beyond epochs of the new model as if there had been none."""
    points = []
    for each in seen:
        if each.came is not None and (each.came[0], each.pair) == switch:
            epochs, heights = _steady(each)
            before = math.log(each.came[1])
            points.append((before, float(np.mean(heights - rate * epochs)) - before))
    before_all, left = np.array(points).T
    slope, base = np.polyfit(before_all, left, 1)
    return Line(float(base), float(slope))
