"""Messages whose size the receiver does not know, as samples of varying size: their length goes first.

    length, 8 bytes │ the message

A transport sends both as messages of a known size, so that the receiver allocates memory once it knows how much. Over
tls there is no need to: every part of a message says how long the whole is.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from palmette.errors import RunError

_LENGTH = struct.Struct("<q")
LENGTH_BYTES = _LENGTH.size
# What a sender announces is allocated, so it must not be able to ask for any amount.
MOST_BYTES = 2 * 1024**3


class BadLength(RunError):
    """A length that no message can have."""


def length_of(message: Tensor) -> Tensor:
    """The length of a message, as the message that goes before it."""
    return torch.frombuffer(bytearray(_LENGTH.pack(message.numel())), dtype=torch.uint8)


def read_length(length: Tensor, sender: str) -> int:
    """How many bytes ``sender`` is about to send.

    Raises:
        BadLength: no message has that many.
    """
    (size_bytes,) = _LENGTH.unpack(length.numpy().tobytes())
    refuse_length(size_bytes, sender)
    return int(size_bytes)


def refuse_length(size_bytes: int, sender: str) -> None:
    """Refuse to make room for a message that ``sender`` announces with a size that none can have.

    Raises:
        BadLength: it is such a size.
    """
    if not 0 <= size_bytes <= MOST_BYTES:
        raise BadLength(f"node {sender} announces a message of {size_bytes} bytes; expected 0 to {MOST_BYTES}")
