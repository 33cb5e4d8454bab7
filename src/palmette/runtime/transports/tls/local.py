"""The hub's own machine: its worker connects to the hub over a local socket instead of the network and TLS.

The socket is in a folder that only its owner can enter. Each frame follows its length; an ending, marked in the length,
says why the stream ends. ``LocalContext`` has the interface of gRPC's contexts, so that the same handlers serve both.
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
# The longest path of a socket that every Unix accepts.
LONGEST_PATH = 100


class StreamEnd(NamedTuple):
    """Why a stream has ended, as a gRPC status."""

    status: Any
    why: str

    def code(self) -> Any:
        """The status code."""
        return self.status

    def details(self) -> str:
        """The reason."""
        return self.why

    def written(self) -> bytes:
        """Encoded for the socket."""
        text = f"{self.status.name}\n{self.why}".encode()
        return LENGTH.pack(ENDED | len(text)) + text

    @classmethod
    def read(cls, text: bytes) -> StreamEnd:
        """Decode it."""
        name, _, why = text.decode(errors="replace").partition("\n")
        return cls(getattr(grpc.StatusCode, name, grpc.StatusCode.UNKNOWN), why)


class Aborted(Exception):
    """A handler has ended a local stream."""


class LocalContext:
    """The hub's end of a local stream; only the hub's own node can reach it."""

    def __init__(self, writer: asyncio.StreamWriter, certificate: bytes) -> None:
        self._writer, self._certificate = writer, certificate

    def auth_context(self) -> dict[str, list[bytes]]:
        """The node's certificate."""
        return {"x509_pem_cert": [self._certificate]}

    def invocation_metadata(self) -> tuple[()]:
        """Nothing is said beside the frames."""
        return ()

    async def write(self, frame: bytes) -> None:
        """Send a frame."""
        self._writer.write(LENGTH.pack(len(frame)) + frame)
        await self._writer.drain()

    async def abort(self, status: Any, why: str) -> NoReturn:
        """End the stream, and say why."""
        self._writer.write(StreamEnd(status, why).written())
        await self._writer.drain()
        raise Aborted


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The frames that arrive, until the stream ends."""
    try:
        while True:
            (long,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if long > MOST_BYTES:
                return
            yield await reader.readexactly(long)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
