"""A worker's end of the hub: a stream to attend, and one for each of its channels.

A message is sent when the receiver has granted it, and by then the receiver has room for exactly its size; so nothing
that arrives makes anybody allocate memory, and a fast sender waits for a slow receiver.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import torch
from torch import Tensor

from palmette.errors import RunError, one_line
from palmette.runtime.keys.certificates import dns_name
from palmette.runtime.keys.folder import Keys
from palmette.runtime.program import Channel
from palmette.runtime.tls.frames import MOST_BYTES, BadFrame, Frame, Kind, decoded, farewell, grant, hello, parts
from palmette.runtime.tls.hub import SERVICE, HubAddress
from palmette.runtime.transport import Closed, Lost

_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]
# Frames that wait to be written while one is on its way.
_AHEAD = 1
_FAREWELL_S = 1.0
_PERMISSION = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)


@dataclass(frozen=True)
class TlsPlace:
    """A hub where workers meet; each finds its key in a folder ``keys`` of its own machine."""

    hub: HubAddress
    keys: Path
    token: bytes = field(repr=False)
    channels: Sequence[Channel]

    def join(self, node: str) -> TlsTransport:
        """Connect as ``node``; returns when all are there.

        Raises:
            RunError: the hub cannot be reached, or does not let this node in.
        """
        own = Keys(self.keys).credentials(node)
        wrong = own.objection(self.hub.certificate, self.hub.node)
        if wrong is not None:
            raise RunError(f"the certificate of the hub on node {self.hub.node} does not count: {wrong}")
        doors = grpc.ssl_channel_credentials(self.hub.certificate, own.key, own.certificate)
        name = ("grpc.ssl_target_name_override", dns_name(self.hub.node))
        dialled = grpc.secure_channel(self.hub.address, doors, options=[*_OPTIONS, name])
        try:
            return TlsTransport(dialled, self, node)
        except BaseException:
            dialled.close()
            raise


class TlsTransport:
    """Messages over the hub's streams."""

    def __init__(self, dialled: Any, place: TlsPlace, node: str) -> None:
        self._dialled, self._hub = dialled, place.hub.node
        self._state = _State(place.hub.node)
        self._attendance = _Stream(dialled, "Attend", hello(place.token, node), self._state)
        self._streams = {
            channel.number: _Stream(dialled, "Carry", hello(place.token, node, channel.number), self._state)
            for channel in place.channels
            if node in (channel.sender, channel.receiver)
        }
        if self._attendance.next().kind is not Kind.WELCOME:
            raise BadFrame(f"the hub on node {self._hub} does not say welcome")
        self._watching = threading.Thread(target=self._watch, name="attendance", daemon=True)
        self._watching.start()

    def send(self, channel: Channel, message: Tensor) -> None:
        """Wait until there is room for the message, and send it."""
        stream, bytes_ = self._streams[channel.number], message.numpy().data
        room = stream.next()
        if room.kind is not Kind.GRANT or room.size != len(bytes_):
            raise BadFrame(f"node {channel.receiver} expects {room.size} bytes; there are {len(bytes_)} to send")
        for part in parts(channel.number, bytes_, relayed=self._hub not in channel[1:]):
            stream.put(part)
        stream.flush()

    def receive(self, channel: Channel, size_bytes: int) -> Tensor:
        """Make room for the message, say so, and wait for it."""
        stream, message = self._streams[channel.number], torch.empty(size_bytes, dtype=torch.uint8)
        room, filled, whole = message.numpy().data, 0, False
        stream.put(grant(channel.number, size_bytes))
        while not whole:
            part = stream.next()
            _refuse_unexpected(part, channel, size_bytes, filled)
            room[filled : filled + len(part.payload)] = part.payload
            filled += len(part.payload)
            whole = filled == size_bytes
        return message

    def close(self) -> None:
        """Leave in good order."""
        self._state.closed = True
        self._attendance.leave()
        self._watching.join(_FAREWELL_S)
        self._dialled.close()

    def _watch(self) -> None:
        """Wait for the end of the attendance; when it was not ours, end all that wait."""
        try:
            said = self._attendance.next()
            self._state.broken = BadFrame(f"the hub on node {self._hub} says {said.kind.name.lower()} once more")
        except RunError as broken:
            self._state.broken = broken
        except Closed:
            pass
        for stream in self._streams.values():
            stream.cancel()


def _refuse_unexpected(part: Frame, channel: Channel, size_bytes: int, filled: int) -> None:
    if part.kind is not Kind.DATA or part.channel != channel.number or part.size != size_bytes or part.offset != filled:
        found = f"{part.kind.name.lower()} of channel {part.channel}, byte {part.offset} of {part.size}"
        expected = f"data of channel {channel.number}, byte {filled} of {size_bytes}"
        raise BadFrame(f"node {channel.sender} sent {found}; expected {expected}")


class _State:
    """What all streams of a worker know: whether the end was asked for, and else who is to blame."""

    def __init__(self, hub: str) -> None:
        self.hub = hub
        self.closed = False
        self.broken: RunError | None = None

    def error(self, ended: Any) -> Exception:
        """What the end of a stream means."""
        if self.closed:
            return Closed()
        if self.broken is not None:
            return self.broken
        if ended is None:
            return Lost(f"lost the connection to the hub on node {self.hub}", self.hub)
        details = one_line(" ".join(str(ended.details()).split()))
        match ended.code():
            case grpc.StatusCode.ABORTED:
                return Lost(f"lost the connection to node {details}", details)
            case code if code in _PERMISSION:
                return RunError(f"the hub on node {self.hub} refuses: {details}")
        return Lost(f"lost the connection to the hub on node {self.hub}: {details}", self.hub)


class _Stream:
    """A stream of frames to and from the hub."""

    def __init__(self, dialled: Any, method: str, first: bytes, state: _State) -> None:
        self._outbox, self._state = _Outbox(first), state
        self._call = dialled.stream_stream(f"/{SERVICE}/{method}")(self._outbox)
        if not self._call.add_callback(self._outbox.end):
            self._outbox.end()

    def put(self, frame: bytes) -> None:
        """Write a frame; returns when few are ahead of the network."""
        if not self._outbox.put(frame):
            self.next()  # the stream has ended, and says why

    def flush(self) -> None:
        """Return when all frames have been written."""
        if not self._outbox.flush():
            self.next()

    def next(self) -> Frame:
        """Wait for a frame.

        Raises:
            Lost: the hub or another node is gone.
            Closed: the transport was closed.
            RunError: the hub does not let this node in, or sends what is no frame.
        """
        try:
            return decoded(next(self._call))
        except StopIteration:
            raise self._state.error(None) from None
        except grpc.RpcError as ended:
            raise self._state.error(ended) from None

    def leave(self) -> None:
        """Say that this worker leaves in good order, if anybody still listens."""
        self._outbox.put(farewell())

    def cancel(self) -> None:
        """End at once."""
        self._call.cancel()


class _Outbox:
    """Frames on their way to gRPC, whose thread takes one when the one before has been written."""

    def __init__(self, first: bytes) -> None:
        self._frames = deque([first])
        self._idle = self._ended = False
        self._changed = threading.Condition()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._changed:
            self._idle = not self._frames
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._frames or self._ended)
            if not self._frames:
                raise StopIteration
            self._idle = False
            return self._frames.popleft()

    def put(self, frame: bytes) -> bool:
        """Add a frame; returns when there is room for another, False if nobody takes any more."""
        with self._changed:
            self._frames.append(frame)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._frames) <= _AHEAD or self._ended)
            return not self._ended

    def flush(self) -> bool:
        """Return when the last frame has been written, False if nobody takes any more."""
        with self._changed:
            self._changed.wait_for(lambda: (self._idle and not self._frames) or self._ended)
            return not self._ended

    def end(self) -> None:
        """Take no more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
