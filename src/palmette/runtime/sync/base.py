"""How replicas are synchronized, behind one interface: a ``SyncMethod`` for each kind of ``sync``.

A phase is executed in parts (the whole phase, a tree of it, an exchange of weights, an update: ``cost/sync``), each
with one program per node. A method has two sides: the worker's defines what the operations of a program do with weights
and gradients, and the engine's when the workers execute which part.
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
from palmette.runtime.engines.testbed import Testbed
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.worker.commands import GetState, StateReply
from palmette.runtime.worker.setup import Setup, StateDicts, WorkerSide
from palmette.spec.plan import Phase

Stopping = Callable[[], bool]


class PhaseLog(Protocol):
    """Records what happens in a phase; iterations ``at`` are counted from the start of the phase."""

    @property
    def first_iteration(self) -> int:
        """The number of the phase's first iteration in the whole training."""
        ...

    def trace_operations(
        self,
        at: int,
        phase: Phase,
        records: Mapping[str, Sequence[OperationRecord]],
        began_s: float | None = None,
    ) -> float:
        """Trace the operations of a phase or a tree of it; returns how long they took on the emulated clock.

        They took from the first to the last, or from ``began_s`` on, where samples have travelled ahead.
        """
        ...

    def iteration(self, at: int, loss: float, samples: int, took_s: float, **more: Any) -> None:
        """Record an iteration that is done."""
        ...

    def pause(self) -> None:
        """Record that all nodes are idle."""
        ...

    def dilation_increased(self, at: int, by: float) -> None:
        """Record that the dilation was increased by a factor before iteration ``at``."""
        ...


@dataclass(frozen=True)
class PhaseContext:
    """What the engine's side of a method works with.

    ``tree_steps`` are the steps that each tree has taken before, if known. With ``can_roll_back``, workers can go back
    to the previous iteration. ``iterations`` is how long the phase is; ``accumulated``, of how many the gradients are
    that were accumulated before; ``seed`` that of the run.
    """

    phase: Phase
    parts: Sequence[PhasePart]
    crew: Crew
    testbed: Testbed
    evaluator: Evaluator
    data: EpochData
    log: PhaseLog
    can_roll_back: bool = False
    tree_steps: Sequence[int] = ()
    iterations: int = 0
    accumulated: int = 0
    seed: int = 0


@dataclass(frozen=True)
class MeasuredTimes:
    """The measured times of a phase on the emulated clock, and the evaluator's estimate of such an epoch."""

    iteration_s: float | None
    epoch_s: float | None = None
    estimate_epoch_s: float | None = None


class EngineSide(Protocol):
    """The engine's side: executes the iterations of one phase, counted from its start."""

    @property
    def tree_steps(self) -> Sequence[int]:
        """The steps that each tree has taken, where the number of iterations does not imply them."""
        ...

    @property
    def aborted(self) -> bool:
        """Whether work in progress had to be aborted; weights may then be inconsistent."""
        ...

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Continue from iteration ``at``, not beyond ``end``, to a point where nothing is in progress.

        Returns how far the phase has come, without what was aborted.
        """
        ...

    def state(self) -> StateDicts:
        """The weights of the whole network and the optimizer state."""
        ...

    def recovered(self, after: int, gone: str | None) -> StateDicts | None:
        """The remaining workers' state after an iteration that all have completed, without the node that is ``gone``.

        None if it cannot be recovered: no other node holds a layer, or replicas have different weights.
        """
        ...

    def measured(self) -> MeasuredTimes:
        """The times of the iterations so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class SyncMethod:
    """One kind of sync: how replicas are synchronized."""

    epoch_iterations: Callable[[Phase, Evaluator, EpochData], int]
    """Iterations in an epoch: the part of the data that the plan uses, in batches."""
    worker_side: Callable[[Setup], WorkerSide]
    engine_side: Callable[[PhaseContext], EngineSide]


class StopTimeout:
    """Limits how long a stop waits for what is in progress."""

    def __init__(self, stopping: Stopping, seconds: float) -> None:
        self._stopping, self._seconds = stopping, seconds
        self._until_s: float | None = None

    def __call__(self) -> bool:
        """Whether the timeout has passed since the stop was requested."""
        if self._until_s is None and self._stopping():
            self._until_s = time.monotonic() + self._seconds
        return self._until_s is not None and time.monotonic() > self._until_s


def typical_s(seconds: Sequence[float]) -> float | None:
    """The median, without the first, which includes warm-up, if there are others."""
    return statistics.median(seconds[1:] or seconds) if seconds else None


def holders(phase: Phase) -> dict[str, list[int]]:
    """The layers by node: each at the node of the first instance that holds it."""
    found: dict[str, list[int]] = {}
    for number in range(1, phase.depth + 1):
        holder = next(i for i in phase.instances if i.layers[0] <= number <= i.layers[1])
        found.setdefault(holder.node, []).append(number)
    return found


def gathered(crew: Crew, layers: Mapping[str, Iterable[int]]) -> StateDicts:
    """Weights and optimizer state of layers, each collected from its node."""
    for node, numbers in layers.items():
        crew.send(node, GetState(tuple(numbers)))
    return joined(one_from_each(crew, layers, StateReply).values())


def joined(states: Iterable[StateReply]) -> StateDicts:
    """The states of several nodes, merged."""
    weights: dict[str, Tensor] = {}
    optimizer: dict[str, Tensor] = {}
    for each in states:
        weights |= from_bytes(each.weights)
        optimizer |= from_bytes(each.optimizer)
    return weights, optimizer
