"""8-bit integers with a scale for each block of consecutive numbers.

As ``int8``, but so many numbers in a row share a scale: weights have different shapes, and no batch. The scales come
first, then the integers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, numbers_in, raw_bytes
from palmette.compress.coders.blocks import in_blocks
from palmette.compress.coders.int8 import LEVELS, steps
from palmette.spec.exchange import BLOCK, Exchange, blocks_of


class Int8BlockCoder:
    """Sends 8-bit integers and the scales of blocks."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the scales, then of the integers."""
        flat = values.reshape(-1)
        blocks = in_blocks(flat, BLOCK)
        scale = steps(blocks.abs().amax(dim=1, keepdim=True))
        levels = (blocks / scale).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
        return torch.cat((raw_bytes(scale), raw_bytes(levels)[: flat.numel()]))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The integers times their scales."""
        many = torch.Size(shape).numel()
        scale_bytes = blocks_of(many) * dtype.itemsize
        scale = numbers_in(message[:scale_bytes], dtype).view(-1, 1)
        levels = in_blocks(message[scale_bytes:].view(torch.int8).to(dtype), BLOCK)
        return (levels * scale).view(-1)[:many].view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """One for each number, and a number for each block."""
        return self._exchange.bytes_of(shape, dtype.itemsize)
