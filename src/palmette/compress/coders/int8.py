"""8-bit integers with a scale for each channel.

A number x is sent as round(x / scale) with scale = max|x| / 127 over its channel (the second dimension), so that it is
off by at most half a scale. The scales come first, then the integers. A channel with a number that is infinite or NaN
arrives as such, so that a training that has diverged shows it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palmette.compress.coders.base import Memory, channels_of, raw_bytes
from palmette.spec.codec import CODEC_KINDS

LEVELS = 127


class Int8Coder:
    """Sends 8-bit integers and scales."""

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the scales, then of the integers."""
        scale = _scales(values)
        levels = (values / scale).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
        return torch.cat((raw_bytes(scale.flatten()), raw_bytes(levels)))

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The integers times their scales."""
        scale_bytes = channels_of(shape) * dtype.itemsize
        scale = message[:scale_bytes].clone().view(dtype)
        levels = message[scale_bytes:].view(torch.int8).view(shape)
        return levels.to(dtype) * scale.view(_spread(shape))

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """One for each number, and a number for each channel."""
        return round(CODEC_KINDS["int8"].message_bytes(math.prod(shape), channels_of(shape), dtype.itemsize))


def steps(largest: Tensor, levels: int = LEVELS) -> Tensor:
    """The step from one integer to the next, given the largest absolute values; 1 where all is zero."""
    step = largest / levels
    return torch.where(step == 0, torch.ones_like(step), step)


def _scales(values: Tensor) -> Tensor:
    """The step of each channel, 1 where a channel is all but zero; NaN where the channel has one."""
    rest = [k for k in range(values.dim()) if k != 1]
    return steps(
        values.abs().amax(dim=rest, keepdim=True) if values.numel() else values.new_zeros(_spread(values.shape))
    )


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if k == 1 else 1 for k, size in enumerate(shape))
