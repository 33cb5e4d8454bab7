"""How a phase proceeds: what the engine tells the workers, and when. One class for each kind of agreement."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from safetensors.torch import load as from_bytes
from torch import Tensor

from palmette.runtime.engines.local import LISTEN_S, Crew, Stopped, one_from_each
from palmette.runtime.phase_programs import Part
from palmette.runtime.sync.base import Given
from palmette.runtime.training.dilation import Widening
from palmette.runtime.training.job import Job, Measured
from palmette.runtime.training.log import Log
from palmette.runtime.worker.commands import Done, GiveState, Go, State
from palmette.spec.plan import Phase

# A lone worker is given several iterations at a time, as many as fit into this.
_GRANT_S = 0.25
# The dilation is not widened where fewer iterations are left to be measured.
FEWEST = 3
# How long the living have to say what they hold when another is lost.
_RESCUE_S = 5.0
# How long a stop waits for the iteration that goes on: where workers can go back to the one before, and where not.
_KEPT_S, _NOT_KEPT_S = 2.0, 30.0

Stopping = Callable[[], bool]

__all__ = ["LISTEN_S", "Patience", "Rounds", "Stage", "StepRounds", "Stopping", "gathered", "holders", "typical_s"]


@dataclass(frozen=True)
class Stage:
    """What rounds are made from. ``tree_steps`` are those that each tree has taken before, if that is known."""

    phase: Phase
    parts: Sequence[Part]
    crew: Crew
    job: Job
    log: Log
    tree_steps: Sequence[int] = ()


class Rounds(Protocol):
    """The iterations of one phase, counted from its beginning."""

    @property
    def tree_steps(self) -> Sequence[int]:
        """The steps that each tree has taken, where the number of iterations does not tell."""
        ...

    @property
    def given_up(self) -> bool:
        """Whether something was begun that had to be given up; weights may be half done then."""
        ...

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Go on from iteration ``at``, not beyond ``end``, to a moment at which nothing is half done.

        Returns how far the phase has come, without what had to be given up.
        """
        ...

    def state(self) -> Given:
        """The weights of the whole network and the optimizer's state."""
        ...

    def rescued(self, after: int, gone: str | None) -> Given | None:
        """What the living have, without the node that is ``gone``, as it was after an iteration that all have done.

        None where that cannot be had: nobody else holds a layer, or weights are not the same everywhere.
        """
        ...

    def measured(self) -> Measured:
        """What iterations have taken so far."""
        ...


class StepRounds:
    """``step``: all workers go, all are done, and again."""

    tree_steps: Sequence[int] = ()
    given_up = False

    def __init__(self, stage: Stage) -> None:
        self._stage, (self._part,) = stage, stage.parts
        self._grant = 1
        self._spans_s: list[float] = []
        self._widening = Widening(stage.crew, stage.job.ground, stage.log)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Run the next iteration; several at once where there is but one worker."""
        nodes, crew, first = self._part.programs, self._stage.crew, self._stage.log.position.iteration
        last = min(end, at + (self._grant if len(nodes) == 1 else 1)) - 1
        began = time.monotonic()
        for node in nodes:
            crew.send(node, Go(0, first + at, first + last))
        given_up = Patience(stopping, _KEPT_S if self._stage.job.workers_keep else _NOT_KEPT_S)
        for number in range(at, last + 1):
            try:
                self._note(number, one_from_each(crew, nodes, Done, given_up))
            except Stopped:
                self.given_up = True
                return number
        taken = last + 1 - at
        self._grant = max(1, math.floor(taken * _GRANT_S / max(time.monotonic() - began, 1e-6)))
        if end - last - 1 >= FEWEST and self._widening.widened(last + 1):
            self._spans_s.clear()
        return last + 1

    def _note(self, at: int, done: Mapping[str, Done]) -> None:
        phase, log = self._stage.phase, self._stage.log
        records = {node: event.records for node, event in done.items()}
        took_s = log.happened(at, phase, records)
        log.pause()
        self._widening.note(records)
        self._spans_s.append(took_s)
        loss = sum(event.loss for event in done.values())
        log.iteration(at, loss, phase.batch, took_s)

    def state(self) -> Given:
        """Each layer from the first that holds it."""
        return gathered(self._stage.crew, holders(self._stage.phase))

    def rescued(self, after: int, gone: str | None) -> Given | None:
        """Each layer from the first of the living that holds it, if they keep what they had."""
        phase = self._stage.phase
        living = [instance for instance in phase.instances if instance.node != gone]
        held = {n for instance in living for n in range(instance.layers[0], instance.layers[1] + 1)}
        if not self._stage.job.workers_keep or len(held) < phase.depth:
            return None
        layers = holders(phase.model_copy(update={"instances": tuple(living)}))
        asked = {node: GiveState(tuple(numbers), after) for node, numbers in layers.items()}
        answers = self._stage.crew.ask(asked, State, _RESCUE_S)
        return joined(answers.values()) if len(answers) == len(asked) else None

    def measured(self) -> Measured:
        """The median iteration."""
        return Measured(typical_s(self._spans_s))


class Patience:
    """Says that a stop has waited long enough for what goes on."""

    def __init__(self, stopping: Stopping, seconds: float) -> None:
        self._stopping, self._seconds = stopping, seconds
        self._until_s: float | None = None

    def __call__(self) -> bool:
        """Whether it has."""
        if self._until_s is None and self._stopping():
            self._until_s = time.monotonic() + self._seconds
        return self._until_s is not None and time.monotonic() > self._until_s


def typical_s(seconds: Sequence[float]) -> float | None:
    """The median; the first, in which much is done for the first time, is left out if it can be."""
    return statistics.median(seconds[1:] or seconds) if seconds else None


def holders(phase: Phase) -> dict[str, list[int]]:
    """For each layer, the node of the first instance that holds it; as the layers by node."""
    found: dict[str, list[int]] = {}
    for number in range(1, phase.depth + 1):
        holder = next(i for i in phase.instances if i.layers[0] <= number <= i.layers[1])
        found.setdefault(holder.node, []).append(number)
    return found


def gathered(crew: Crew, layers: Mapping[str, Iterable[int]]) -> Given:
    """Weights and optimizer state of layers, each from its node."""
    for node, numbers in layers.items():
        crew.send(node, GiveState(tuple(numbers)))
    return joined(one_from_each(crew, layers, State).values())


def joined(states: Iterable[State]) -> Given:
    """What several nodes gave, in one."""
    weights: dict[str, Tensor] = {}
    optimizer: dict[str, Tensor] = {}
    for each in states:
        weights |= from_bytes(each.weights)
        optimizer |= from_bytes(each.optimizer)
    return weights, optimizer
