"""The exchange of weights when a window ends: all to the server, their weighted mean back.

It is one program, or several: where only some trees take part in a window, and where parts of the network have their
turns. So what has arrived, and its mean, are kept between them. In a turn, copies of weights are exchanged while
replicas go on (``take``), and each adds to the average what it has changed since (``put``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from palmette.cost.steps import Kind
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.outer import OuterUpdates
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import load_into, pack, packed_bytes, state_of, unpack

if TYPE_CHECKING:
    from palmette.runtime.worker.pairwise_masks import PairwiseMasks


@dataclass
class Replica:
    """An instance with its own weights, its exchanges so far, and the samples that it has trained on since the last."""

    compute: Compute
    keeps_optimizer: bool
    samples: int = 0
    exchanges: int = 0
    training: bool = False
    """Whether it has begun to train since the last exchange."""

    def begin(self, _iteration: int) -> None:
        """Note that it trains."""
        self.training = True

    def state(self) -> list[Tensor]:
        """Its weights and buffers, layer by layer."""
        return state_of(self.compute.layers.values())

    def go_on_from(self, average: Sequence[Tensor], exchanges: int | None = None) -> None:
        """Continue from the average; with new optimizer state, unless that is kept.

        ``exchanges`` is how many there have been, where not all had its part in each.
        """
        load_into(self.state(), average)
        self.samples, self.training = 0, False
        self.exchanges = self.exchanges + 1 if exchanges is None else exchanges
        if not self.keeps_optimizer:
            span = self.compute.options.span
            self.compute.optimizers.reset(span.first + self.exchanges * span.epoch)


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
        self._pushed: dict[int, Contribution] = {}
        self._taken: dict[int, Contribution] = {}
        self._arrived: dict[int, list[Tensor]] = {}
        self._averages: dict[int, list[Tensor]] = {}
        self._made = 0

    @property
    def masks(self) -> PairwiseMasks | None:
        """None: weights travel as they are."""
        return None

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> None:
        """Average layer by layer, in the plan's order; instances on the server continue from it immediately."""
        numbers = numbers_of(operation.layers)
        found = self._contributions()
        averages = {n: self._average([c for c in found.values() if n in c.layers], n) for n in numbers}
        if self._outer is not None:
            averages = self._outer.updated(averages)
        self._averages, self._made = self._returned(averages, found), self._made + 1
        for k in self._here():
            own = [n for n in self._replica(k).compute.layers if n in averages]
            if own:
                self._go_on(k, _flat(self._averages, own))

    def _go_on(self, k: int, average: list[Tensor], exchanges: int | None = None) -> None:
        """Let an instance continue from the average; where it has gone on meanwhile, that is for ``put``."""
        if k in self._taken:
            self._arrived[k] = average
        else:
            self._replica(k).go_on_from(average, exchanges)

    def _average(self, found: Sequence[Contribution], number: int) -> list[Tensor]:
        """The weighted mean of a layer."""
        total = sum(each.samples for each in found)
        columns = zip(*(each.layers[number] for each in found), strict=True)
        weights = [each.samples / total for each in found]
        return [_weighted(column, weights) for column in columns]

    def take(self, k: int, numbers: Sequence[int]) -> None:
        """Take copies of an instance's layers, to be exchanged while it goes on."""
        replica = self._replica(k)
        layers = {n: [t.detach().cpu().clone() for t in state_of([replica.compute.layers[n]])] for n in numbers}
        self._taken[k] = Contribution(replica.samples, layers)

    def put(self, k: int, numbers: Sequence[int]) -> None:
        """Put the average into an instance, plus what it has changed since its layers were taken."""
        taken, average = self._taken.pop(k), self._arrived.pop(k)
        own = state_of(self._replica(k).compute.layers[n] for n in numbers)
        sent = _flat(taken.layers, numbers)
        load_into(own, [mean + (now.cpu() - then) for mean, now, then in zip(average, own, sent, strict=True)])

    def _here(self) -> list[int]:
        """The instances on the server."""
        return [k for k, instance in enumerate(self._phase.instances) if instance.node == self._server]

    def _returned(
        self, averages: dict[int, list[Tensor]], found: Mapping[int, Contribution]
    ) -> dict[int, list[Tensor]]:
        """What all continue from."""
        return averages

    def _contributions(self) -> dict[int, Contribution]:
        """What has arrived, and what instances on the server have that took part, by instance in the plan's order."""
        own = {k: self._own(k) for k in self._here() if self._replica(k).samples}
        found, self._pushed = self._pushed | own, {}
        return dict(sorted(found.items()))

    def _own(self, k: int) -> Contribution:
        if k in self._taken:
            return self._taken[k]
        replica = self._replica(k)
        return Contribution(replica.samples, {n: state_of([m]) for n, m in replica.compute.layers.items()})

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """An instance's sample count and weights for the server, or the average for the instance."""
        k = operation.instance
        if operation.what is Kind.PUSH:
            own = self._own(k)
            return pack([torch.tensor(own.samples), *_flat(own.layers, numbers_of(operation.layers))])
        counted = [torch.tensor(self._made)] if self.leaves_some_behind else []
        return pack([*counted, *_flat(self._averages, numbers_of(operation.layers))])

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of an instance's weights and buffers; in a push, of the count, too."""
        return packed_bytes(self._like(operation))

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> None:
        """Keep the contribution of an instance; an average is loaded into it instead."""
        k = operation.instance
        tensors = unpack(message, self._like(operation))
        count, tensors = (int(tensors[0]), tensors[1:]) if self._counted(operation) else (None, tensors)
        if operation.what is Kind.PULL:
            self._go_on(k, tensors, count)
            return
        assert count is not None, "a push counts samples"
        parts = iter(tensors)
        layers = {n: [next(parts) for _ in state_of([self._layers[n]])] for n in numbers_of(operation.layers)}
        self._pushed[k] = Contribution(count, layers)

    @property
    def leaves_some_behind(self) -> bool:
        """Whether some instances go without the average for a while."""
        return self._phase.draws_clients

    def weights(self, numbers: Iterable[int]) -> dict[str, Tensor]:
        """The last average of layers by name, or what training began with; only the server has it of all."""
        for number in numbers:
            if number in self._averages:
                load_into(state_of([self._layers[number]]), self._averages[number])
        return {name: value for number in numbers for name, value in self._layers[number].state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """What is saved of the exchange itself."""
        return {}

    def close(self) -> None:
        """Nothing to abort."""

    def _like(self, operation: ProgramOperation) -> list[Tensor]:
        state = state_of(self._layers[n] for n in numbers_of(operation.layers))
        return [torch.tensor(0), *state] if self._counted(operation) else state

    def _counted(self, operation: ProgramOperation) -> bool:
        """Whether a number comes first: of samples in a push; in a pull of exchanges, where some trees miss some."""
        return operation.what is Kind.PUSH or self.leaves_some_behind

    def _replica(self, k: int) -> Replica:
        return self._replicas[self._phase.instances[k].id]


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
