"""A worker's end of the hub: a stream to attend, and one for each of its channels.

A message is sent when the receiver has granted it, and by then the receiver has room for exactly its size; so nothing
that arrives makes anybody allocate memory, and a fast sender waits for a slow receiver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import torch
from torch import Tensor

from palmette.errors import RunError
from palmette.runtime.keys.certificates import dns_name
from palmette.runtime.keys.folder import Keys
from palmette.runtime.program import Channel
from palmette.runtime.tls.frames import MOST_BYTES, BadFrame, Frame, Kind, grant, hello, parts
from palmette.runtime.tls.hub import HubAddress
from palmette.runtime.tls.streams import LocalStream, NetworkStream, State, Stream
from palmette.runtime.transport import Closed

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
_FAREWELL_S = 1.0


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
        if node == self.hub.node and self.hub.local is not None:
            return TlsTransport(partial(LocalStream, self.hub.local), lambda: None, self, node)
        doors = grpc.ssl_channel_credentials(self.hub.certificate, own.key, own.certificate)
        name = ("grpc.ssl_target_name_override", dns_name(self.hub.node))
        dialled = grpc.secure_channel(self.hub.address, doors, options=[*_OPTIONS, name])
        try:
            return TlsTransport(partial(NetworkStream, dialled), dialled.close, self, node)
        except BaseException:
            dialled.close()
            raise


class TlsTransport:
    """Messages over the hub's streams, which ``opened`` gives and ``hang_up`` ends."""

    def __init__(
        self, opened: Callable[[str, bytes, State], Stream], hang_up: Callable[[], None], place: TlsPlace, node: str
    ) -> None:
        self._hang_up, self._hub = hang_up, place.hub.node
        self._state = State(place.hub.node)
        self._attendance = opened("Attend", hello(place.token, node), self._state)
        self._streams = {
            channel.number: opened("Carry", hello(place.token, node, channel.number), self._state)
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
        for stream in (*self._streams.values(), self._attendance):
            stream.close()
        self._hang_up()

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
