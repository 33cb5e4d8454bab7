"""Numbers as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import raw_bytes


class PlainCoder:
    """Sends a tensor's own bytes."""

    def encode(self, values: Tensor) -> Tensor:
        """The bytes of a tensor."""
        return raw_bytes(values)

    def decode(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor, in the memory of its message."""
        return message.view(dtype).view(shape)
