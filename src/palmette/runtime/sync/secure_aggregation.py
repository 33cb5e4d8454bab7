"""The exchange of weights where the server learns their sum alone: what instances send is masked (``pairwise_masks``).

Sums of masked numbers are exact only where numbers wrap around. So instances send their weights times their samples in
fixed point, as whole numbers modulo 2^64, in which the masks cancel:

    instance   round(weights · samples · 2^24) ± masks ──▶ server   sum / samples of all / 2^24 = the weighted mean

What is rounded off of a mean is at most a 2^-25th for each instance, divided by the samples of all. Buffers are masked,
too; counters, such as batch norm's, tell only how many steps were taken, and are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from palmette.cost.steps import Kind
from palmette.errors import RunError
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.outer import OuterUpdates
from palmette.runtime.sync.weight_exchange import Contribution, Replica, WeightExchange
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import pack, state_of
from palmette.runtime.worker.pairwise_masks import MaskStream, PairwiseMasks, Party, Words

_FRACTION_BITS = 24
_SUM_BITS = 62
"""So many bits the magnitude of a sum may have."""


class SecureAggregation(WeightExchange):
    """Instances send masked weights; the server, whose own instances mask nothing, adds them up."""

    def __init__(
        self,
        program: Program,
        replicas: dict[str, Replica],
        layers: dict[int, nn.Module],
        outer: OuterUpdates | None,
        masks: PairwiseMasks | None,
    ) -> None:
        super().__init__(program, replicas, layers, outer)
        self._masks = masks

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """An instance's sample count and masked weights for the server, or the average for the instance."""
        if operation.what is not Kind.PUSH:
            return super().message(operation, values, iteration)
        k = operation.instance
        own = self._own(k)
        masked = [tensor for n in numbers_of(operation.layers) for tensor in self._masked(k, n, own.layers[n])]
        return pack([torch.tensor(own.samples), *masked])

    def _masked(self, k: int, number: int, values: Sequence[Tensor]) -> list[Tensor]:
        """What an instance sends of a layer."""
        streams = self._streams(k, number)
        both = zip(values, state_of([self._layers[number]]), strict=True)
        return [_with_masks(value, streams) if like.is_floating_point() else value for value, like in both]

    def _streams(self, k: int, number: int) -> list[MaskStream]:
        """The masks of an instance's layer: one for each other instance that sends that layer."""
        assert self._masks is not None, "an instance that is not on the server has masks"
        senders = {each.id for each in self._phase.senders(number)}
        parties = [Party(j, each.node) for j, each in enumerate(self._phase.instances) if each.id in senders]
        own = Party(k, self._phase.instances[k].node)
        exchange = self._replica(k).exchanges
        return [self._masks.stream(own, other, exchange, number) for other in parties if other != own]

    def _own(self, k: int) -> Contribution:
        """An instance's weights in fixed point, times its samples."""
        plain = super()._own(k)
        return Contribution(
            plain.samples, {n: [self._fixed(v, plain.samples) for v in layer] for n, layer in plain.layers.items()}
        )

    def _fixed(self, value: Tensor, samples: int) -> Tensor:
        if not value.is_floating_point():
            return value
        numbers = value.detach().cpu().double().reshape(-1).numpy() * samples
        most = 2.0 ** (_SUM_BITS - _FRACTION_BITS) / len(self._phase.instances)
        largest = np.max(np.abs(numbers), initial=0.0)
        if not largest < most:
            beyond = f"a weight or statistic is {largest / samples:g} after {samples} samples"
            raise RunError(f"{beyond}; secure aggregation adds up numbers below {most / samples:g}")
        return torch.from_numpy(np.rint(np.ldexp(numbers, _FRACTION_BITS)).astype(np.int64)).reshape(value.shape)

    def _average(self, found: Sequence[Contribution], number: int) -> list[Tensor]:
        """The weighted mean of a layer, in which all masks have cancelled; of counters, the first."""
        total = sum(each.samples for each in found)
        columns = zip(*(each.layers[number] for each in found), strict=True)
        likes = state_of([self._layers[number]])
        return [_mean(column, total, like) for column, like in zip(columns, likes, strict=True)]

    def _like(self, operation: ProgramOperation) -> list[Tensor]:
        likes = super()._like(operation)
        if operation.what is not Kind.PUSH:
            return likes
        return [_fixed_like(like) if like.is_floating_point() else like for like in likes]


def _fixed_like(tensor: Tensor) -> Tensor:
    """What has the size of a tensor in fixed point."""
    return torch.empty(tensor.shape, dtype=torch.int64, device="meta")


def _with_masks(value: Tensor, streams: Sequence[MaskStream]) -> Tensor:
    masked = _words(value)
    for stream in streams:
        masked = stream.masked(masked)
    return _tensor(masked).reshape(value.shape)


def _mean(column: Sequence[Tensor], samples: int, like: Tensor) -> Tensor:
    if not like.is_floating_point():
        return column[0].detach().clone()
    total = _words(column[0])
    for tensor in column[1:]:
        total = total + _words(tensor)
    mean = _tensor(total).double() * 2.0**-_FRACTION_BITS / samples
    return mean.to(like.dtype).reshape(like.shape)


def _words(value: Tensor) -> Words:
    return value.reshape(-1).numpy().view(np.uint64)


def _tensor(words: Words) -> Tensor:
    return torch.from_numpy(words.view(np.int64))
