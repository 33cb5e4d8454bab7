"""``epoch``: every tree takes its steps, then weights are exchanged.

    tree 0   ▐step▐step▐step▐step▐step▐         ┌──────────┐
    tree 1   ▐ step ▐ step ▐ step ▐             │ exchange │  next epoch …
    tree 2   ▐   step   ▐   step   ▐   step   ▐ └──────────┘

An iteration is a step of those trees that take so many in an epoch. A run that ends within an epoch ends with an
exchange after the steps that it has taken. One that is stopped within an epoch gives it up: the last epoch's
checkpoint is what remains.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from palmette.cost.operations import exchanges_weights
from palmette.runtime.sync.base import Given
from palmette.runtime.sync.dispatch import Grants, Step
from palmette.runtime.sync.rounds import LISTEN_S, Stage, Stopping, gathered, holders, typical_s
from palmette.runtime.training.dilation import Widening
from palmette.runtime.training.job import Measured
from palmette.runtime.training.phase_length import tree_steps


class EpochRounds:
    """Epochs of federated averaging."""

    tree_steps: Sequence[int] = ()
    given_up = False

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._steps = tree_steps(stage.phase, stage.job)
        self._grants = Grants(stage.crew, stage.parts)
        self._spans_s: list[list[float]] = [[] for _ in self._steps]
        self._epochs_s: list[float] = []
        self._widening = Widening(stage.crew, stage.job.ground, stage.log)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Run the epoch that begins at iteration ``at``, or its first iterations up to ``end``."""
        began_s = time.monotonic()
        begun = at // max(self._steps)
        firsts = [self._stage.log.position.iteration + begun * many for many in self._steps]
        epoch = _Epoch(self._stage, self._grants, at, firsts, [min(many, end - at) for many in self._steps])
        while epoch.left:
            step = self._grants.next(LISTEN_S)
            if stopping():
                self.given_up = True
                return at
            if step is not None:
                self._spans_s[step.part].append(epoch.take(step))
                self._widening.note(step.records)
        self._exchange(end - 1)
        if end - at == max(self._steps):
            self._epochs_s.append((time.monotonic() - began_s) / self._stage.job.ground.dilation)
        if self._widening.widened(end):
            self._forget()
        return end

    def _forget(self) -> None:
        """Measure anew."""
        self._epochs_s.clear()
        for spans_s in self._spans_s:
            spans_s.clear()

    def _exchange(self, at: int) -> None:
        """Exchange weights after iteration ``at``, if an epoch ends with that; then all are idle."""
        stage = self._stage
        if exchanges_weights(stage.phase):
            self._grants.give(len(self._steps), at, at)
            while (step := self._grants.next(LISTEN_S)) is None:
                continue
            stage.log.happened(at, stage.phase, step.records)
        stage.log.pause()

    def state(self) -> Given:
        """Each layer from the first that holds it: after an exchange all are alike."""
        return gathered(self._stage.crew, holders(self._stage.phase))

    def rescued(self, after: int, gone: str | None) -> Given | None:
        """Nothing: between exchanges weights are not the same everywhere; the last epoch's checkpoint remains."""
        return None

    def measured(self) -> Measured:
        """The median step of the slowest tree, and the median epoch beside the price of one with as many steps."""
        steps_s = [typical for spans in self._spans_s if (typical := typical_s(spans)) is not None]
        return Measured(
            max(steps_s, default=None),
            statistics.median(self._epochs_s) if self._epochs_s else None,
            self._stage.job.evaluator.epoch_s(self._stage.phase, self._steps),
        )


class _Epoch:
    """The steps of one epoch: given out, and noted in order when all trees that take an iteration have done it.

    A tree takes ``steps`` of them, its own numbers from ``firsts`` on; the epoch begins at iteration ``at``.
    """

    def __init__(self, stage: Stage, grants: Grants, at: int, firsts: Sequence[int], steps: Sequence[int]) -> None:
        self._stage, self._grants, self._at, self._firsts, self._steps = stage, grants, at, firsts, steps
        self._done: list[list[tuple[Step, float]]] = [[] for _ in range(max(steps))]
        self._noted = 0
        self.left = sum(steps)
        for tree in range(len(steps)):
            self._give(tree, 0)

    def _give(self, tree: int, place: int) -> None:
        last = self._steps[tree] - 1 if self._grants.alone(tree) else place
        self._grants.give(tree, self._firsts[tree] + place, self._firsts[tree] + last)

    def take(self, step: Step) -> float:
        """Note a step, and give out the tree's next; returns how long it took."""
        tree, place = step.part, step.number - self._firsts[step.part]
        if not self._grants.alone(tree) and place + 1 < self._steps[tree]:
            self._give(tree, place + 1)
        took_s = self._stage.log.happened(self._at + place, self._stage.parts[tree].phase, step.records)
        self._done[place].append((step, took_s))
        while self._noted < len(self._done) and len(self._done[self._noted]) == self._takers(self._noted):
            self._note(self._noted, self._done[self._noted])
            self._done[self._noted].clear()
            self._noted += 1
        self.left -= 1
        return took_s

    def _takers(self, place: int) -> int:
        """How many trees take an iteration."""
        return sum(many > place for many in self._steps)

    def _note(self, place: int, done: Sequence[tuple[Step, float]]) -> None:
        batches = [self._stage.parts[step.part].phase.batch for step, _ in done]
        loss = sum(step.loss * batch for (step, _), batch in zip(done, batches, strict=True)) / sum(batches)
        self._stage.log.iteration(self._at + place, loss, sum(batches), max(took_s for _, took_s in done))
