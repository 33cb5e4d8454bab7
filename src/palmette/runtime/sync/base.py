"""How replicas agree, behind one interface: a ``SyncMethod`` for each kind of ``sync``.

A phase is executed in parts (the whole phase, a tree of it, an exchange of weights: ``cost/parts``), each with a
program per node. A method has two sides: the worker's, which says what the operations of a program do with weights and
gradients, and the engine's, which says when the workers execute which part.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from safetensors.torch import load as from_bytes
from torch import Tensor

from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.epoch_length import EpochData
from palmette.runtime.engines.crew import Crew, one_from_each
from palmette.runtime.engines.testbed import Ground
from palmette.runtime.phase_programs import Part
from palmette.runtime.record.operations import Record
from palmette.runtime.worker.commands import GiveState, State
from palmette.runtime.worker.setup import Setup, StateDicts, WorkerSide
from palmette.spec.plan import Phase

Stopping = Callable[[], bool]


class PhaseLog(Protocol):
    """Where what happens in a phase is written down; iterations ``at`` are counted from the phase's beginning."""

    @property
    def first_iteration(self) -> int:
        """The number of the phase's first iteration in the whole training."""
        ...

    def happened(self, at: int, phase: Phase, records: Mapping[str, Sequence[Record]]) -> float:
        """Trace what nodes did for a phase or a tree of it; returns how long it took on the emulated clock."""
        ...

    def iteration(self, at: int, loss: float, samples: int, took_s: float, **more: Any) -> None:
        """An iteration is done."""
        ...

    def pause(self) -> None:
        """All nodes are idle."""
        ...

    def stretched(self, at: int, by: float) -> None:
        """The dilation has become larger by a factor before iteration ``at``."""
        ...


@dataclass(frozen=True)
class PhaseContext:
    """What the engine's side of a method works with.

    ``tree_steps`` are those that each tree has taken before, if that is known. ``workers_keep``: workers can go back to
    the iteration before.
    """

    phase: Phase
    parts: Sequence[Part]
    crew: Crew
    ground: Ground
    evaluator: Evaluator
    data: EpochData
    log: PhaseLog
    workers_keep: bool = False
    tree_steps: Sequence[int] = ()


@dataclass(frozen=True)
class MeasuredTimes:
    """What a phase really took, on the emulated clock; beside it, what the evaluator says of an epoch like its."""

    iteration_s: float | None
    epoch_s: float | None = None
    estimate_epoch_s: float | None = None


class EngineSide(Protocol):
    """The engine's side: executes the iterations of one phase, counted from its beginning."""

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

    def state(self) -> StateDicts:
        """The weights of the whole network and the optimizer's state."""
        ...

    def rescued(self, after: int, gone: str | None) -> StateDicts | None:
        """What the living have, without the node that is ``gone``, as it was after an iteration that all have done.

        None where that cannot be had: nobody else holds a layer, or weights are not the same everywhere.
        """
        ...

    def measured(self) -> MeasuredTimes:
        """What iterations have taken so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class SyncMethod:
    """One way in which replicas agree."""

    epoch_iterations: Callable[[Phase, Evaluator, EpochData], int]
    """Iterations of an epoch: the part of the data that the plan uses, in batches."""
    worker_side: Callable[[Setup], WorkerSide]
    engine_side: Callable[[PhaseContext], EngineSide]


class StopTimeout:
    """Says when a stop has waited long enough for what is under way."""

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


def gathered(crew: Crew, layers: Mapping[str, Iterable[int]]) -> StateDicts:
    """Weights and optimizer state of layers, each from its node."""
    for node, numbers in layers.items():
        crew.send(node, GiveState(tuple(numbers)))
    return joined(one_from_each(crew, layers, State).values())


def joined(states: Iterable[State]) -> StateDicts:
    """What several nodes gave, in one."""
    weights: dict[str, Tensor] = {}
    optimizer: dict[str, Tensor] = {}
    for each in states:
        weights |= from_bytes(each.weights)
        optimizer |= from_bytes(each.optimizer)
    return weights, optimizer
