"""The hub's own machine: its worker talks to the hub over a local socket instead of the network and TLS.

The socket lies in a folder that only its owner can enter. Frames travel as they are, each after its length; an ending,
marked in the length, says why there will be no more. What gRPC's handlers get as a context is the same here.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, NoReturn

import grpc

from palmette.runtime.transports.tls.frames import MOST_BYTES

LENGTH = struct.Struct("<I")
ENDED = 1 << 31
# The longest path of a socket that every Unix takes.
LONGEST_PATH = 100


class Ending(NamedTuple):
    """Why a stream has ended, in gRPC's words."""

    status: Any
    why: str

    def code(self) -> Any:
        """The kind of reason."""
        return self.status

    def details(self) -> str:
        """The reason."""
        return self.why

    def written(self) -> bytes:
        """As it travels."""
        text = f"{self.status.name}\n{self.why}".encode()
        return LENGTH.pack(ENDED | len(text)) + text

    @classmethod
    def read(cls, text: bytes) -> Ending:
        """As it arrived."""
        name, _, why = text.decode(errors="replace").partition("\n")
        return cls(getattr(grpc.StatusCode, name, grpc.StatusCode.UNKNOWN), why)


class Aborted(Exception):
    """A handler has ended a local stream."""


class LocalContext:
    """The hub's end of a local stream; whoever can reach it is on the hub's own node."""

    def __init__(self, writer: asyncio.StreamWriter, certificate: bytes) -> None:
        self._writer, self._certificate = writer, certificate

    def auth_context(self) -> dict[str, list[bytes]]:
        """The node's certificate."""
        return {"x509_pem_cert": [self._certificate]}

    async def write(self, frame: bytes) -> None:
        """Send a frame."""
        self._writer.write(LENGTH.pack(len(frame)) + frame)
        await self._writer.drain()

    async def abort(self, status: Any, why: str) -> NoReturn:
        """End the stream, and say why."""
        self._writer.write(Ending(status, why).written())
        await self._writer.drain()
        raise Aborted


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The frames that arrive, until there are no more."""
    try:
        while True:
            (long,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if long > MOST_BYTES:
                return
            yield await reader.readexactly(long)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
