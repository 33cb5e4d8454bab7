"""StaticLearn and OneSwitch: the cheapest schedules of two simple kinds, by the true losses.

OneSwitch changes model or nodes exactly once. StaticLearn trains every model once, each on one set of nodes, so that
all lower the loss by about the same: each within a margin of their mean. What a change does to the loss counts for the
new model.

Both consist of **segments**: a first action, then epochs with the same model and nodes. Sums over a segment are arrays
indexed by its length, so that all lengths are tried at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from palmette.plan.pact.actions import TOLERANCE, EpochActions, Floats
from palmette.plan.pact.simulation import TrainingState, epochs_within, initial_state
from palmette.spec.problem import Problem

Flags = npt.NDArray[np.bool_]

MAX_LENGTHS = 5 * 10**7
"""Lengths of segments that are tried for a schedule of equal parts."""


@dataclass(frozen=True)
class ScheduleSegment:
    """A first action and staying after it, of any length: the state before, and the loss after 1, 2, … epochs."""

    before: TrainingState
    first: int
    stay: int
    losses: Floats

    def after(self, actions: EpochActions, epochs: int) -> TrainingState:
        """The state after so many epochs."""
        more = epochs - 1
        return TrainingState(
            self.before.epochs + epochs,
            int(actions.to_pair[self.first]),
            float(self.losses[more]),
            self.before.time_s + float(actions.time_s[self.first]) + more * float(actions.time_s[self.stay]),
            self.before.energy_j + float(actions.energy_j[self.first]) + more * float(actions.energy_j[self.stay]),
        )

    def actions(self, epochs: int) -> list[int]:
        """The actions of so many epochs."""
        return [self.first] + [self.stay] * (epochs - 1)


class RivalSearch:
    """Searches for schedules made of segments."""

    def __init__(self, problem: Problem, actions: EpochActions) -> None:
        self.problem, self.actions = problem, actions
        self._max_epochs = epochs_within(problem.deadline_s, actions)
        self._stay = {int(actions.from_pair[a]): int(a) for a in np.flatnonzero(actions.from_pair == actions.to_pair)}
        self._sums: dict[int, Floats] = {}
        self._models = len({run.model for run in problem.run})
        self._best_j = math.inf
        self._found: list[int] | None = None
        self._left = 0

    def one_switch(self) -> list[int] | None:
        """The actions of the cheapest schedule that meets the goal and changes exactly once; None if none does."""
        for change in self.actions.outgoing[0]:
            if self.actions.to_pair[change] != 0:
                self._try_switch(change)
        return self._found

    def at_most_one_switch(self) -> list[int] | None:
        """The same, or a schedule without any change if that is cheaper."""
        start, stay = initial_state(self.problem), self._stay.get(0)
        if start.meets(self.problem):
            return []
        if stay is not None:
            self._keep_if_best([], self._segment(start, stay))
        return self.one_switch()

    def _try_switch(self, change: int) -> None:
        """Try a change after 0, 1, 2, … epochs without one, where the target can still be reached after it."""
        start, stay = initial_state(self.problem), self._stay.get(0)
        stays = np.arange(1 if stay is None else self._max_epochs)
        rows = np.minimum(stays, len(self.actions.true) - 1)
        changed = (
            start.loss
            + self.actions.true[rows, change]
            + (0.0 if stay is None else self._cumulative_changes(stay)[stays])
        )
        later = self._cumulative_changes(self._stay[int(self.actions.to_pair[change])])
        lowest = np.minimum.accumulate(later[::-1])[::-1]
        reached = changed + lowest[stays + 1] - later[stays + 1] <= self.problem.target_loss + TOLERANCE
        for epochs in map(int, np.flatnonzero(reached)):
            before = start
            if stay is not None and epochs:
                before = self._segment(start, stay).after(self.actions, epochs)
            if before.energy_j >= self._best_j or not before.in_time(self.problem):
                break
            self._keep_if_best([] if stay is None else [stay] * epochs, self._segment(before, change))

    def static_learn(self, margin: float, max_lengths: int = MAX_LENGTHS) -> list[int] | None:
        """The actions of the cheapest schedule that meets the goal with about equal parts of all models; None if none.

        Tries at most ``max_lengths``; ``exhausted`` says afterwards whether there were more.
        """
        self._left = max_lengths
        self._search_equal_parts([], initial_state(self.problem), {}, margin)
        return self._found

    @property
    def exhausted(self) -> bool:
        """Whether the search for equal parts ended before it had tried all."""
        return self._left < 0

    def _search_equal_parts(
        self, made: list[int], state: TrainingState, falls: dict[str, float], margin: float
    ) -> None:
        candidates: list[tuple[float, int, ScheduleSegment]] = []
        for first in self.actions.outgoing[state.pair]:
            model = self.actions.model(int(self.actions.to_pair[first]))
            if model in falls or (made and self.actions.to_pair[first] == state.pair):
                continue
            if self.exhausted:
                return
            segment = self._segment(state, first)
            self._left -= len(segment.losses)
            fitting = self._equal_enough(segment, list(falls.values()), margin)
            if len(falls) + 1 == self._models:
                self._keep_if_best(made, segment, fitting)
            else:
                candidates += [(far, epochs, segment) for far, epochs in self._lengths(segment, fitting)]
        for _, epochs, segment in sorted(candidates, key=itemgetter(0)):
            after = segment.after(self.actions, epochs)
            if after.energy_j < self._best_j and not self.exhausted:
                fall = {self.actions.model(after.pair): state.loss - after.loss}
                self._search_equal_parts(made + segment.actions(epochs), after, falls | fall, margin)

    def _lengths(self, segment: ScheduleSegment, fitting: Flags) -> Iterator[tuple[float, int]]:
        """The fitting lengths that meet the deadline, and how far each one's fall is from an equal part."""
        lengths = np.flatnonzero(fitting) + 1
        first_s, more_s = (float(self.actions.time_s[action]) for action in (segment.first, segment.stay))
        end_s = segment.before.time_s + first_s + (lengths - 1) * more_s
        lengths = lengths[end_s <= self.problem.deadline_s + TOLERANCE]
        far = np.abs(segment.before.loss - segment.losses[lengths - 1] - self._equal_part)
        return zip(far.tolist(), lengths.tolist(), strict=True)

    @property
    def _equal_part(self) -> float:
        return (self.problem.start.loss - self.problem.target_loss) / self._models

    def _equal_enough(self, segment: ScheduleSegment, falls: list[float], margin: float) -> Flags:
        """Which lengths lower the loss by a part that, with others about equal, reaches the target."""
        own = segment.before.loss - segment.losses
        fitting = (own > 0) & (own >= (1 - margin) * self._equal_part - TOLERANCE)
        low, high = 1 - margin, 1 + margin
        for fall in falls:
            fitting &= (own * high >= fall * low - TOLERANCE) & (own * low <= fall * high + TOLERANCE)
        if len(falls) + 1 == self._models:
            mean = (own + sum(falls)) / self._models
            fitting &= np.abs(own - mean) <= margin * mean + TOLERANCE
            for fall in falls:
                fitting &= np.abs(fall - mean) <= margin * mean + TOLERANCE
        return fitting

    def _keep_if_best(self, made: list[int], segment: ScheduleSegment, fitting: Flags | None = None) -> None:
        """Keep the shortest fitting length that reaches the target, if it is in time and the cheapest so far."""
        reached = segment.losses <= self.problem.target_loss + TOLERANCE
        if fitting is not None:
            reached &= fitting
        if not reached.any():
            return
        epochs = int(reached.argmax()) + 1
        after = segment.after(self.actions, epochs)
        if after.in_time(self.problem) and after.energy_j < self._best_j:
            self._best_j, self._found = after.energy_j, made + segment.actions(epochs)

    def _segment(self, state: TrainingState, first: int) -> ScheduleSegment:
        """A segment of any length that may end by the deadline."""
        stay = self._stay[int(self.actions.to_pair[first])]
        sums = self._cumulative_changes(stay)[state.epochs + 1 : self._max_epochs + 1]
        changed = state.loss + float(self.actions.true[self.actions.row(state.epochs), first])
        return ScheduleSegment(state, first, stay, np.maximum(changed + sums - sums[:1], self.actions.floor))

    def _cumulative_changes(self, stay: int) -> Floats:
        """The sum of a stay's changes of the loss over the first 0, 1, 2, … epochs of the training."""
        if stay not in self._sums:
            rows = np.minimum(np.arange(self._max_epochs), len(self.actions.true) - 1)
            self._sums[stay] = np.concatenate(([0.0], np.cumsum(self.actions.true[rows, stay])))
        return self._sums[stay]
