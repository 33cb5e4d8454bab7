"""How activations and gradients travel: as they are, or as 8-bit integers with a scale a channel.

``int8`` sends round(x / scale) with scale = max|x| / 127 over each channel (the second dimension), so that no number is
off by more than half a scale. A message is raw bytes: scales first, then the integers. A channel with a number that is
infinite or none arrives as such, so that a training that has gone astray shows it.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import torch
from torch import Tensor

Codec = Literal["none", "int8"]
LEVELS = 127


def encode(values: Tensor, codec: Codec) -> Tensor:
    """The bytes of a tensor on the wire."""
    values = values.detach()
    if codec == "none":
        return _bytes(values)
    scale = _scales(values)
    levels = (values / scale).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
    return torch.cat((_bytes(scale.flatten()), _bytes(levels)))


def decode(message: Tensor, shape: tuple[int, ...], dtype: torch.dtype, codec: Codec) -> Tensor:
    """The tensor that ``encode`` made a message of."""
    if codec == "none":
        return message.view(dtype).view(shape)
    channels = _channels(shape)
    scale_bytes = channels * dtype.itemsize
    scale = message[:scale_bytes].clone().view(dtype)
    levels = message[scale_bytes:].view(torch.int8).view(shape)
    return levels.to(dtype) * scale.view(_spread(shape))


def encoded_bytes(shape: tuple[int, ...], dtype: torch.dtype, codec: Codec) -> int:
    """The length of the message for a tensor of this shape."""
    many = prod(shape)
    return many * dtype.itemsize if codec == "none" else many + _channels(shape) * dtype.itemsize


def _scales(values: Tensor) -> Tensor:
    """The step of each channel, 1 where a channel is all but zero; not a number where the channel has such."""
    rest = [k for k in range(values.dim()) if k != 1]
    largest = values.abs().amax(dim=rest, keepdim=True) if values.numel() else values.new_zeros(_spread(values.shape))
    step = largest / LEVELS
    return torch.where(step == 0, torch.ones_like(step), step)


def _channels(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) > 1 else 1


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if k == 1 else 1 for k, size in enumerate(shape))


def _bytes(values: Tensor) -> Tensor:
    return values.contiguous().view(-1).view(torch.uint8)
