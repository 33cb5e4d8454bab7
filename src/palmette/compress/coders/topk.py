"""The largest numbers of a tensor, each with its index; the others arrive as 0.

Only with error feedback does this train as well: what is left out adds up until it is among the largest
(Lin et al., Deep Gradient Compression, 2018; Stich et al., Sparsified SGD with Memory, 2018).
"""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, numbers_in, raw_bytes
from palmette.spec.exchange import Exchange, kept_numbers


class TopKCoder:
    """Sends the numbers with the largest absolute values; NaN is larger than all."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the numbers, then of their indices in ascending order."""
        flat = values.reshape(-1)
        many = kept_numbers(self._exchange, flat.numel())
        places = flat.abs().topk(many, sorted=False).indices.sort().values
        return torch.cat((raw_bytes(flat[places]), raw_bytes(places.to(torch.int32))))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The numbers in their places, and zeros."""
        many = kept_numbers(self._exchange, torch.Size(shape).numel())
        size = many * dtype.itemsize
        found = torch.zeros(torch.Size(shape).numel(), dtype=dtype)
        found[numbers_in(message[size:], torch.int32).long()] = numbers_in(message[:size], dtype)
        return found.view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """A number and an index for each that is sent."""
        return self._exchange.bytes_of(shape, dtype.itemsize)
