"""How activations and gradients travel: the coder of each codec, and the bytes of what it makes.

A new codec is a row of ``spec.codec``, which says how large its messages are, a file of ``coders``, and a row here.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from palmette.compress.coders.base import Coder, channels_of
from palmette.compress.coders.int8 import Int8Coder
from palmette.compress.coders.plain import PlainCoder
from palmette.spec.codec import CODEC_KINDS, Codec

CODERS: dict[Codec, Coder] = {"none": PlainCoder(), "int8": Int8Coder()}
assert CODERS.keys() == CODEC_KINDS.keys(), "every codec has a coder"


def encode(values: Tensor, codec: Codec) -> Tensor:
    """The bytes of a tensor on the wire."""
    return CODERS[codec].encode(values.detach())


def decode(message: Tensor, shape: tuple[int, ...], dtype: torch.dtype, codec: Codec) -> Tensor:
    """The tensor that ``encode`` made a message of."""
    return CODERS[codec].decode(message, shape, dtype)


def encoded_bytes(shape: tuple[int, ...], dtype: torch.dtype, codec: Codec) -> int:
    """The length of the message for a tensor of this shape."""
    return round(CODEC_KINDS[codec].message_bytes(prod(shape), channels_of(shape), dtype.itemsize))
