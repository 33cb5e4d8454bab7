"""The engine's side of ``epoch`` and ``every``: all trees take the steps of a window, then weights are exchanged.

    tree 0   ▐step▐step▐step▐step▐step▐         ┌──────────┐
    tree 1   ▐ step ▐ step ▐ step ▐             │ exchange │  next window …
    tree 2   ▐   step   ▐   step   ▐   step   ▐ └──────────┘

Iteration i of a window is step i of every tree that takes that many. A run that ends within a window exchanges weights
after the steps taken so far. Between exchanges replicas have different weights, so that a run that is stopped there, or
loses a node, goes on from the last checkpoint.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from palmette.cost.operations import exchanges_weights
from palmette.runtime.engines.crew import LISTEN_S
from palmette.runtime.sync.base import PhaseContext, Stopping, StopTimeout, gathered, holders
from palmette.runtime.sync.dilation import DilationControl
from palmette.runtime.sync.dispatch import StepDispatcher, TreeStep
from palmette.runtime.worker.setup import StateDicts


class Window(NamedTuple):
    """The steps of each tree, and the number of the first of them; it ends before the phase's iteration ``end``."""

    end: int
    firsts: Sequence[int]
    steps: Sequence[int]
    whole: bool


class WindowEngineSide(ABC):
    """Windows of steps that trees take apart; a kind of sync says which steps they are."""

    tree_steps: Sequence[int] = ()
    aborted = False
    patience_s = 0.0
    """How long a stop waits for the window in progress."""

    def __init__(self, context: PhaseContext) -> None:
        self.context = context
        self.trees = context.phase.roots
        self._dispatcher = StepDispatcher(context.crew, context.parts)
        self.spans_s: list[list[float]] = [[] for _ in range(self.trees)]
        self.windows_s: list[float] = []
        """How long whole windows took, exchange included."""
        self._going: dict[int, int] = {}
        """The parts of exchanges that have begun, with the iteration that they follow."""
        self._dilation = DilationControl(context.crew, context.testbed, context.log)

    @abstractmethod
    def window(self, at: int, end: int) -> Window:
        """The window that begins with iteration ``at`` and ends no later than ``end``."""

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Run the window that starts at iteration ``at``, or its first iterations up to ``end``."""
        began_s, window = time.monotonic(), self.window(at, end)
        if not self.steps_done(at, window, StopTimeout(stopping, self.patience_s)):
            self.aborted = True
            return at
        self._exchange(window)
        if window.whole:
            self.windows_s.append((time.monotonic() - began_s) / self.context.testbed.dilation)
        if self._dilation.adjusted(window.end):
            self._forget()
        return window.end

    def steps_done(self, at: int, window: Window, aborted: Callable[[], bool]) -> bool:
        """Run the steps of a window; False if that is aborted. A part of an exchange may end meanwhile."""
        steps = _WindowSteps(self.context, self._dispatcher, at, window)
        while steps.left:
            step = self._dispatcher.next(LISTEN_S)
            if aborted():
                return False
            if step is not None and step.part >= self.trees:
                self._note_part(step)
            elif step is not None:
                self.spans_s[step.part].append(steps.take(step))
                self._dilation.note(step.records)
        return True

    def _forget(self) -> None:
        """Discard the times measured so far."""
        self.windows_s.clear()
        for spans_s in self.spans_s:
            spans_s.clear()

    def exchange_stages(self, window: Window) -> Sequence[Sequence[int]]:
        """The parts of the exchange that ends a window: those of a stage at once, when the stage before is done."""
        return [[self.trees]] if exchanges_weights(self.context.phase) else []

    def _exchange(self, window: Window) -> None:
        """Exchange weights, if the phase's windows end with that; then all nodes are idle."""
        for stage in self.exchange_stages(window):
            for part in stage:
                self.give_part(part, window.end - 1)
            self.wait_for_parts()
        self.context.log.pause()

    def give_part(self, part: int, at: int) -> None:
        """Begin a part of an exchange after iteration ``at``."""
        if self.context.parts[part].programs:
            self._going[part] = at
            self._dispatcher.give(part, at, at)

    def wait_for_parts(self) -> None:
        """Wait until all parts of exchanges that have begun are done."""
        while self._going:
            step = self._dispatcher.next(LISTEN_S)
            if step is not None:
                self._note_part(step)

    def _note_part(self, step: TreeStep) -> None:
        self.context.log.trace_operations(self._going.pop(step.part), self.context.phase, step.records)

    def state(self) -> StateDicts:
        """Each layer from the first node that holds it, as all replicas are equal now; optimizer state from all.

        Where only some trees get the average, layers are from the server.
        """
        phase, first = self.context.phase, holders(self.context.phase)
        if phase.draws_clients:
            first = {phase.meeting_node: list(range(1, phase.depth + 1))}
        return gathered(self.context.crew, {node: first.get(node, []) for node in phase.nodes()})

    def recovered(self, after: int, gone: str | None) -> StateDicts | None:
        """None: between exchanges replicas have different weights; the last checkpoint remains."""
        return None


class _WindowSteps:
    """The steps of one window: dispatched, and recorded in order when all trees in an iteration have done theirs."""

    def __init__(self, context: PhaseContext, dispatcher: StepDispatcher, at: int, window: Window) -> None:
        self._context, self._dispatcher, self._at = context, dispatcher, at
        self._firsts, self._steps = window.firsts, window.steps
        self._done: list[list[tuple[TreeStep, float]]] = [[] for _ in range(max(window.steps))]
        self._noted = 0
        self.left = sum(window.steps)
        for tree, many in enumerate(window.steps):
            if many:
                self._give(tree, 0)

    def _give(self, tree: int, place: int) -> None:
        last = self._steps[tree] - 1 if self._dispatcher.alone(tree) else place
        self._dispatcher.give(tree, self._firsts[tree] + place, self._firsts[tree] + last)

    def take(self, step: TreeStep) -> float:
        """Record a step, and dispatch the tree's next; returns how long it took."""
        tree, place = step.part, step.number - self._firsts[step.part]
        if not self._dispatcher.alone(tree) and place + 1 < self._steps[tree]:
            self._give(tree, place + 1)
        took_s = self._context.log.trace_operations(self._at + place, self._context.parts[tree].phase, step.records)
        self._done[place].append((step, took_s))
        while self._noted < len(self._done) and len(self._done[self._noted]) == self._takers(self._noted):
            self._note(self._noted, self._done[self._noted])
            self._done[self._noted].clear()
            self._noted += 1
        self.left -= 1
        return took_s

    def _takers(self, place: int) -> int:
        """How many trees take part in an iteration."""
        return sum(many > place for many in self._steps)

    def _note(self, place: int, done: Sequence[tuple[TreeStep, float]]) -> None:
        batches = [self._context.parts[step.part].phase.batch for step, _ in done]
        loss = sum(step.loss * batch for (step, _), batch in zip(done, batches, strict=True)) / sum(batches)
        self._context.log.iteration(self._at + place, loss, sum(batches), max(took_s for _, took_s in done))
