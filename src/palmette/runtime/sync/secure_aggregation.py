"""The exchange of weights where the server learns their sum alone: what instances send is masked (``pairwise_masks``).

Masks cancel exactly in sums of numbers that wrap around, so weights are masked in fixed point:

    instance   weights · samples, in fixed point, ± masks ──▶ server   sum / samples of all = the weighted mean

Buffers are masked, too; integers among them, such as batch norm's number of batches, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from palmette.cost.steps import Kind
from palmette.runtime.program import ProgramOperation, numbers_of
from palmette.runtime.sync.weight_exchange import Contribution, WeightExchange
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.fixed_point import fixed_like, fixed_point, mean_of
from palmette.runtime.worker.messages import pack, state_of
from palmette.runtime.worker.pairwise_masks import MaskStream, PairwiseMasks, Party


class SecureAggregation(WeightExchange):
    """Instances send masked weights; the server, whose own instances mask nothing, adds them up."""

    @cached_property
    def masks(self) -> PairwiseMasks:
        """Those that this node shares with the others; new for each setup."""
        return PairwiseMasks()

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """An instance's sample count and masked weights for the server, or the average for the instance."""
        if operation.what is not Kind.PUSH:
            return super().message(operation, values, iteration)
        k = operation.instance
        masked = [tensor for n in numbers_of(operation.layers) for tensor in self._masked(k, n)]
        return pack([torch.tensor(self._replica(k).samples), *masked])

    def _masked(self, k: int, number: int) -> list[Tensor]:
        """What an instance sends of a layer."""
        replica, streams = self._replica(k), self._streams(k, number)
        state = state_of([replica.compute.layers[number]])
        fixed = self._fixed(state, replica.samples)
        return [
            _with_masks(each, streams) if value.is_floating_point() else each
            for value, each in zip(state, fixed, strict=True)
        ]

    def _streams(self, k: int, number: int) -> list[MaskStream]:
        """The masks of an instance's layer: one for each other instance that sends that layer."""
        instances, senders = self._phase.instances, self._phase.senders(number)
        parties = [Party(j, each.node) for j, each in enumerate(instances) if each in senders]
        own, exchange = Party(k, instances[k].node), self._replica(k).exchanges
        return [self.masks.stream(own, other, exchange, number) for other in parties if other != own]

    def _own(self, k: int) -> Contribution:
        """An instance's weights in fixed point."""
        plain = super()._own(k)
        return Contribution(plain.samples, {n: self._fixed(layer, plain.samples) for n, layer in plain.layers.items()})

    def _fixed(self, state: Sequence[Tensor], samples: int) -> list[Tensor]:
        return [fixed_point(value, samples, len(self._phase.instances)) for value in state]

    def _average(self, found: Sequence[Contribution], number: int) -> list[Tensor]:
        """The weighted mean of a layer, in which all masks have cancelled."""
        total = sum(each.samples for each in found)
        columns = zip(*(each.layers[number] for each in found), strict=True)
        likes = state_of([self._layers[number]])
        return [mean_of(column, total, like) for column, like in zip(columns, likes, strict=True)]

    def _like(self, operation: ProgramOperation) -> list[Tensor]:
        likes = super()._like(operation)
        return [fixed_like(like) for like in likes] if operation.what is Kind.PUSH else likes


def _with_masks(value: Tensor, streams: Sequence[MaskStream]) -> Tensor:
    masked = value.reshape(-1).numpy().view(np.uint64)
    for stream in streams:
        masked = stream.masked(masked)
    return torch.from_numpy(masked.view(np.int64)).reshape(value.shape)
