"""When the workers of a phase under ``step`` exchange gradients and update, where that is a part of its own.

iterations   0   1   2 │ 3   4   5 │ 6   7  …        --accumulate 3
exchange               ▲           ▲       ▲         after every third; and, here, before a checkpoint is saved
update                 ▲           ▲
"""

from __future__ import annotations

from collections.abc import Callable

from palmette.runtime.engines.crew import never, one_from_each
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.sync.base import PhaseContext
from palmette.runtime.worker.commands import Execute, IterationDone

UPDATE = 1
"""The number of the part."""


class UpdateSchedule:
    """Counts the iterations since the last exchange of gradients, and has the workers exchange them."""

    def __init__(self, context: PhaseContext, part: PhasePart) -> None:
        self._context, self._part = context, part
        self.every = context.evaluator.optimizer.accumulate
        self._accumulated = context.accumulated
        self._waiting: list[int] = []
        self._exchanged: int | None = None

    def begin(self, at: int) -> None:
        """Note the first iteration of the phase that is run; a resumed run begins within the phase."""
        if self._exchanged is None:
            self._exchanged = at - 1

    def iterated(self, at: int, aborted: Callable[[], bool]) -> float:
        """Note an iteration; update if it completes one. Returns how long that took.

        Raises:
            Stopped: ``aborted`` returns True before that is done.
        """
        self._waiting.append(at)
        if self._accumulated + len(self._waiting) < self.every:
            return 0.0
        took_s = self.exchange(aborted)
        self._accumulated = 0
        return took_s

    def exchange(self, aborted: Callable[[], bool] = never) -> float:
        """Exchange the gradients of all iterations since the last exchange; returns how long it took.

        Raises:
            Stopped: ``aborted`` returns True before that is done.
        """
        if not self._waiting:
            return 0.0
        crew, log, last = self._context.crew, self._context.log, self._waiting[-1]
        number = log.first_iteration + last
        for node in self._part.programs:
            crew.send(node, Execute(UPDATE, number, number))
        done = one_from_each(crew, self._part.programs, IterationDone, aborted)
        self._accumulated += len(self._waiting)
        self._waiting, self._exchanged = [], last
        took_s = log.trace_operations(last, self._part.phase, {node: each.records for node, each in done.items()})
        log.pause()
        return took_s

    def exchanged_after(self, iteration: int) -> bool:
        """Whether gradients were exchanged after this iteration of the training, so that all nodes have the same."""
        return self._exchanged in (None, iteration - self._context.log.first_iteration)
