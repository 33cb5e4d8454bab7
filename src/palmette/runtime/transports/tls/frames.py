"""The message format on a stream: a header of fixed size, then raw bytes. Never pickle.

    magic  kind  channel  size  offset │ payload
      4      1      4       8     8    │ the rest of the frame

A frame is checked as a whole before it is used: its header has to fit its length, and the limits below. ``size`` is
that of the whole message, of which a data frame carries the part from ``offset`` on.

    hello    names the worker's run, its node, and the channel that the stream is for, if any
    welcome  all workers are connected
    grant    the receiver has allocated memory for a message of this size; nothing is sent before
    credit   the receiver takes so many more bytes of messages whose size it does not know (``credit``)
    data     a part of a message
    control  a part of a message between engine and worker (``engines.hub``), on a stream of its own
    alive    a worker's heartbeat, which the hub returns
    farewell a worker leaves in order; a stream that ends without it means that the worker is lost
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, assert_never

from palmette.errors import RunError

_HEADER = struct.Struct("<4sBIQQ")
_MAGIC = b"plm1"
TOKEN_BYTES = 16
_LONGEST_HELLO = TOKEN_BYTES + 4 * 200
# A frame costs about the same whatever its length, so messages are split into few parts. But a hub forwards a part when
# it has all of it: where it forwards over another network, parts have to be short compared with their message.
_PARTS, _SHORTEST_PART = 4, 64 * 1024
_RELAYED_PARTS, _SHORTEST_RELAYED_PART = 32, 16 * 1024
LONGEST_PART = 256 * 1024
HEADER_BYTES = _HEADER.size
MOST_BYTES = HEADER_BYTES + LONGEST_PART
NO_CHANNEL = 2**32 - 1


class FrameKind(IntEnum):
    """The kinds of frames."""

    HELLO = 1
    WELCOME = 2
    GRANT = 3
    DATA = 4
    FAREWELL = 5
    ALIVE = 6
    CREDIT = 7
    CONTROL = 8


class Frame(NamedTuple):
    """A frame that has been checked."""

    kind: FrameKind
    channel: int
    size: int
    offset: int
    payload: memoryview


class BadFrame(RunError):
    """Bytes that are not a valid frame, or not one that is allowed here."""


def decoded(data: bytes) -> Frame:
    """Decode and check a frame.

    Raises:
        BadFrame: it is not valid; says why.
    """
    if len(data) < _HEADER.size:
        raise BadFrame(f"a frame of {len(data)} bytes is shorter than its header of {_HEADER.size}")
    magic, number, channel, size, offset = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise BadFrame(f"a frame begins with {magic!r}; expected {_MAGIC!r}")
    try:
        kind = FrameKind(number)
    except ValueError:
        raise BadFrame(f"unknown kind of frame: {number}") from None
    frame = Frame(kind, channel, size, offset, memoryview(data)[_HEADER.size :])
    _refuse_misfit(frame)
    return frame


def _refuse_misfit(frame: Frame) -> None:
    long = len(frame.payload)
    match frame.kind:
        case FrameKind.DATA | FrameKind.CONTROL:
            if long > LONGEST_PART or frame.offset + long > frame.size or (long == 0) != (frame.size == 0):
                raise BadFrame(f"{long} bytes at {frame.offset} are not a part of a message of {frame.size}")
        case FrameKind.HELLO:
            if not TOKEN_BYTES < long <= _LONGEST_HELLO or frame.size or frame.offset:
                raise BadFrame(f"a hello of {long} bytes; expected a token and the name of a node")
        case FrameKind.WELCOME | FrameKind.GRANT | FrameKind.CREDIT | FrameKind.FAREWELL | FrameKind.ALIVE:
            if long or frame.offset:
                raise BadFrame(f"a frame of kind {frame.kind.name.lower()} carries {long} bytes; expected none")
        case unknown:
            assert_never(unknown)


def hello(token: bytes, node: str, channel: int = NO_CHANNEL) -> bytes:
    """The first frame on a stream."""
    return _HEADER.pack(_MAGIC, FrameKind.HELLO, channel, 0, 0) + token + node.encode()


def read_hello(frame: Frame) -> tuple[bytes, str]:
    """The token and the node's name in a hello.

    Raises:
        BadFrame: it is not a hello.
    """
    if frame.kind is not FrameKind.HELLO:
        raise BadFrame(f"a stream begins with a frame of kind {frame.kind.name.lower()}; expected hello")
    token, name = bytes(frame.payload[:TOKEN_BYTES]), bytes(frame.payload[TOKEN_BYTES:])
    try:
        return token, name.decode()
    except UnicodeDecodeError:
        raise BadFrame("the name of a node is not valid UTF-8") from None


def welcome() -> bytes:
    """All workers are connected."""
    return _HEADER.pack(_MAGIC, FrameKind.WELCOME, NO_CHANNEL, 0, 0)


def farewell() -> bytes:
    """A worker leaves."""
    return _HEADER.pack(_MAGIC, FrameKind.FAREWELL, NO_CHANNEL, 0, 0)


def alive() -> bytes:
    """The heartbeat of a worker or of the hub."""
    return _HEADER.pack(_MAGIC, FrameKind.ALIVE, NO_CHANNEL, 0, 0)


def grant(channel: int, size: int) -> bytes:
    """The receiver is ready for a message of this size."""
    return _HEADER.pack(_MAGIC, FrameKind.GRANT, channel, size, 0)


def credit(channel: int, size: int) -> bytes:
    """The receiver takes so many more bytes, in messages of any size."""
    return _HEADER.pack(_MAGIC, FrameKind.CREDIT, channel, size, 0)


def data_frames(
    channel: int, message: memoryview, *, relayed: bool = False, longest: int = LONGEST_PART
) -> Iterator[bytes]:
    """A message as data frames; ``relayed``: the hub is on neither end's machine."""
    many, shortest = (_RELAYED_PARTS, _SHORTEST_RELAYED_PART) if relayed else (_PARTS, _SHORTEST_PART)
    return _parts(FrameKind.DATA, channel, message, min(longest, max(shortest, len(message) // many)))


def control_frames(message: bytes) -> Iterator[bytes]:
    """A message between engine and worker as frames."""
    return _parts(FrameKind.CONTROL, NO_CHANNEL, memoryview(message), LONGEST_PART)


def _parts(kind: FrameKind, channel: int, message: memoryview, long: int) -> Iterator[bytes]:
    size = len(message)
    for offset in range(0, max(size, 1), long):
        yield b"".join((_HEADER.pack(_MAGIC, kind, channel, size, offset), message[offset : offset + long]))
