"""8-bit integers with a scale for each channel.

A number x is sent as round(x / scale) with scale = max|x| / 127 over its channel (the second dimension), so that it is
off by at most half a scale. The scales come first, then the integers. A channel with a number that is infinite or NaN
arrives as such, so that a training that has diverged shows it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.compress.coders.base import channels_of, raw_bytes

LEVELS = 127


class Int8Coder:
    """Sends 8-bit integers and scales."""

    def encode(self, values: Tensor) -> Tensor:
        """The bytes of the scales, then of the integers."""
        scale = _scales(values)
        levels = (values / scale).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
        return torch.cat((raw_bytes(scale.flatten()), raw_bytes(levels)))

    def decode(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The integers times their scales."""
        scale_bytes = channels_of(shape) * dtype.itemsize
        scale = message[:scale_bytes].clone().view(dtype)
        levels = message[scale_bytes:].view(torch.int8).view(shape)
        return levels.to(dtype) * scale.view(_spread(shape))


def _scales(values: Tensor) -> Tensor:
    """The step of each channel, 1 where a channel is all but zero; NaN where the channel has one."""
    rest = [k for k in range(values.dim()) if k != 1]
    largest = values.abs().amax(dim=rest, keepdim=True) if values.numel() else values.new_zeros(_spread(values.shape))
    step = largest / LEVELS
    return torch.where(step == 0, torch.ones_like(step), step)


def _spread(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if k == 1 else 1 for k, size in enumerate(shape))
