"""``epoch`` on a node: federated averaging.

Every instance has weights of its own and learns from the samples that reach it, taking the mean over them, so that
an epoch of one step is one step of plain training. At the end of an epoch the weights and buffers of each layer's
replicas are averaged at the server, weighted by the samples that each has learnt from since the last exchange, and all
go on from the average. Counts, such as batch norm's number of batches, are those of the first replica. What an
optimizer kept belongs to weights that are gone, so it is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from palmette.cost.operations import samples_by_instance
from palmette.cost.steps import Kind
from palmette.runtime.program import Operation, Program, numbers_of
from palmette.runtime.sync.base import Given, Stock, given_state, optimizer_of, wire_of
from palmette.runtime.worker.actions import Agreement, TrainingActions
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import load_into, pack, packed_bytes, state_of, unpack

if TYPE_CHECKING:
    from palmette.runtime.worker.worker import Setup

EXCHANGE = (Kind.PUSH, Kind.AVERAGE, Kind.PULL)


@dataclass
class Replica:
    """An instance with weights of its own, and the samples that it has learnt from since the last exchange."""

    compute: Compute
    samples: int = 0

    def state(self) -> list[Tensor]:
        """Its weights and buffers, layer by layer."""
        return state_of(self.compute.layers.values())

    def go_on_from(self, average: Sequence[Tensor]) -> None:
        """Take the average for its own."""
        load_into(self.state(), average)
        self.compute.reset_optimizers()
        self.samples = 0


class EpochRole:
    """A program for each tree that has an instance or a source here, and one for the exchange."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._stock = setup, Stock(setup.layers)
        self._replicas: dict[str, Replica] = {}

    def actions(self, number: int, program: Program) -> Actions:
        """Train a tree's instances on their own, or exchange weights."""
        setup = self._setup
        if any(operation.what in EXCHANGE for operation in program.operations):
            return Exchange(program, self._replicas, self._layers(program))
        own = {k: self._replica(number, program, k) for k in program.own}
        computes = {k: replica.compute for k, replica in own.items()}
        samples = setup.source.samples(program)
        return TrainingActions(program, computes, samples, wire_of(setup), LocalUpdate(program, own))

    def _layers(self, program: Program) -> dict[int, nn.Module]:
        """One of each layer that is exchanged here: of an instance, or for the shape of those that arrive."""
        held = {n: layer for replica in self._replicas.values() for n, layer in replica.compute.layers.items()}
        others = {n: layer for n, layer in self._setup.layers.items() if n not in held}
        setup = self._setup
        return held | Compute(program.phase, setup.node, others, setup.options, setup.device, own=[]).layers

    def _replica(self, tree: int, program: Program, k: int) -> Replica:
        setup, instance = self._setup, program.phase.instances[k]
        layers = self._stock.take(numbers_of([instance.layers]))
        options = replace(setup.options, seed=setup.options.seed + tree)
        compute = Compute(program.phase, setup.node, layers, options, setup.device, own=[k])
        compute.load_optimizer_state(optimizer_of(setup))
        self._replicas[instance.id] = Replica(compute)
        return self._replicas[instance.id]

    def state(self, layers: Sequence[int], after: int | None = None) -> Given:
        """Of each layer, the first replica's."""
        weights: dict[str, Tensor] = {}
        optimizer: dict[str, Tensor] = {}
        for number in layers:
            holder = next(r for r in self._replicas.values() if number in r.compute.layers)
            more_weights, more_optimizer = given_state(holder.compute, [number])
            weights, optimizer = weights | more_weights, optimizer | more_optimizer
        return weights, optimizer


class LocalUpdate(Agreement):
    """Each instance updates its own weights at once; nothing is sent."""

    def __init__(self, program: Program, replicas: dict[int, Replica]) -> None:
        self._phase, self._replicas = program.phase, replicas
        self._many = samples_by_instance(program.phase)

    def call(self, operation: Operation, values: Values) -> None:
        """Update with the mean over the instance's own samples: its root has divided by those of the whole tree."""
        k = operation.instance
        replica = self._replicas[k]
        if self._many[k] != self._phase.batch:
            replica.compute.scale_gradients(k, self._phase.batch / self._many[k])
        replica.compute.update(k)
        replica.samples += self._many[k]


@dataclass(frozen=True)
class Contribution:
    """The state of some layers, tensor by tensor in each, and the samples that it has learnt from."""

    samples: int
    layers: dict[int, list[Tensor]]


class Exchange:
    """Weights go to the server with the samples behind them, and the average comes back."""

    def __init__(self, program: Program, replicas: dict[str, Replica], layers: dict[int, nn.Module]) -> None:
        self._phase, self._replicas, self._layers = program.phase, replicas, layers
        self._server = self._phase.meeting_node

    def call(self, operation: Operation, values: Values, iteration: int) -> dict[int, list[Tensor]]:
        """Average layer by layer, in the plan's order; instances on the server go on from it at once."""
        found = self._contributions(operation, values)
        averages = {n: _average([c for c in found if n in c.layers], n) for n in numbers_of(operation.layers)}
        for k, instance in enumerate(self._phase.instances):
            if instance.node == self._server:
                self._replica(k).go_on_from(_flat(averages, self._numbers(k)))
        return averages

    def _contributions(self, operation: Operation, values: Values) -> list[Contribution]:
        pushed = {values[need][0]: values[need][1] for need in operation.after}
        return [pushed[k] if k in pushed else self._own(k) for k in range(len(self._phase.instances))]

    def _own(self, k: int) -> Contribution:
        replica = self._replica(k)
        return Contribution(replica.samples, {n: state_of([m]) for n, m in replica.compute.layers.items()})

    def message(self, operation: Operation, values: Values, iteration: int) -> Tensor:
        """An instance's samples and weights to the server, or the average back."""
        k = operation.instance
        if operation.what is Kind.PUSH:
            replica = self._replica(k)
            return pack([torch.tensor(replica.samples), *replica.state()])
        (average,) = operation.after
        return pack(_flat(values[average], self._numbers(k)))

    def message_bytes(self, operation: Operation) -> int:
        """The bytes of an instance's weights and buffers, and of a count."""
        return packed_bytes(self._like(operation))

    def arrived(self, operation: Operation, message: Tensor) -> tuple[int, Contribution] | None:
        """What an instance contributes; an average is taken for its own."""
        k = operation.instance
        tensors = unpack(message, self._like(operation))
        if operation.what is Kind.PULL:
            self._replica(k).go_on_from(tensors)
            return None
        samples, parts = int(tensors[0]), iter(tensors[1:])
        layers = {n: [next(parts) for _ in state_of([self._layers[n]])] for n in self._numbers(k)}
        return k, Contribution(samples, layers)

    def close(self) -> None:
        """Nothing is ever under way."""

    def _like(self, operation: Operation) -> list[Tensor]:
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
    """The weighted mean of tensors; of counts, the first."""
    if not tensors[0].is_floating_point():
        return tensors[0].detach().clone()
    with torch.no_grad():
        total = tensors[0].cpu() * weights[0]
        for tensor, weight in zip(tensors[1:], weights[1:], strict=True):
            total += tensor.cpu() * weight
    return total


def _flat(state: dict[int, list[Tensor]], numbers: Sequence[int]) -> list[Tensor]:
    return [tensor for number in numbers for tensor in state[number]]
