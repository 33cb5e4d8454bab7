"""StaticLearn and OneSwitch: the cheapest schedules of two simple kinds, by the losses that really happen.

OneSwitch changes exactly once. StaticLearn trains every model that can be trained once, on one set of nodes each, so
that all lower the loss by about the same: each within a margin of their mean. What a change does to the loss counts
for the new model.

Both consist of **stretches**: a first move, and then epochs with the same model and nodes. Where sums of a stretch
over its length are arrays, all its lengths are looked at at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from palmette.plan.pact.actions import FORGIVEN, Floats, Moves
from palmette.plan.pact.simulation import State, epochs_within, start_of
from palmette.spec.problem import Problem

Flags = npt.NDArray[np.bool_]

MOST_LENGTHS = 5 * 10**7
"""Lengths of stretches that are looked at for a schedule of equal parts."""


@dataclass(frozen=True)
class Stretch:
    """A first move and all lengths of what may follow it: the loss after 1, 2, … epochs, and the state before."""

    before: State
    first: int
    stay: int
    losses: Floats

    def after(self, moves: Moves, epochs: int) -> State:
        """The state after so many epochs."""
        more = epochs - 1
        return State(
            self.before.epochs + epochs,
            int(moves.there[self.first]),
            float(self.losses[more]),
            self.before.time_s + float(moves.time_s[self.first]) + more * float(moves.time_s[self.stay]),
            self.before.energy_j + float(moves.energy_j[self.first]) + more * float(moves.energy_j[self.stay]),
        )

    def moves(self, epochs: int) -> list[int]:
        """The moves of so many epochs."""
        return [self.first] + [self.stay] * (epochs - 1)


class Rivals:
    """Looks for schedules made of stretches."""

    def __init__(self, problem: Problem, moves: Moves) -> None:
        self.problem, self.moves = problem, moves
        self._most = epochs_within(problem.deadline_s, moves)
        self._stay = {int(moves.here[a]): a for a in range(len(moves.here)) if moves.here[a] == moves.there[a]}
        self._sums: dict[int, Floats] = {}
        self._models = len({run.model for run in problem.run})
        self._best_j = math.inf
        self._found: list[int] | None = None
        self._left = 0

    def one_switch(self) -> list[int] | None:
        """The moves of the cheapest schedule that meets the goal and changes exactly once; None if none does."""
        for change in self.moves.out[0]:
            if self.moves.there[change] != 0:
                self._switched_by(change)
        return self._found

    def at_most_one_switch(self) -> list[int] | None:
        """The same, or without any change if that is cheaper."""
        start, stay = start_of(self.problem), self._stay.get(0)
        if start.meets(self.problem):
            return []
        if stay is not None:
            self._finish([], self._stretch(start, stay))
        return self.one_switch()

    def _switched_by(self, change: int) -> None:
        """Try a change after 0, 1, 2, … epochs without one, as far as the target can be reached at all then."""
        start, stay = start_of(self.problem), self._stay.get(0)
        stays = np.arange(1 if stay is None else self._most)
        rows = np.minimum(stays, len(self.moves.true) - 1)
        changed = start.loss + self.moves.true[rows, change] + (0.0 if stay is None else self._summed(stay)[stays])
        later = self._summed(self._stay[int(self.moves.there[change])])
        lowest = np.minimum.accumulate(later[::-1])[::-1]
        reached = changed + lowest[stays + 1] - later[stays + 1] <= self.problem.target_loss + FORGIVEN
        for epochs in map(int, np.flatnonzero(reached)):
            before = start
            if stay is not None and epochs:
                before = self._stretch(start, stay).after(self.moves, epochs)
            if before.energy_j >= self._best_j or not before.in_time(self.problem):
                break
            self._finish([] if stay is None else [stay] * epochs, self._stretch(before, change))

    def static_learn(self, margin: float, effort: int = MOST_LENGTHS) -> list[int] | None:
        """The moves of the cheapest schedule that meets the goal with about equal parts of all models; None if none.

        ``spent`` says afterwards that there were more to look at than the effort allows.
        """
        self._left = effort
        self._equal_parts([], start_of(self.problem), {}, margin)
        return self._found

    @property
    def spent(self) -> bool:
        """Whether the search for equal parts ended before it had seen all."""
        return self._left < 0

    def _equal_parts(self, made: list[int], state: State, falls: dict[str, float], margin: float) -> None:
        ways: list[tuple[float, int, Stretch]] = []
        for first in self.moves.out[state.pair]:
            model = self.moves.model(int(self.moves.there[first]))
            if model in falls or (made and self.moves.there[first] == state.pair):
                continue
            if self.spent:
                return
            stretch = self._stretch(state, first)
            self._left -= len(stretch.losses)
            fitting = self._fitting(stretch, list(falls.values()), margin)
            if len(falls) + 1 == self._models:
                self._finish(made, stretch, fitting)
            else:
                ways += [(far, epochs, stretch) for far, epochs in self._lengths(stretch, fitting)]
        for _, epochs, stretch in sorted(ways, key=itemgetter(0)):
            after = stretch.after(self.moves, epochs)
            if after.energy_j < self._best_j and not self.spent:
                fall = {self.moves.model(after.pair): state.loss - after.loss}
                self._equal_parts(made + stretch.moves(epochs), after, falls | fall, margin)

    def _lengths(self, stretch: Stretch, fitting: Flags) -> Iterator[tuple[float, int]]:
        """The fitting lengths that are in time, and how far each part of the whole fall is from an equal one."""
        lengths = np.flatnonzero(fitting) + 1
        first_s, more_s = (float(self.moves.time_s[move]) for move in (stretch.first, stretch.stay))
        end_s = stretch.before.time_s + first_s + (lengths - 1) * more_s
        lengths = lengths[end_s <= self.problem.deadline_s + FORGIVEN]
        far = np.abs(stretch.before.loss - stretch.losses[lengths - 1] - self._equal_part)
        return zip(far.tolist(), lengths.tolist(), strict=True)

    @property
    def _equal_part(self) -> float:
        return (self.problem.start.loss - self.problem.target_loss) / self._models

    def _fitting(self, stretch: Stretch, falls: list[float], margin: float) -> Flags:
        """Lengths whose fall of the loss can be one of about equal ones that together reach the target."""
        own = stretch.before.loss - stretch.losses
        fitting = (own > 0) & (own >= (1 - margin) * self._equal_part - FORGIVEN)
        low, high = 1 - margin, 1 + margin
        for fall in falls:
            fitting &= (own * high >= fall * low - FORGIVEN) & (own * low <= fall * high + FORGIVEN)
        if len(falls) + 1 == self._models:
            mean = (own + sum(falls)) / self._models
            fitting &= np.abs(own - mean) <= margin * mean + FORGIVEN
            for fall in falls:
                fitting &= np.abs(fall - mean) <= margin * mean + FORGIVEN
        return fitting

    def _finish(self, made: list[int], stretch: Stretch, fitting: Flags | None = None) -> None:
        """Take the shortest fitting length that reaches the target, if it is in time and the cheapest so far."""
        reached = stretch.losses <= self.problem.target_loss + FORGIVEN
        if fitting is not None:
            reached &= fitting
        if not reached.any():
            return
        epochs = int(reached.argmax()) + 1
        after = stretch.after(self.moves, epochs)
        if after.in_time(self.problem) and after.energy_j < self._best_j:
            self._best_j, self._found = after.energy_j, made + stretch.moves(epochs)

    def _stretch(self, state: State, first: int) -> Stretch:
        """A stretch of any length that may end by the deadline."""
        stay = self._stay[int(self.moves.there[first])]
        sums = self._summed(stay)[state.epochs + 1 : self._most + 1]
        changed = state.loss + float(self.moves.true[self.moves.row(state.epochs), first])
        return Stretch(state, first, stay, changed + sums - sums[:1])

    def _summed(self, stay: int) -> Floats:
        """The sum of a stay's changes of the loss over the first 0, 1, 2, … epochs of the training."""
        if stay not in self._sums:
            rows = np.minimum(np.arange(self._most), len(self.moves.true) - 1)
            self._sums[stay] = np.concatenate(([0.0], np.cumsum(self.moves.true[rows, stay])))
        return self._sums[stay]
