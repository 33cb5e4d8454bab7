"""4-bit integers with a scale for each block of consecutive numbers, two of them in a byte.

As ``int8``, with levels from -7 to 7. The scales come first, then the integers, each byte's first in its lower half.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, numbers_in, raw_bytes
from palmette.compress.coders.blocks import in_blocks
from palmette.compress.coders.int8 import steps
from palmette.spec.codec import CODEC_KINDS

LEVELS = 7
BLOCK = CODEC_KINDS["int4"].block or 1


class Int4Coder:
    """Sends 4-bit integers and the scales of blocks."""

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the scales, then of pairs of integers."""
        many = values.numel()
        blocks = in_blocks(values.reshape(-1), BLOCK)
        scale = steps(blocks.abs().amax(dim=1, keepdim=True), LEVELS)
        levels = (blocks / scale).round_().clamp_(-LEVELS, LEVELS).to(torch.int8).view(-1)
        pairs = (levels[: many + many % 2] + LEVELS + 1).to(torch.uint8).view(-1, 2)
        return torch.cat((raw_bytes(scale), pairs[:, 0] | (pairs[:, 1] << 4)))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The integers times their scales."""
        many = math.prod(shape)
        scale_bytes = -(-many // BLOCK) * dtype.itemsize
        scale = numbers_in(message[:scale_bytes], dtype).view(-1, 1)
        pairs = message[scale_bytes:]
        levels = torch.stack((pairs & 15, pairs >> 4), dim=1).view(-1)[:many].to(dtype) - (LEVELS + 1)
        return (in_blocks(levels, BLOCK) * scale).view(-1)[:many].view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Half of one for each number, and a number for each block."""
        return round(CODEC_KINDS["int4"].message_bytes(math.prod(shape), 0, dtype.itemsize))
