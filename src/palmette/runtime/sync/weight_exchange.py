"""The exchange of weights when a window ends: all to the server, their weighted mean back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from palmette.cost.steps import Kind
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.outer import OuterUpdates
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import load_into, pack, packed_bytes, state_of, unpack


@dataclass
class Replica:
    """An instance with its own weights, its exchanges so far, and the samples that it has trained on since the last."""

    compute: Compute
    keeps_optimizer: bool
    samples: int = 0
    exchanges: int = 0

    def state(self) -> list[Tensor]:
        """Its weights and buffers, layer by layer."""
        return state_of(self.compute.layers.values())

    def go_on_from(self, average: Sequence[Tensor]) -> None:
        """Continue from the average; with new optimizer state, unless that is kept."""
        load_into(self.state(), average)
        self.samples = 0
        self.exchanges += 1
        if not self.keeps_optimizer:
            span = self.compute.options.span
            self.compute.reset_optimizers(span.first + self.exchanges * span.epoch)


@dataclass(frozen=True)
class Contribution:
    """The tensors of some layers, and the number of samples that they were trained on."""

    samples: int
    layers: dict[int, list[Tensor]]


class WeightExchange:
    """Sends weights and their sample counts to the server, and returns the average; ``outer`` is on the server."""

    deliveries = NO_DELIVERIES

    def __init__(
        self,
        program: Program,
        replicas: dict[str, Replica],
        layers: dict[int, nn.Module],
        outer: OuterUpdates | None = None,
    ) -> None:
        self._phase, self._replicas, self._layers, self._outer = program.phase, replicas, layers, outer
        self._server = self._phase.meeting_node

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> dict[int, list[Tensor]]:
        """Average layer by layer, in the plan's order; instances on the server continue from it immediately."""
        found = self._contributions(operation, values)
        averages = {n: _average([c for c in found if n in c.layers], n) for n in numbers_of(operation.layers)}
        if self._outer is not None:
            averages = self._outer.updated(averages)
        averages = self._returned(averages, found)
        for k, instance in enumerate(self._phase.instances):
            if instance.node == self._server:
                self._replica(k).go_on_from(_flat(averages, self._numbers(k)))
        return averages

    def _returned(self, averages: dict[int, list[Tensor]], found: Sequence[Contribution]) -> dict[int, list[Tensor]]:
        """What all continue from."""
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
