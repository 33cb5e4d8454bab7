"""A worker's transport through the hub: a control stream, and one for each of its channels.

A message is sent when the receiver has granted it, and by then the receiver has allocated exactly its size; so incoming
data never makes a worker allocate memory, and a fast sender waits for a slow receiver. Where the receiver does not know
the size, it grants a number of bytes ahead (``credit``), and allocates memory when a message begins, whose size has a
limit. All messages of a channel are of one kind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import torch
from torch import Tensor

from palmette.errors import RunError
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import TransportClosed
from palmette.runtime.transports.heartbeat import SILENCE_S, peer_silent
from palmette.runtime.transports.keys.certificates import dns_name
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.held import HeldKeys, key_source
from palmette.runtime.transports.lengths import refuse_length
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.marking import GRPC_BACKGROUND
from palmette.runtime.transports.tls.connections import Connections, LocalConnections, NetworkConnections
from palmette.runtime.transports.tls.credit import ReceiveWindow, SendCredit
from palmette.runtime.transports.tls.frames import (
    HEADER_BYTES,
    LONGEST_PART,
    MOST_BYTES,
    BadFrame,
    Frame,
    FrameKind,
    alive,
    credit,
    data_frames,
    grant,
    hello,
)
from palmette.runtime.transports.tls.hub import ALIVE_EVERY_S, HubAddress
from palmette.runtime.transports.tls.streams import Stream, StreamState
from palmette.runtime.transports.yielding import PIECE_BYTES, YIELD_AT_MOST_S, SendGate

_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
]
_FAREWELL_S = 1.0


@dataclass(frozen=True)
class HubEndpoint:
    """An endpoint at a hub; each worker finds its key in a folder of its own machine, or is given it, in ``keys``.

    ``background`` are the numbers of the channels whose messages give way to all others.
    """

    hub: HubAddress
    keys: Path | HeldKeys
    token: bytes = field(repr=False)
    channels: Sequence[Channel]
    background: Collection[int] = ()

    def connect(self, node: str) -> TlsTransport:
        """Connect as ``node``; returns when all are connected.

        Raises:
            RunError: the hub cannot be reached, or refuses this node.
        """
        own = key_source(self.keys).credentials(node)
        wrong = own.objection(self.hub.certificate, self.hub.node)
        if wrong is not None:
            raise RunError(f"the certificate of the hub on node {self.hub.node} is not valid: {wrong}")
        connections = self._connections(own, node)
        try:
            return TlsTransport(
                connections,
                hub=self.hub.node,
                token=self.token,
                channels=self.channels,
                node=node,
                background=self.background,
            )
        except BaseException:
            connections.close()
            raise

    def _connections(self, own: Credentials, node: str) -> Connections:
        if node == self.hub.node and self.hub.local is not None:
            return LocalConnections(self.hub.local)
        secured = grpc.ssl_channel_credentials(self.hub.certificate, own.key, own.certificate)
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", dns_name(self.hub.node))]
        attending, carrying, behind = (
            grpc.secure_channel(self.hub.address, secured, options=[*options, *more])
            for more in ((), (), (GRPC_BACKGROUND,))
        )
        return NetworkConnections(attending, carrying, behind, own=(attending, carrying, behind))


class TlsTransport:
    """Messages over streams to ``hub``; those of channels in the ``background`` have a connection of their own."""

    def __init__(
        self,
        connections: Connections,
        *,
        hub: str,
        token: bytes,
        channels: Sequence[Channel],
        node: str,
        background: Collection[int] = (),
    ) -> None:
        self._connections, self._hub = connections, hub
        self._state = StreamState(node, hub)
        self._attendance = connections.opened("Attend", hello(token, node), self._state)
        self._streams = {
            number: connections.opened(
                "Carry", hello(token, node, number), self._state, background=number in background
            )
            for number, *ends in channels
            if node in ends
        }
        self._await_welcome()
        self._credits: dict[int, SendCredit] = {}
        self._windows: dict[int, ReceiveWindow] = {}
        self._gate = SendGate(YIELD_AT_MOST_S)
        self._ended = threading.Event()
        self._liveness = Liveness(SILENCE_S, 2 * ALIVE_EVERY_S)
        self._liveness.heard([self._hub], time.monotonic())
        self._watching = threading.Thread(target=self._watch, name="attendance", daemon=True)
        self._watching.start()
        threading.Thread(target=self._be_there, name="signs of life", daemon=True).start()

    def _await_welcome(self) -> None:
        """Wait until all workers are connected; if that fails, no stream stays open."""
        try:
            if self._attendance.next().kind is not FrameKind.WELCOME:
                raise BadFrame(f"the hub on node {self._hub} did not send welcome")
        except BaseException:
            for stream in (*self._streams.values(), self._attendance):
                stream.close()
            raise

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Wait until the receiver is ready for the message, or has given credit for it, and send it."""
        stream, bytes_ = self._streams[channel.number], message.numpy().data
        if sized:
            _await_grant(stream, channel, len(bytes_))
        longest = PIECE_BYTES if background else LONGEST_PART
        parts = data_frames(channel.number, bytes_, relayed=self._hub not in channel[1:], longest=longest)
        with self._gate.message(background=background) as await_turn:
            for part in parts:
                if not sized:
                    self._credit(channel).take(len(part) - HEADER_BYTES)
                await_turn()
                stream.put(part)
                if background:
                    stream.flush()
            stream.flush()

    def _credit(self, channel: Channel) -> SendCredit:
        if channel.number not in self._credits:
            self._credits[channel.number] = SendCredit(channel, self._streams[channel.number])
        return self._credits[channel.number]

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Allocate memory for the message, grant it, and wait for it; one of unknown size is allocated as it begins."""
        stream = self._streams[channel.number]
        if size_bytes is None:
            return self._receive_unsized(channel, stream)
        message = _PartialMessage(channel, size_bytes)
        stream.put(grant(channel.number, size_bytes))
        while not message.whole:
            message.add(self._next(stream))
        return message.content

    def _next(self, stream: Stream) -> Frame:
        """The next frame of a message, which also is a sign of life of the hub."""
        frame = stream.next()
        self._liveness.heard([self._hub], time.monotonic())
        return frame

    def _receive_unsized(self, channel: Channel, stream: Stream) -> Tensor:
        window = self._windows.setdefault(channel.number, ReceiveWindow(channel))
        message = None
        while message is None or not message.whole:
            if more_bytes := window.renewal_bytes():
                stream.put(credit(channel.number, more_bytes))
            part = self._next(stream)
            window.take(len(part.payload))
            if message is None:
                refuse_length(part.size, channel.sender)
                message = _PartialMessage(channel, part.size)
            message.add(part)
        return message.content

    def close(self) -> None:
        """Say farewell, and close all streams."""
        self._state.closed = True
        self._ended.set()
        self._attendance.leave()
        self._watching.join(_FAREWELL_S)
        for stream in (*self._streams.values(), self._attendance):
            stream.close()
        self._connections.close()

    def _watch(self) -> None:
        """Wait for the end of the control stream; then wake all that wait for messages."""
        try:
            while (said := self._attendance.next()).kind is FrameKind.ALIVE:
                self._liveness.heard([self._hub], time.monotonic())
            self._break(BadFrame(f"the hub on node {self._hub} sent an unexpected {said.kind.name.lower()}"))
        except RunError as broken:
            self._break(broken)
        except TransportClosed:
            self._cancel()

    def _be_there(self) -> None:
        """Send heartbeats to the hub, until it is silent or the transport is closed."""
        while not self._ended.wait(ALIVE_EVERY_S):
            if self._liveness.first_silent(time.monotonic()) is not None:
                self._break(peer_silent(self._hub, (self._state.node, self._hub)))
                return
            try:
                self._attendance.put(alive())
            except (RunError, TransportClosed):
                return  # ``_watch`` gets the reason

    def _break(self, why: RunError) -> None:
        """Wake all that wait, with an error; the first reason counts."""
        self._state.broken = self._state.broken or why
        self._ended.set()
        self._cancel()

    def _cancel(self) -> None:
        for stream in self._streams.values():
            stream.cancel()


def _await_grant(stream: Stream, channel: Channel, size_bytes: int) -> None:
    """Wait until the receiver is ready for a message.

    Raises:
        BadFrame: it expects another one.
    """
    room = stream.next()
    if room.kind is not FrameKind.GRANT or room.size != size_bytes:
        raise BadFrame(f"node {channel.receiver} expects {room.size} bytes; the message has {size_bytes}")


class _PartialMessage:
    """A message of which some parts have arrived; an empty message has one part, too."""

    def __init__(self, channel: Channel, size_bytes: int) -> None:
        self.content = torch.empty(size_bytes, dtype=torch.uint8)
        self.whole = False
        self._channel, self._room, self._filled = channel, self.content.numpy().data, 0

    def add(self, part: Frame) -> None:
        """Add the next part.

        Raises:
            BadFrame: it is not the next part.
        """
        size_bytes, filled = len(self._room), self._filled
        following = (FrameKind.DATA, self._channel.number, size_bytes, filled)
        if (part.kind, part.channel, part.size, part.offset) != following:
            found = f"{part.kind.name.lower()} of channel {part.channel}, byte {part.offset} of {part.size}"
            expected = f"data of channel {self._channel.number}, byte {filled} of {size_bytes}"
            raise BadFrame(f"node {self._channel.sender} sent {found}; expected {expected}")
        self._filled += len(part.payload)
        self._room[filled : self._filled] = part.payload
        self.whole = self._filled == size_bytes
