"""What a coder is."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Coder(Protocol):
    """Turns a tensor into the bytes of a message and back; ``spec.codec`` says how many bytes those are."""

    def encode(self, values: Tensor) -> Tensor:
        """The bytes of a tensor."""
        ...

    def decode(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor of this shape and type that ``encode`` made a message of."""
        ...


def raw_bytes(values: Tensor) -> Tensor:
    """A tensor's own bytes."""
    return values.contiguous().view(-1).view(torch.uint8)


def channels_of(shape: tuple[int, ...]) -> int:
    """The channels of a batch: its second dimension; one where there is none."""
    return shape[1] if len(shape) > 1 else 1
