"""A worker's streams of frames to and from the hub: over the network, or on the hub's own machine over a local socket.

The local socket is in a folder that only its owner can enter; on it, each frame follows its length.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import grpc

from palmette.errors import RunError, one_line
from palmette.runtime.transports.base import ConnectionLost, TransportClosed
from palmette.runtime.transports.heartbeat import peer_silent
from palmette.runtime.transports.tls.frames import MOST_BYTES, BadFrame, Frame, decoded, farewell
from palmette.runtime.transports.tls.hub import SERVICE
from palmette.runtime.transports.tls.local import ENDED, LENGTH, StreamEnd

_Mark = SimpleQueue[bool]
_HANDSHAKES = {
    "WRONG_VERSION_NUMBER": "what answers there does not speak TLS",
    "certificate has expired": "its certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is of another authority than the keys here",
}
_PERMISSION = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)


class Stream(Protocol):
    """A stream of frames."""

    def put(self, frame: bytes) -> None:
        """Queue a frame for writing."""
        ...

    def flush(self) -> None:
        """Return when all frames have been written."""
        ...

    def next(self) -> Frame:
        """Wait for a frame.

        Raises:
            Lost: the hub or another node is gone.
            Closed: the transport was closed.
            RunError: the hub refuses this node, or sends an invalid frame.
        """
        ...

    def leave(self) -> None:
        """Say farewell, if the hub still listens."""
        ...

    def cancel(self) -> None:
        """End at once, and wake all that wait."""
        ...

    def close(self) -> None:
        """End, and release all resources."""
        ...


class StreamState:
    """What all streams of a worker share: whether it closed them itself, and otherwise which error ended them."""

    def __init__(self, node: str, hub: str, called: str = "") -> None:
        self.node, self.hub, self._called = node, hub, called or f"the hub on node {hub}"
        self.closed = False
        self.broken: RunError | None = None

    def error(self, ended: Any) -> Exception:
        """The error that the end of a stream means."""
        if self.closed:
            return TransportClosed()
        if self.broken is not None:
            return self.broken
        if ended is None:
            return ConnectionLost(f"lost the connection to {self._called}", self.hub)
        details = one_line(" ".join(str(ended.details()).split()))
        match ended.code():
            case grpc.StatusCode.ABORTED:
                return ConnectionLost(f"lost the connection to node {details}", details, (self.hub, details))
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return peer_silent(details, (self.hub, details))
            case code if code in _PERMISSION:
                return RunError(f"{self._called} refuses: {details}")
        return ConnectionLost(f"lost the connection to {self._called}: {_in_short(details)}", self.hub)


def _in_short(details: str) -> str:
    """Why there is no connection, where gRPC says it in words of its TLS library."""
    return next((meaning for sign, meaning in _HANDSHAKES.items() if sign in details), details)


class NetworkStream:
    """A stream over gRPC."""

    def __init__(
        self, dialled: Any, method: str, first: bytes, state: StreamState, metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._outbox, self._state = _Outbox(first), state
        self._call = dialled.stream_stream(f"/{SERVICE}/{method}")(self._outbox, metadata=metadata)
        if not self._call.add_callback(self._outbox.end):
            self._outbox.end()

    def put(self, frame: bytes) -> None:
        """Queue a frame for writing."""
        if not self._outbox.put(frame):
            self.next()  # the stream has ended; raises why

    def flush(self) -> None:
        """Return when all frames have been written."""
        if not self._outbox.flush():
            self.next()

    def next(self) -> Frame:
        """Wait for a frame.

        Raises:
            Lost: the hub or another node is gone.
            Closed: the transport was closed.
            RunError: the hub refuses this node, or sends an invalid frame.
        """
        try:
            return decoded(next(self._call))
        except StopIteration:
            raise self._state.error(None) from None
        except grpc.RpcError as ended:
            raise self._state.error(ended) from None

    def leave(self) -> None:
        """Say farewell, if the hub still listens."""
        self._outbox.put(farewell())

    def cancel(self) -> None:
        """End at once, and wake all that wait."""
        self._call.cancel()

    def close(self) -> None:
        """End; the connection is shared by all streams, and stays."""
        self.cancel()


class _Outbox:
    """Frames for gRPC, whose thread takes one when the previous one has been written.

    A message is sent only when its receiver is ready for it, so no more than one ever waits here.
    """

    def __init__(self, first: bytes) -> None:
        self._frames: SimpleQueue[bytes | _Mark | None] = SimpleQueue()
        self._frames.put(first)
        self._mark: _Mark | None = None
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while (found := self._frames.get()) is not None:
            if isinstance(found, bytes):
                return found
            found.put(True)
        raise StopIteration

    def put(self, frame: bytes) -> bool:
        """Add a frame; returns False if the stream has ended."""
        self._frames.put(frame)
        return not self._ended

    def flush(self) -> bool:
        """Return when the last frame has been written, False if the stream has ended."""
        self._mark = SimpleQueue()
        if self._ended:
            return False
        self._frames.put(self._mark)
        return self._mark.get()

    def end(self) -> None:
        """Take no more frames, and wake a waiting ``flush``."""
        self._ended = True
        self._frames.put(None)
        if self._mark is not None:
            self._mark.put(False)


class LocalStream:
    """A stream over a local socket."""

    def __init__(self, path: Path, method: str, first: bytes, state: StreamState) -> None:
        self._state = state
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
            self._socket.sendall(method[:1].encode() + LENGTH.pack(len(first)) + first)
        except OSError:
            self._socket.close()
            raise state.error(None) from None
        self._reading = self._socket.makefile("rb")

    def put(self, frame: bytes) -> None:
        """Write a frame."""
        try:
            self._socket.sendall(LENGTH.pack(len(frame)) + frame)
        except OSError:
            self.next()  # the stream has ended; raises why

    def flush(self) -> None:
        """Nothing to do: frames are written at once."""

    def next(self) -> Frame:
        """Wait for a frame."""
        long = self._read(LENGTH.size)
        (many,) = LENGTH.unpack(long)
        if many & ENDED:
            raise self._state.error(StreamEnd.read(self._read(min(many ^ ENDED, MOST_BYTES))))
        if many > MOST_BYTES:
            raise BadFrame(f"the hub on node {self._state.hub} sends a frame of {many} bytes")
        return decoded(self._read(many))

    def _read(self, many: int) -> bytes:
        try:
            data = self._reading.read(many)
        except (OSError, ValueError):
            data = b""
        if len(data) < many:
            raise self._state.error(None)
        return data

    def leave(self) -> None:
        """Say farewell, if the hub still listens."""
        with contextlib.suppress(OSError):
            self._socket.sendall(LENGTH.pack(len(farewell())) + farewell())

    def cancel(self) -> None:
        """End at once, and wake all that wait."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End, and close the socket."""
        self.cancel()
        self._reading.close()
        self._socket.close()
