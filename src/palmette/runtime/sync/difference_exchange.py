"""The exchange of weights where they travel as coded differences: the same mean, of what arrives."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from palmette.compress.error_feedback import DIFFERENCES, saved_name
from palmette.cost.steps import Kind
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.difference_coding import SERVER, SHARE, DifferenceCoding
from palmette.runtime.sync.outer import OuterUpdates
from palmette.runtime.sync.weight_exchange import Contribution, Replica, WeightExchange
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import buffers_of, pack, packed_bytes, unpack, weights_of
from palmette.runtime.worker.weights import trainable_weights

_COUNT_BYTES = torch.int64.itemsize


class DifferenceExchange(WeightExchange):
    """Instances send what a window has changed, and the server what its mean changes; buffers travel as they are."""

    def __init__(
        self,
        program: Program,
        replicas: dict[str, Replica],
        layers: dict[int, nn.Module],
        outer: OuterUpdates | None,
        saved: Mapping[str, Tensor],
    ) -> None:
        super().__init__(program, replicas, layers, outer)
        exchange, server = self._phase.exchange, self._server
        away = [each for each in self._phase.instances if each.id in replicas and each.node != server]
        self._codings = {
            each.id: DifferenceCoding(exchange, each.id, replicas[each.id].compute.layers, saved) for each in away
        }
        if program.node == server:
            self._codings[SERVER] = DifferenceCoding(exchange, SERVER, layers, saved)
        self._shares = {name: value for name, value in saved.items() if name.endswith(f":{SHARE}")}
        self._messages: dict[int, Tensor] = {}

    def _returned(
        self, averages: dict[int, list[Tensor]], found: Mapping[int, Contribution]
    ) -> dict[int, list[Tensor]]:
        """The averages as all get them; where others get them, coded once, so that all get the same."""
        coding, arriving = self._codings[SERVER], dict(averages)
        for number, values in averages.items():
            if not self._phase.senders(number):
                continue
            self._note_shares(number, found)
            many = len(weights_of(self._layers[number]))
            coded = coding.compress(number, values[:many])
            coding.begin(number, coded.weights)
            self._messages[number], arriving[number] = coded.message, [*coded.weights, *values[many:]]
        if self._outer is not None:
            self._outer.begin(arriving)
        return arriving

    def _note_shares(self, number: int, found: Mapping[int, Contribution]) -> None:
        """Note how much of a layer's mean each instance makes up that is not on the server."""
        holding = [(self._phase.instances[k], each.samples) for k, each in found.items() if number in each.layers]
        total = sum(samples for _, samples in holding)
        for name in trainable_weights(self._layers[number]):
            self._shares |= {
                saved_name(name, i.id, SHARE, DIFFERENCES): torch.tensor(samples / total)
                for i, samples in holding
                if i.node != self._server
            }

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """An instance's sample count and what it has changed, or what has become of that for the instance."""
        k = operation.instance
        if operation.what is Kind.PULL:
            return pack([part for n in numbers_of(operation.layers) for part in (self._messages[n], *self._buffers(n))])
        replica, coding = self._replica(k), self._coding(k)
        parts = [torch.tensor(replica.samples)]
        for number, layer in replica.compute.layers.items():
            parts += [coding.compress(number, weights_of(layer)).message, *buffers_of(layer)]
        return pack(parts)

    def _buffers(self, number: int) -> list[Tensor]:
        return self._averages[number][len(weights_of(self._layers[number])) :]

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of an instance's coded weights, and its buffers; in a push, of the count, too."""
        sizes = [size for each in self._sizes(operation) for size in each]
        return sum(sizes) + (_COUNT_BYTES if operation.what is Kind.PUSH else 0)

    def _sizes(self, operation: ProgramOperation) -> list[tuple[int, int]]:
        """The bytes of each layer's weights, and of its buffers."""
        coding = self._coding(operation.instance)
        numbers = numbers_of(operation.layers)
        return [(coding.bytes_of(n), packed_bytes(buffers_of(self._layers[n]))) for n in numbers]

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> None:
        """Keep the contribution of an instance; what it shall continue from is loaded into it instead."""
        k, numbers, coding = operation.instance, numbers_of(operation.layers), self._coding(operation.instance)
        count = _COUNT_BYTES if operation.what is Kind.PUSH else 0
        parts = iter(torch.split(message[count:], [size for each in self._sizes(operation) for size in each]))
        layers = {}
        for number in numbers:
            weights = coding.extract(number, next(parts))
            layers[number] = [*weights, *unpack(next(parts), buffers_of(self._layers[number]))]
            if operation.what is Kind.PULL:
                coding.begin(number, weights)
        if operation.what is Kind.PULL:
            self._replica(k).go_on_from([tensor for number in numbers for tensor in layers[number]])
            return
        (samples,) = unpack(message[:count], [torch.tensor(0)])
        self._pushed[k] = Contribution(int(samples), layers)

    def _coding(self, k: int) -> DifferenceCoding:
        """The instance's own, or the server's, which has the same weights to add to."""
        own = self._phase.instances[k].id
        return self._codings[own if own in self._codings else SERVER]

    def state(self) -> dict[str, Tensor]:
        """What was left out here, as it is saved; on the server also how much of the mean each instance makes up."""
        found = {name: value for coding in self._codings.values() for name, value in coding.state().items()}
        return found | (self._shares if SERVER in self._codings else {})
