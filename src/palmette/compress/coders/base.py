"""What a coder is."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

Memory = dict[str, Tensor]
"""What the sender of a tensor remembers from one message to the next, by name."""


class Coder(Protocol):
    """Turns a tensor into the bytes of a message and back; ``spec`` says how many bytes those are."""

    def compress(self, values: Tensor, memory: Memory) -> Tensor:
        """The bytes of a tensor; ``memory`` is that of the same tensor the time before, and is changed."""
        ...

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor of this shape and type that ``compress`` made a message of; the same bits on every machine."""
        ...

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """The length of the message for a tensor of this shape and type."""
        ...


def raw_bytes(values: Tensor) -> Tensor:
    """A tensor's own bytes."""
    return values.contiguous().view(-1).view(torch.uint8)


def numbers_in(message: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers that bytes are; copied, since a slice of a message may not be aligned for its type."""
    return message.clone().view(dtype)


def channels_of(shape: tuple[int, ...]) -> int:
    """The channels of a batch: its second dimension; one where there is none."""
    return shape[1] if len(shape) > 1 else 1
