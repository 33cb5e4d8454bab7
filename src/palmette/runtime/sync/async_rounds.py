"""``async``: the next step goes to whichever tree is free.

    tree 0   ▐step▐step▐step▐step▐step▐step▐
    tree 1   ▐   step   ▐   step   ▐   step   ▐

An iteration is one step of one tree; iterations are numbered as they are completed. Nothing is half done when all
steps under way have ended: so it is at the end of an epoch, for a checkpoint, and when the run is to stop. The order in
which steps reach the server depends on who is how fast, and so do the weights: a run that is resumed, or repeated, goes
as well but not the same way, unless there is but one tree.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from palmette.runtime.sync.base import Given
from palmette.runtime.sync.dispatch import Grants, Step
from palmette.runtime.sync.rounds import LISTEN_S, Patience, Stage, Stopping, gathered, typical_s
from palmette.runtime.training.dilation import Widening
from palmette.runtime.training.job import Measured

# How long a stop waits for the steps under way.
_STOP_S = 5.0
# New steps are given out for so long before all are waited for.
_STRETCH_S = 60.0


class AsyncRounds:
    """Steps of workers against a parameter server."""

    given_up = False

    def __init__(self, stage: Stage) -> None:
        self._stage, self._grants = stage, Grants(stage.crew, stage.parts)
        self._taken = list(stage.tree_steps) or [0] * len(stage.parts)
        self._steps_s: list[list[float]] = [[] for _ in stage.parts]
        self._widening = Widening(stage.crew, stage.job.ground, stage.log)

    @property
    def tree_steps(self) -> Sequence[int]:
        """The steps that each tree has taken."""
        return tuple(self._taken)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Give out steps up to ``end``, for a while, and wait for all of them."""
        until_s = time.monotonic() + _STRETCH_S
        given = at

        def give(tree: int) -> None:
            nonlocal given
            if given < end and not stopping() and time.monotonic() < until_s:
                number = self._stage.log.position.iteration + self._taken[tree]
                self._grants.give(tree, number, number)
                given += 1

        for tree in range(len(self._taken)):
            give(tree)
        long_enough = Patience(stopping, _STOP_S)
        while at < given:
            step = self._grants.next(LISTEN_S)
            if long_enough():
                self.given_up = True
                return at
            if step is not None:
                self._finish(step)
                give(step.part)
                self._note(at, step)
                at += 1
        self._stage.log.pause()
        if self._widening.widened(at):
            for steps_s in self._steps_s:
                steps_s.clear()
        return at

    def _finish(self, step: Step) -> None:
        self._taken[step.part] += 1
        took_s = time.monotonic() - self._grants.given_s[step.part]
        self._steps_s[step.part].append(took_s / self._stage.job.ground.dilation)

    def _note(self, at: int, step: Step) -> None:
        part, log = self._stage.parts[step.part], self._stage.log
        span_s = log.happened(at, part.phase, step.records)
        self._widening.note(step.records)
        log.iteration(at, step.loss, part.phase.batch, span_s, tree=part.root)

    def state(self) -> Given:
        """The server's."""
        phase = self._stage.phase
        return gathered(self._stage.crew, {phase.meeting_node: range(1, phase.depth + 1)})

    def rescued(self, after: int, gone: str | None) -> Given | None:
        """Nothing: steps are under way all the time; the last checkpoint remains."""
        return None

    def measured(self) -> Measured:
        """The mean time of an iteration while all trees are busy: 1 / Σ of their rates, each by its median step.

        A step lasts from when it was given to when all have said that it is done.
        """
        typical = [seconds for steps in self._steps_s if (seconds := typical_s(steps)) is not None]
        return Measured(1 / sum(1 / seconds for seconds in typical) if typical else None)
