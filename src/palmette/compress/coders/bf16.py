"""The upper half of each float: the exponent of a float32 with 8 bits of precision, infinities and NaN included."""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, numbers_in, raw_bytes
from palmette.spec.exchange import Exchange


class Bf16Coder:
    """Sends numbers as bfloat16."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the rounded numbers."""
        return raw_bytes(values.to(torch.bfloat16))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The rounded numbers."""
        return numbers_in(message, torch.bfloat16).to(dtype).view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Two for each number."""
        return self._exchange.bytes_of(shape, dtype.itemsize)
