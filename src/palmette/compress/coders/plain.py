"""Numbers as they are."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, raw_bytes


class PlainCoder:
    """Sends a tensor's own bytes."""

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of a tensor."""
        return raw_bytes(values)

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor, in the memory of its message."""
        return message.view(dtype).view(shape)

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Those of its numbers."""
        return math.prod(shape) * dtype.itemsize
