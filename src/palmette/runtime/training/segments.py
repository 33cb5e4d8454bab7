"""The segments of a run, past and future, as far as they are known.

A segment is a phase and how many iterations of it are run. Between two segments nothing is half done, and the state of
the run (weights, optimizer state, progress) is all that passes from one to the next:

    segment 0 ──▶ state ──▶ change of model and nodes ──▶ state ──▶ segment 1 ──▶ …

At the end of an epoch, or wherever else a segment stops, the remaining segments may be replaced (``turn``): with
other phases, on other nodes, with a smaller model. Past segments never change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from palmette.runtime.training.job import Job
from palmette.runtime.training.phase_length import Position, epoch_iterations, phase_iterations
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class Segment:
    """A phase, the iterations of it that are run, and the iterations of an epoch."""

    phase: Phase
    iterations: int
    epoch_iterations: int

    @property
    def epochs(self) -> int:
        """Epochs, including an incomplete last one."""
        return math.ceil(self.iterations / self.epoch_iterations)


class Segments:
    """The segments of a job: one per phase of its plan, until ``turn`` replaces some."""

    def __init__(self, job: Job, lengths: Sequence[int] = ()) -> None:
        self._job, self.turned = job, bool(lengths)
        self.all = [self._segment(phase) for phase in job.plan.phases]
        for number, iterations in enumerate(lengths):
            known = self.all[number]
            self.all[number] = Segment(known.phase, iterations, known.epoch_iterations)

    def _segment(self, phase: Phase) -> Segment:
        return Segment(phase, phase_iterations(phase, self._job), epoch_iterations(phase, self._job))

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, number: int) -> Segment:
        return self.all[number]

    def replace_rest(self, number: int, at: int, phases: Sequence[Phase]) -> None:
        """After ``at`` iterations of a segment, continue with these phases; if the first is its own, extend it."""
        self.turned = True
        known, ahead = self.all[number], [self._segment(phase) for phase in phases]
        if ahead and _alike(ahead[0].phase, known.phase):
            at += ahead.pop(0).iterations
        self.all[number:] = [Segment(known.phase, at, known.epoch_iterations), *ahead]

    def phases(self) -> list[Phase]:
        """The phases, each with its actual number of epochs."""
        return [each.phase.model_copy(update={"epochs": max(1, each.epochs)}) for each in self.all]

    def position(self, number: int, wall_s: float, clock_s: float) -> Position:
        """Where a segment is in the whole training, which has taken ``wall_s`` and ``clock_s`` so far."""
        before = self.all[:number]
        return Position(
            iteration=sum(each.iterations for each in before),
            epoch=sum(each.epochs for each in before),
            iterations=sum(each.iterations for each in self.all),
            epoch_iterations=self.all[number].epoch_iterations,
            wall_s=wall_s,
            clock_s=clock_s,
        )


def _alike(one: Phase, other: Phase) -> bool:
    """Whether two phases are the same but for their length."""
    return one.model_copy(update={"epochs": None}) == other.model_copy(update={"epochs": None})
