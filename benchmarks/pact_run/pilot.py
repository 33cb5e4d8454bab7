"""What PACT knows beforehand: how fast each model learnt on its nodes in earlier trainings with other seeds.

The pilots are pruned and handed over after some epochs, once and twice, and trained on. An epoch lowers the loss by
about the same factor, wherever it stands; so changes add up, as PACT's table wants it, in the logarithm of the loss.
The table has the means of what was seen, and robust figures that 19 of 20 do not exceed. The first epochs after
a switch win much of its rise back, so that what counts is what is left after ``WON_BACK`` epochs; the lower the loss,
the more that is, along a line. A training that lost more is often the faster afterwards, so what is uncertain about the
rise and the epochs after it is counted once, in the epochs.

How many epochs something takes to the target is fitted to the pilots, too, in logarithms, with a t-interval for what
another seed may need (``EpochsToTarget``): bronze from before the switch to it, bronze from where it stands, and the
way out of bronze, back to silver with the model of bronze. Pilots are few and those of one seed alike, so there is one
degree of freedom for each seed but one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from benchmarks.pact_run.beginnings import Beginnings, Epochs
from benchmarks.pact_run.setting import PAIRS, TARGET, WAY_OUT
from palmette.spec.problem import Pair

WHOLE, FIRST, SECOND, AWAY = 10, (3, 4, 5), (4, 6, 8), (6, 9)
"""Epochs of the whole network; after how many the first, the second switch and the way out come."""
AFTER = {"silver": 8, "bronze": 6}
"""Epochs that follow a switch to a set; on bronze more until the target."""
MOST = 20
"""Epochs on bronze, and on the way out of it."""
WON_BACK = 3
SETTLED, NEAR = 4, 0.9
"""Epochs on bronze, and the height of the loss, from which on its end can be foreseen."""
Switch = tuple[Pair, Pair]
Floats = npt.NDArray[np.float64]
LEARNING = 1.5
"""Where the loss is above, the whole network has hardly begun to learn."""


@dataclass(frozen=True)
class Course:
    """The losses of a training in one pair, after each epoch, and those before it, with their pairs."""

    seed: int
    pair: Pair
    losses: list[float]
    before: tuple[tuple[Pair, float], ...] = ()

    @property
    def came(self) -> tuple[Pair, float] | None:
        """The pair and the loss before the switch to this one, if there was one."""
        return self.before[-1] if self.before else None


def courses(seed: int, trainings: Beginnings, first_switches: Sequence[int] = FIRST) -> list[Course]:
    """A training of the whole network, and all those that went on from it."""
    whole, medium, small = PAIRS

    def course(pair: Pair, before: Epochs, epochs: int, most: int = 0) -> Course:
        """So many epochs of a pair, and more until the target, at most as many as that."""
        losses = trainings.losses([*before, *[pair] * epochs])
        while min(losses[len(before) :]) > TARGET and len(losses) < len(before) + most:
            losses.append(trainings.loss((*before, *[pair] * (len(losses) + 1 - len(before)))))
        return Course(seed, pair, losses[len(before) :], tuple(zip(before, losses, strict=False)))

    found = [course(whole, (), WHOLE)]
    for first in first_switches:
        begun: Epochs = (whole,) * first
        found += [course(medium, begun, AFTER["silver"]), course(small, begun, AFTER["bronze"], MOST)]
        for second in SECOND:
            last = course(small, (*begun, *[medium] * second), AFTER["bronze"], MOST)
            ends = _epochs_to_target(last.losses)
            away = [(*begun, *[medium] * second, *[small] * epochs) for epochs in AWAY if epochs < ends]
            found += [last, *(course(WAY_OUT, before, 1, MOST) for before in away)]
    return found


@dataclass(frozen=True)
class Line:
    """A switch's rise over the logarithm of the loss before it."""

    base: float
    slope: float

    def at(self, loss: float) -> float:
        """The rise at a loss."""
        return self.base + self.slope * math.log(loss)


Features = tuple[float, ...]


@dataclass(frozen=True)
class EpochsToTarget:
    """The epochs of a pair to the target, the logarithm of which is linear in some features.

    ``deviation`` is that of another seed's, with so many ``degrees`` of freedom.
    """

    weights: Features
    deviation: float
    degrees: int

    @classmethod
    def of(cls, seen: Sequence[tuple[int, Features, float]]) -> EpochsToTarget:
        """By least squares, from seeds, features and epochs."""
        columns = np.array([(1.0, *features) for _, features, _ in seen])
        epochs = np.log([each for *_, each in seen])
        fitted, *_ = np.linalg.lstsq(columns, epochs, rcond=None)
        off, left = epochs - columns @ fitted, max(1, len(seen) - len(fitted))
        seeds = len({seed for seed, *_ in seen})
        return cls(tuple(map(float, fitted)), math.sqrt(float(off @ off) / left * (1 + 1 / seeds)), max(1, seeds - 1))

    def within(self, features: Features, confidence: float) -> float:
        """Epochs that are enough for such a part of further trainings."""
        expected = self.weights[0] + sum(w * x for w, x in zip(self.weights[1:], features, strict=True))
        return math.exp(expected + self.deviation * float(student.ppf(confidence, self.degrees)))


def recent(losses: Sequence[float]) -> float:
    """How high the last two losses are above the target on average: that of one epoch is noisy."""
    return fmean(map(height, losses[-2:]))


def before_last(before: Sequence[tuple[Pair, float]]) -> Features:
    """What tells the epochs of the last pair before it begins: the last losses, and the whole network's last."""
    whole = [loss for pair, loss in before if pair == PAIRS[0]]
    return recent([loss for _, loss in before]), height(whole[-1])


def on_way_out(before: Sequence[tuple[Pair, float]]) -> Features:
    """What tells the epochs of the way out: the last losses, and those before bronze."""
    there = [loss for pair, loss in before if pair != PAIRS[-1]]
    return recent([loss for _, loss in before]), recent(there)


def height(loss: float) -> float:
    """How far a loss is above the target, as a logarithm; 0 at the target and below."""
    return max(0.0, math.log(loss / TARGET)) if loss > 0 else 0.0


def _epochs_to_target(losses: Sequence[float]) -> int:
    return next((epoch for epoch, loss in enumerate(losses, 1) if loss <= TARGET), MOST)


@dataclass(frozen=True)
class Known:
    """Changes of the logarithm of the loss: of an epoch in each pair, expected and robust; and lines for switches.

    And the epochs to the target: in the last pair by the pair before, there from where it stands, and on the way out.
    """

    runs: dict[Pair, tuple[float, float]]
    rises: dict[Switch, Line]
    to_target: dict[Pair, EpochsToTarget]
    rest: EpochsToTarget
    way_out: EpochsToTarget


def known(seen: Sequence[Course]) -> Known:
    """What the pilots teach."""
    runs = {pair: _told(_rates([each for each in seen if each.pair == pair])) for pair in PAIRS}
    switches = [(here, there) for at, there in enumerate(PAIRS) for here in PAIRS[:at]]
    rises = {switch: _line(seen, switch, runs[switch[1]][0]) for switch in switches}
    last = [each for each in seen if each.pair == PAIRS[-1]]
    entered = {pair: [each for each in last if each.came and each.came[0] == pair] for pair in PAIRS[:-1]}
    return Known(
        runs=runs,
        rises=rises,
        to_target={pair: EpochsToTarget.of(_taken(some, before_last)) for pair, some in entered.items()},
        rest=EpochsToTarget.of([each for course in last for each in _rests(course)]),
        way_out=EpochsToTarget.of(_taken([each for each in seen if each.pair == WAY_OUT], on_way_out)),
    )


def _taken(
    seen: Sequence[Course], features: Callable[[Sequence[tuple[Pair, float]]], Features]
) -> list[tuple[int, Features, float]]:
    return [(each.seed, features(each.before), _epochs_to_target(each.losses)) for each in seen]


def _rests(course: Course) -> Iterator[tuple[int, Features, float]]:
    """The epochs that were left at each of a training on bronze near its end."""
    ends = _epochs_to_target(course.losses)
    for epoch in range(SETTLED, min(ends, len(course.losses))):
        if (now := recent(course.losses[:epoch])) < NEAR:
            yield course.seed, (now,), ends - epoch


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
