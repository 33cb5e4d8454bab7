"""Schedules replayed: the losses by a training in one process, time and energy by the evaluator.

Every single switch, in hindsight; and a run that is decided epoch by epoch, without a testbed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, pairwise
from typing import NamedTuple

from benchmarks.pact_run.beginnings import Beginnings
from benchmarks.pact_run.setting import PAIRS, TARGET
from palmette.cost.handover import change_price
from palmette.plan.core.strategy import Task
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import EpochCallback, EpochStatus
from palmette.spec.plan import Phase
from palmette.spec.problem import Pair

Schedule = tuple[tuple[Pair, int], ...]
"""Pairs and epochs."""


class Switch(NamedTuple):
    """A schedule: pairs and epochs, what it takes by the evaluator, and the loss at its end."""

    schedule: Schedule
    energy_j: float
    time_s: float
    loss: float
    meets: bool


class Hindsight:
    """What schedules of a seed come to."""

    def __init__(self, task: Task, phases: dict[Pair, Phase], trainings: Beginnings) -> None:
        self._task, self._phases, self._trainings = task, phases, trainings
        self._deadline_s = task.goal.deadline_s or math.inf

    def priced(self, schedule: Schedule, loss: float) -> Switch:
        """A schedule with its price."""
        prices = {pair: self._task.evaluator.price(self._phases[pair]) for pair, _ in schedule}
        passed = [
            change_price(self._phases[here], self._phases[there], self._task.evaluator)
            for (here, _), (there, _) in pairwise(schedule)
        ]
        time_s = sum(prices[pair].epoch.time_s * epochs for pair, epochs in schedule) + sum(
            each.time_s for each in passed
        )
        energy_j = sum((prices[pair].epoch.energy_j or 0.0) * epochs for pair, epochs in schedule)
        meets = loss <= TARGET and time_s <= self._deadline_s
        return Switch(schedule, energy_j + sum(each.energy_j or 0.0 for each in passed), time_s, loss, meets)

    def losses(self, schedule: Schedule) -> list[float]:
        """The loss of each epoch of a schedule."""
        return self._trainings.losses([pair for pair, epochs in schedule for _ in range(epochs)])

    def decided(self, decide: EpochCallback) -> Switch:
        """A run that is decided after every epoch."""
        losses, schedule = list[float](), [(PAIRS[0], 0)]
        while True:
            pair, epochs = schedule[-1]
            schedule[-1] = pair, epochs + 1
            losses.append(self._loss(tuple(schedule)))
            made = self.priced(tuple(schedule), losses[-1])
            following = decide(self._status(losses, made))
            if not following:
                return made
            after = next(each for each in PAIRS if self._phases[each].pruning == following[0].pruning)
            schedule += [] if after == pair else [(after, 0)]

    def _status(self, losses: list[float], made: Switch) -> EpochStatus:
        pair, epochs = made.schedule[-1]
        phase = self._phases[pair]
        return EpochStatus(
            number=len(losses),
            phase=phase,
            losses=losses,
            evaluation=Evaluation(losses[-1]),
            time_s=made.time_s,
            energy_j=made.energy_j,
            segment_epochs=epochs,
            epoch_s=self._task.evaluator.price(phase).epoch.time_s,
        )

    def every_switch(self) -> Iterator[Switch]:
        """One switch after each epoch of the whole network to each other pair; at last, none until the end."""
        for before in self._whole():
            if self._over(before):
                yield before
                return
            for pair in PAIRS[1:]:
                yield self._until_target(before.schedule, pair)

    def never(self) -> Switch:
        """No switch until the end."""
        *_, made = self._whole()
        return made

    def best_switch(self) -> Switch | None:
        """The cheapest switch that meets target and deadline; none is trained on that costs more than one that does."""
        best, most_j = None, math.inf
        for before in self._whole():
            if self._over(before) or before.energy_j >= most_j:
                break
            for pair in reversed(PAIRS[1:]):  # the thriftiest first
                made = self._until_target(before.schedule, pair, most_j)
                if made.meets and made.energy_j < most_j:
                    best, most_j = made, made.energy_j
        return best

    def _whole(self) -> Iterator[Switch]:
        """The whole network after each of its epochs, to the target or the deadline."""
        return self._on(())

    def _until_target(self, before: Schedule, pair: Pair, most_j: float = math.inf) -> Switch:
        """A switch to a pair, which is trained to the target, or until there is no more time or it costs too much."""
        for made in self._on(before, pair):
            if made.energy_j >= most_j:
                break
        return made

    def _on(self, before: Schedule, pair: Pair = PAIRS[0]) -> Iterator[Switch]:
        """A schedule with one more epoch of a pair, two, and so on, until it is over."""
        for epochs in count(1):
            schedule = (*before, (pair, epochs))
            made = self.priced(schedule, self._loss(schedule))
            yield made
            if self._over(made):
                return

    def _over(self, made: Switch) -> bool:
        return made.loss <= TARGET or made.time_s > self._deadline_s

    def _loss(self, schedule: Schedule) -> float:
        return self._trainings.loss(tuple(pair for pair, epochs in schedule for _ in range(epochs)))
