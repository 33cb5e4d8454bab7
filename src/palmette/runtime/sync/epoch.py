"""``epoch``: federated averaging. Every tree takes its steps, then weights are exchanged.

    tree 0   ▐step▐step▐step▐step▐step▐         ┌──────────┐
    tree 1   ▐ step ▐ step ▐ step ▐             │ exchange │  next epoch …
    tree 2   ▐   step   ▐   step   ▐   step   ▐ └──────────┘

Iteration i of an epoch is step i of every tree that takes that many. A run that ends within an epoch exchanges weights
after the steps taken so far. A run that is stopped within an epoch aborts it: the last epoch's checkpoint remains.

Every instance has its own weights and trains on the samples that reach it, with the mean over them, so that an epoch of
one step equals one step of plain training. At the end of an epoch the weights and buffers of each layer's replicas are
averaged at the server, weighted by the samples that each has trained on since the last exchange, and all continue from
the average. Counters, such as batch norm's number of batches, are those of the first replica. Optimizer state belongs
to weights that no longer exist, so it is reset.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import exchanges_weights, samples_by_instance
from palmette.cost.steps import Kind
from palmette.runtime.data.epoch_length import EpochData, tree_steps
from palmette.runtime.engines.crew import LISTEN_S
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.base import (
    MeasuredTimes,
    PhaseContext,
    Stopping,
    SyncMethod,
    gathered,
    holders,
    typical_s,
)
from palmette.runtime.sync.dilation import DilationControl
from palmette.runtime.sync.dispatch import StepDispatcher, TreeStep
from palmette.runtime.worker.actions import SyncActions, TrainingActions
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import load_into, pack, packed_bytes, state_of, unpack
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.runtime.worker.state import LayerPool, compute_for, initial_optimizer_state, message_format, state_dicts
from palmette.spec.plan import Phase

EXCHANGE = (Kind.PUSH, Kind.AVERAGE, Kind.PULL)


@dataclass
class Replica:
    """An instance with its own weights, its exchanges so far, and the samples that it has trained on since the last."""

    compute: Compute
    samples: int = 0
    exchanges: int = 0

    def state(self) -> list[Tensor]:
        """Its weights and buffers, layer by layer."""
        return state_of(self.compute.layers.values())

    def go_on_from(self, average: Sequence[Tensor]) -> None:
        """Continue from the average, with new optimizer state."""
        load_into(self.state(), average)
        self.exchanges += 1
        span = self.compute.options.span
        self.compute.reset_optimizers(span.first + self.exchanges * span.epoch)
        self.samples = 0


class EpochWorkerSide:
    """One program for each tree that has an instance or a source here, and one for the exchange."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._pool = setup, LayerPool(setup.layers)
        self._replicas: dict[str, Replica] = {}

    def actions(self, number: int, program: Program) -> Actions:
        """Train a tree's instances locally, or exchange weights."""
        setup = self._setup
        if any(operation.what in EXCHANGE for operation in program.operations):
            return WeightExchange(program, self._replicas, self._layers(program))
        own = {k: self._replica(number, program, k) for k in program.own}
        computes = {k: replica.compute for k, replica in own.items()}
        samples, update = setup.samples(program), LocalUpdate(program, own)
        return TrainingActions(program, computes, samples, message_format(setup), update, store=setup.store)

    def _layers(self, program: Program) -> dict[int, nn.Module]:
        """One module per layer that is exchanged here: an instance's, or one with the shapes of what arrives."""
        held = {n: layer for replica in self._replicas.values() for n, layer in replica.compute.layers.items()}
        others = {n: layer for n, layer in self._setup.layers.items() if n not in held}
        setup = self._setup
        return held | Compute(program.phase, setup.node, others, setup.options, setup.device, own=[]).layers

    def _replica(self, tree: int, program: Program, k: int) -> Replica:
        setup, instance = self._setup, program.phase.instances[k]
        layers = self._pool.take(numbers_of([instance.layers]))
        options = replace(setup.options, seed=setup.options.seed + tree)
        compute = compute_for(Compute, setup, program.phase, layers, options, own=[k])
        compute.load_optimizer_state(initial_optimizer_state(setup))
        self._replicas[instance.id] = Replica(compute)
        return self._replicas[instance.id]

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """Each layer from the first replica that holds it."""
        weights: dict[str, Tensor] = {}
        optimizer: dict[str, Tensor] = {}
        for number in layers:
            holder = next(r for r in self._replicas.values() if number in r.compute.layers)
            more_weights, more_optimizer = state_dicts(holder.compute, [number])
            weights, optimizer = weights | more_weights, optimizer | more_optimizer
        return weights, optimizer

    def last_states(self, _finished: int) -> dict[int, StateDicts]:
        """None: the last checkpoint counts."""
        return {}


class LocalUpdate(SyncActions):
    """Each instance updates its own weights immediately; nothing is sent."""

    def __init__(self, program: Program, replicas: dict[int, Replica]) -> None:
        self._phase, self._replicas = program.phase, replicas
        self._many = samples_by_instance(program.phase)

    def call(self, operation: ProgramOperation, values: Values) -> None:
        """Update with the mean over the instance's own samples: its root has divided by those of the whole tree."""
        k = operation.instance
        replica = self._replicas[k]
        if self._many[k] != self._phase.batch:
            replica.compute.scale_gradients(k, self._phase.batch / self._many[k])
        replica.compute.update(k)
        replica.samples += self._many[k]


@dataclass(frozen=True)
class Contribution:
    """The tensors of some layers, and the number of samples that they were trained on."""

    samples: int
    layers: dict[int, list[Tensor]]


class WeightExchange:
    """Sends weights and their sample counts to the server, and returns the average."""

    deliveries = NO_DELIVERIES

    def __init__(self, program: Program, replicas: dict[str, Replica], layers: dict[int, nn.Module]) -> None:
        self._phase, self._replicas, self._layers = program.phase, replicas, layers
        self._server = self._phase.meeting_node

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> dict[int, list[Tensor]]:
        """Average layer by layer, in the plan's order; instances on the server continue from it immediately."""
        found = self._contributions(operation, values)
        averages = {n: _average([c for c in found if n in c.layers], n) for n in numbers_of(operation.layers)}
        for k, instance in enumerate(self._phase.instances):
            if instance.node == self._server:
                self._replica(k).go_on_from(_flat(averages, self._numbers(k)))
        return averages

    def _contributions(self, operation: ProgramOperation, values: Values) -> list[Contribution]:
        pushed = {values[need][0]: values[need][1] for need in operation.after}
        return [pushed[k] if k in pushed else self._own(k) for k in range(len(self._phase.instances))]

    def _own(self, k: int) -> Contribution:
        replica = self._replica(k)
        return Contribution(replica.samples, {n: state_of([m]) for n, m in replica.compute.layers.items()})

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """An instance's sample count and weights for the server, or the average for the instance."""
        k = operation.instance
        if operation.what is Kind.PUSH:
            replica = self._replica(k)
            return pack([torch.tensor(replica.samples), *replica.state()])
        (average,) = operation.after
        return pack(_flat(values[average], self._numbers(k)))

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of an instance's weights and buffers; in a push, of the count, too."""
        return packed_bytes(self._like(operation))

    def arrived(self, operation: ProgramOperation, message: Tensor) -> tuple[int, Contribution] | None:
        """The contribution of an instance; an average is loaded into it instead."""
        k = operation.instance
        tensors = unpack(message, self._like(operation))
        if operation.what is Kind.PULL:
            self._replica(k).go_on_from(tensors)
            return None
        samples, parts = int(tensors[0]), iter(tensors[1:])
        layers = {n: [next(parts) for _ in state_of([self._layers[n]])] for n in self._numbers(k)}
        return k, Contribution(samples, layers)

    def close(self) -> None:
        """Nothing to abort."""

    def _like(self, operation: ProgramOperation) -> list[Tensor]:
        state = state_of(self._layers[n] for n in self._numbers(operation.instance))
        return [torch.tensor(0), *state] if operation.what is Kind.PUSH else state

    def _replica(self, k: int) -> Replica:
        return self._replicas[self._phase.instances[k].id]

    def _numbers(self, k: int) -> list[int]:
        return numbers_of([self._phase.instances[k].layers])


def _average(replicas: list[Contribution], number: int) -> list[Tensor]:
    total = sum(each.samples for each in replicas)
    columns = zip(*(each.layers[number] for each in replicas), strict=True)
    weights = [each.samples / total for each in replicas]
    return [_weighted(column, weights) for column in columns]


def _weighted(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of tensors; of counters, the first."""
    if not tensors[0].is_floating_point():
        return tensors[0].detach().clone()
    with torch.no_grad():
        total = tensors[0].cpu() * weights[0]
        for tensor, weight in zip(tensors[1:], weights[1:], strict=True):
            total += tensor.cpu() * weight
    return total


def _flat(state: dict[int, list[Tensor]], numbers: Sequence[int]) -> list[Tensor]:
    return [tensor for number in numbers for tensor in state[number]]


class EpochEngineSide:
    """Epochs of federated averaging."""

    tree_steps: Sequence[int] = ()
    aborted = False

    def __init__(self, context: PhaseContext) -> None:
        self._context = context
        self._steps = tree_steps(context.phase, context.evaluator, context.data)
        self._dispatcher = StepDispatcher(context.crew, context.parts)
        self._spans_s: list[list[float]] = [[] for _ in self._steps]
        self._epochs_s: list[float] = []
        self._dilation = DilationControl(context.crew, context.testbed, context.log)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Run the epoch that starts at iteration ``at``, or its first iterations up to ``end``."""
        began_s = time.monotonic()
        begun = at // max(self._steps)
        firsts = [self._context.log.first_iteration + begun * many for many in self._steps]
        epoch = _Epoch(self._context, self._dispatcher, at, firsts, [min(many, end - at) for many in self._steps])
        while epoch.left:
            step = self._dispatcher.next(LISTEN_S)
            if stopping():
                self.aborted = True
                return at
            if step is not None:
                self._spans_s[step.part].append(epoch.take(step))
                self._dilation.note(step.records)
        self._exchange(end - 1)
        if end - at == max(self._steps):
            self._epochs_s.append((time.monotonic() - began_s) / self._context.testbed.dilation)
        if self._dilation.adjusted(end):
            self._forget()
        return end

    def _forget(self) -> None:
        """Discard the times measured so far."""
        self._epochs_s.clear()
        for spans_s in self._spans_s:
            spans_s.clear()

    def _exchange(self, at: int) -> None:
        """Exchange weights after iteration ``at``, if the phase's epochs end with that; then all nodes are idle."""
        context = self._context
        if exchanges_weights(context.phase):
            self._dispatcher.give(len(self._steps), at, at)
            while (step := self._dispatcher.next(LISTEN_S)) is None:
                continue
            context.log.trace_operations(at, context.phase, step.records)
        context.log.pause()

    def state(self) -> StateDicts:
        """Each layer from the first node that holds it: after an exchange all replicas are equal."""
        return gathered(self._context.crew, holders(self._context.phase))

    def recovered(self, after: int, gone: str | None) -> StateDicts | None:
        """None: between exchanges replicas have different weights; the last epoch's checkpoint remains."""
        return None

    def measured(self) -> MeasuredTimes:
        """The median step of the slowest tree, the median epoch, and the estimate of one with as many steps."""
        steps_s = [typical for spans in self._spans_s if (typical := typical_s(spans)) is not None]
        return MeasuredTimes(
            max(steps_s, default=None),
            statistics.median(self._epochs_s) if self._epochs_s else None,
            self._context.evaluator.epoch_s(self._context.phase, self._steps),
        )


class _Epoch:
    """The steps of one epoch: dispatched, and recorded in order when all trees in an iteration have done theirs.

    Each tree takes ``steps`` of them, numbered from ``firsts`` on; the epoch starts at iteration ``at``.
    """

    def __init__(
        self, context: PhaseContext, dispatcher: StepDispatcher, at: int, firsts: Sequence[int], steps: Sequence[int]
    ) -> None:
        self._context, self._dispatcher, self._at, self._firsts, self._steps = context, dispatcher, at, firsts, steps
        self._done: list[list[tuple[TreeStep, float]]] = [[] for _ in range(max(steps))]
        self._noted = 0
        self.left = sum(steps)
        for tree in range(len(steps)):
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


def _epoch_iterations(phase: Phase, evaluator: Evaluator, data: EpochData) -> int:
    """The steps of the tree that takes the most."""
    return max(tree_steps(phase, evaluator, data))


EPOCH = SyncMethod(epoch_iterations=_epoch_iterations, worker_side=EpochWorkerSide, engine_side=EpochEngineSide)
