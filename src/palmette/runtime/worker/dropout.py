"""Dropout masks that do not depend on which node computes what.

``nn.Dropout`` draws from one stream of random numbers, so that its masks depend on everything drawn before. Here the
mask of a sample depends only on the seed, the iteration, the layer and the sample's position in the batch: numbers come
from splitmix64 over a key for the sample and the position of the element. A module that is called several times in one
pass draws a new mask each time.
"""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX = ((30, -4658895280553007687), (27, -7723592293110705685))


class Draw(NamedTuple):
    """The samples and the iteration that masks are drawn for, and the seed."""

    seed: int
    iteration: int
    positions: Sequence[int]


class _Pass:
    """One pass of samples through layers; counts the calls of each dropout."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self._calls: dict[str, int] = {}

    def key(self, dropout: str) -> str:
        """The key of the next call of a dropout."""
        before = self._calls.get(dropout, 0)
        self._calls[dropout] = before + 1
        return f"{dropout}/{before}" if before else dropout


_current: contextvars.ContextVar[_Pass] = contextvars.ContextVar("pass")


class Drawing:
    """Sets the ``Draw`` for the dropout layers that are called inside."""

    __slots__ = ("_draw", "_token")

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def __enter__(self) -> None:
        self._token = _current.set(_Pass(self._draw))

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


class SampleDropout(nn.Module):
    """Dropout whose mask is the same for the same seed, iteration, layer and sample."""

    def __init__(self, probability: float, key: str, *, whole_channels: bool) -> None:
        super().__init__()
        self.probability, self.key, self.whole_channels = probability, key, whole_channels

    def forward(self, values: Tensor) -> Tensor:
        """Drop elements, or whole channels, and scale up the rest."""
        if not self.training or self.probability == 0:
            return values
        if self.probability == 1:
            return values * 0
        shape = values.shape[1:2] if self.whole_channels else values.shape[1:]
        now = _current.get()
        kept = self._kept(now.draw, now.key(self.key), tuple(shape), values.device)
        kept = kept.view(*kept.shape, *[1] * (values.dim() - kept.dim()))
        return values * kept.to(values.dtype).div_(1 - self.probability)

    def _kept(self, draw: Draw, key: str, shape: tuple[int, ...], device: torch.device) -> Tensor:
        keys = torch.tensor([_key(draw, key, place) for place in draw.positions], device=device)
        numbers = keys[:, None] + torch.arange(1, torch.Size(shape).numel() + 1, device=device) * _GOLDEN
        uniform = _mixed(numbers).bitwise_right_shift_(11).bitwise_and_((1 << 53) - 1)
        return (uniform >= round(self.probability * 2**53)).view(len(draw.positions), *shape)


def _key(draw: Draw, layer: str, place: int) -> int:
    text = f"{draw.seed}/{draw.iteration}/{layer}/{place}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _mixed(numbers: Tensor) -> Tensor:
    """Splitmix64's finalizer, in place; integer overflow wraps, shifts are made logical by a mask."""
    for shift, factor in _MIX:
        numbers.bitwise_xor_((numbers >> shift).bitwise_and_((1 << 64 - shift) - 1)).mul_(factor)
    return numbers.bitwise_xor_((numbers >> 31).bitwise_and_((1 << 33) - 1))


def replace_dropout(module: nn.Module, layer: str) -> nn.Module:
    """Replace every ``nn.Dropout`` by ``SampleDropout`` (1d, 2d and 3d drop channels); returns the module."""
    found = [(name, part) for name, part in module.named_modules() if isinstance(part, _DROPOUTS)]
    for number, (name, part) in enumerate(found):
        made = SampleDropout(part.p, f"{layer}/{number}", whole_channels=not isinstance(part, nn.Dropout))
        made.train(part.training)
        if not name:
            return made
        parent, _, child = name.rpartition(".")
        setattr(module.get_submodule(parent), child, made)
    return module


_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
