"""Records what happens in a phase, adds it up, and reports it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from palmette.errors import Diverged
from palmette.runtime.program import Channel
from palmette.runtime.record.activity import Activity
from palmette.runtime.record.journal import Journal, operations, span_s
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import DilationIncrease, Job, ProgressUpdate, RunOutcome
from palmette.runtime.training.phase_length import Position
from palmette.spec.plan import Phase

# A long activity is added up piece by piece, so that its records do not fill the memory.
_PIECE = 20_000
# A clipped gradient has a norm of 1, so that an update is as long as this: with more, weights are lost all the same.
_MOST_LR_CLIPPED = 10.0


class TrainingLog:
    """The log of one phase; its iterations ``at`` are counted from its beginning."""

    def __init__(
        self,
        job: Job,
        phase: Phase,
        position: Position,
        journal: Journal,
        outcome: RunOutcome,
        *,
        channels: Mapping[int, Channel],
        watch: Callable[[ProgressUpdate], None],
    ) -> None:
        self._job, self._phase, self._channels = job, phase, channels
        self._journal, self._outcome, self._watch = journal, outcome, watch
        journal.begin_phase()
        self._activity = Activity(job.evaluator, channels)
        self._began_s = time.monotonic()
        self._losses: list[float] = []
        self.position = position

    @property
    def first_iteration(self) -> int:
        """The number of the phase's first iteration in the whole training."""
        return self.position.iteration

    def wall_s(self) -> float:
        """Seconds of the whole training so far, without pauses between runs."""
        return self.position.wall_s + time.monotonic() - self._began_s

    def clock_s(self) -> float:
        """The same on the emulated clock."""
        return self.position.clock_s + (time.monotonic() - self._began_s) / self._job.testbed.dilation

    def epoch_loss(self) -> float:
        """The mean loss of the iterations since the last call."""
        found = sum(self._losses) / len(self._losses)
        self._losses.clear()
        return found

    def trace_operations(
        self,
        at: int,
        phase: Phase,
        records: Mapping[str, Sequence[OperationRecord]],
        began_s: float | None = None,
    ) -> float:
        """Trace what nodes did for a phase or a tree of it; returns how long it took on the emulated clock.

        It took from its first operation to its last, or from ``began_s`` on, where samples have travelled ahead.
        """
        number, _ = self.position.numbers(at)
        dilation = self._job.testbed.dilation
        zero_s = self._began_s - self.position.clock_s * dilation
        lines = operations(number, phase, records, zero_s, dilation)
        self._journal.trace(lines)
        if began_s is not None and not self._activity.records:
            self._activity = Activity(self._job.evaluator, self._channels, began_s)
        self._activity.add(phase, records)
        if self._activity.records > _PIECE:
            end_s = self._activity.end_s
            self.pause()
            self._activity = Activity(self._job.evaluator, self._channels, end_s)
        return span_s(lines, None if began_s is None else (began_s - zero_s) / dilation)

    def pause(self) -> None:
        """While all nodes are idle, add up what they did since the last pause."""
        activity, dilation, outcome = self._activity, self._job.testbed.dilation, self._outcome
        if not activity.records:
            return
        outcome.time_s += activity.span_s / dilation
        spent = activity.energy_j(self._phase.nodes(), dilation)
        outcome.energy_j = None if spent is None or outcome.energy_j is None else outcome.energy_j + spent
        for node in self._phase.nodes():
            seconds = outcome.node_seconds.setdefault(node, {})
            for what, took_s in activity.seconds(node).items():
                seconds[what] = seconds.get(what, 0.0) + took_s / dilation
        self._activity = Activity(self._job.evaluator, self._channels)

    def dilation_increased(self, at: int, by: float) -> None:
        """The dilation was increased by a factor before iteration ``at``: the emulated clock is slower from now on."""
        ended_s, dilation = time.monotonic(), self._job.testbed.dilation
        clock_s = self.position.clock_s + (ended_s - self._began_s) * by / dilation
        self.position = replace(self.position, wall_s=self.wall_s(), clock_s=clock_s)
        self._began_s = ended_s
        self._outcome.dilation = dilation
        self._outcome.dilation_increases.append(DilationIncrease(self.position.numbers(at)[0], dilation))

    def iteration(self, at: int, loss: float, samples: int, took_s: float, **more: Any) -> None:
        """Record a finished iteration.

        Raises:
            Diverged: its loss is not finite.
        """
        number, epoch = self.position.numbers(at)
        if not math.isfinite(loss):
            raise Diverged(_diverged(number, loss, self._job))
        wall_s = self.wall_s()
        self._journal.metric(
            iteration=number, epoch=epoch, loss=loss, samples=samples, wall_s=wall_s, iteration_s=took_s, **more
        )
        self._losses.append(loss)
        self._outcome.iterations += 1
        update = ProgressUpdate(number + 1, self.position.iterations, epoch, loss, samples, wall_s, iteration_s=took_s)
        self._watch(update)

    def evaluated(self, at: int, found: Evaluation, **more: Any) -> None:
        """Record an evaluation after the iteration before ``at``."""
        number, epoch = self.position.numbers(at - 1)
        owners = {node: {"samples": each.samples, **_values(each)} for node, each in found.owners.items()}
        told = {"owners": owners} if owners else {}
        self._journal.metric(iteration=number, epoch=epoch, **_values(found), **told, **more)
        self._watch(ProgressUpdate(number + 1, self.position.iterations, epoch, found.loss, 0, 0.0, found))


def _values(found: Evaluation) -> dict[str, float | None]:
    """What was found, as it is written."""
    return {"accuracy": found.accuracy, "loss": found.loss, **found.metrics}


def _diverged(number: int, loss: float, job: Job) -> str:
    """What to do about a loss that is not finite, so that it does not come again."""
    if number == 0:  # no update has been made
        look = "look for values that are not finite, or far too large, in the data and in the initial weights"
        return f"the loss is {loss} before the first update, whatever the options of the training; {look}"
    options = job.options
    smaller = f"--lr (it was {options.lr:g})" if options.lr is not None else "--lr"
    helps = options.clip_norm is None and (options.lr is None or options.lr <= _MOST_LR_CLIPPED)
    clip = ", or --clip-norm 1" if helps else ""
    scale = f", or --loss-scale (it was {options.loss_scale:g})" if options.autocast == "fp16" else ""
    return f"the loss is {loss} in iteration {number}; start again with a smaller {smaller}{scale}{clip}"
