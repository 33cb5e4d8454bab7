"""Notices silent peers by heartbeats over the same network as the messages.

A cut cable leaves both processes running, and TCP waits for minutes. So nodes that exchange messages also send each
other a small datagram twice a second; one that has been silent for some seconds is lost, and calls that wait in the
transport fail.

    Heartbeats          one thread, one UDP socket: sends and receives heartbeats, and times the peers' silence
    HeartbeatTransport  any transport, whose calls end with an error when a peer is lost
    HeartbeatEndpoint   any endpoint, whose peers are watched; nodes find each other through an address book
"""

from __future__ import annotations

import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Endpoint, PeerSilent, Transport
from palmette.runtime.transports.liveness import Liveness

EVERY_S = 0.5
SILENCE_S = 4.0
_LOOK_EVERY_S = 0.25
# A process that was suspended this long (Ctrl-Z, an overloaded machine) must not count its peers as silent.
ASLEEP_S = EVERY_S + 1.0
TOKEN_BYTES = 8
# "Low delay": a network with priorities may give one to so few bytes.
PING_TOS = 0x10
_PING = struct.Struct(f"<{TOKEN_BYTES}sI")
Address = tuple[str, int]


def heartbeat(token: bytes, number: int) -> bytes:
    """The heartbeat of the node with this number."""
    return _PING.pack(token, number)


def received_heartbeats(line: socket.socket, token: bytes) -> Iterator[int]:
    """The numbers of nodes whose heartbeats with this token have arrived; other datagrams are ignored."""
    while True:
        try:
            datagram = line.recv(2 * _PING.size)
        except OSError:
            return  # nothing more to read
        if len(datagram) == _PING.size:
            found, number = _PING.unpack(datagram)
            if secrets.compare_digest(found, token):
                yield number


class Heartbeats:
    """Sends heartbeats to peers, and calls ``lost`` with the name of one that has been silent too long."""

    def __init__(self, listening: socket.socket, token: bytes, number: int, peers: Mapping[int, tuple[str, Address]]):
        self._socket, self._token, self._ping = listening, token, heartbeat(token, number)
        self._peers = peers
        self._closed = False

    def watch(self, lost: Callable[[str], None]) -> None:
        """Start, in a separate thread."""
        threading.Thread(target=self._watch, args=(lost,), name="heartbeats", daemon=True).start()

    def close(self) -> None:
        """Stop soon."""
        self._closed = True

    def _watch(self, lost: Callable[[str], None]) -> None:
        with self._socket:
            peer = self._first_lost()
        if peer is not None:
            lost(peer)

    def _first_lost(self) -> str | None:
        """Send and receive until a peer is lost, which is returned, or until closed."""
        liveness, due_s = Liveness(SILENCE_S, ASLEEP_S), time.monotonic()
        liveness.heard((name for name, _ in self._peers.values()), due_s)
        while not self._closed:
            select.select([self._socket], [], [], min(_LOOK_EVERY_S, max(0.0, due_s - time.monotonic())))
            now = time.monotonic()
            liveness.heard(self._heard(), now)
            peer = liveness.first_silent(now)
            if peer is not None:
                return peer
            if now >= due_s:
                due_s = now + EVERY_S
                self._tell()
        return None

    def _tell(self) -> None:
        for _, address in self._peers.values():
            try:
                self._socket.sendto(self._ping, address)
            except OSError:
                continue  # unreachable: it will notice the silence itself

    def _heard(self) -> list[str]:
        """The peers whose heartbeats have arrived."""
        return [
            self._peers[number][0] for number in received_heartbeats(self._socket, self._token) if number in self._peers
        ]


class HeartbeatTransport:
    """A transport whose calls fail when a peer has gone silent.

    A call may block in the inner transport forever; so every channel has a thread that makes its calls, and the caller
    waits for whichever comes first: the result or the loss of a peer.
    """

    def __init__(self, inner: Transport, heartbeats: Heartbeats) -> None:
        self._inner, self._heartbeats = inner, heartbeats
        self._lanes: dict[int, _Lane] = {}
        self._lock = threading.Lock()
        self._lost: str | None = None
        heartbeats.watch(self._give_up)

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Send the bytes.

        Raises:
            PeerSilent: a peer has gone silent.
        """
        sending = partial(self._inner.send, channel, message, sized=sized, background=background)
        self._lane(channel).carry(sending)

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Wait for the bytes.

        Raises:
            PeerSilent: a peer has gone silent.
        """
        message: Tensor = self._lane(channel).carry(lambda: self._inner.receive(channel, size_bytes))
        return message

    def close(self) -> None:
        """Stop the heartbeats and close the inner transport."""
        self._heartbeats.close()
        for lane in self._lanes.values():
            lane.calls.put(None)
        self._inner.close()

    def _lane(self, channel: Channel) -> _Lane:
        with self._lock:
            if self._lost is not None:
                raise peer_silent(self._lost)
            if channel.number not in self._lanes:
                self._lanes[channel.number] = _Lane()
            return self._lanes[channel.number]

    def _give_up(self, peer: str) -> None:
        with self._lock:
            self._lost = peer
            for lane in self._lanes.values():
                lane.results.put(peer_silent(peer))


class _Lane:
    """A thread that makes the calls of one channel."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.results: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def carry(self, made: Callable[[], Any]) -> Any:
        """Make a call; returns its result, or raises the error that comes first."""
        self.calls.put(made)
        result = self.results.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _run(self) -> None:
        while (made := self.calls.get()) is not None:
            try:
                self.results.put(made())
            except BaseException as error:  # noqa: BLE001  (raised where the call is waited for)
                self.results.put(error)


def peer_silent(peer: str, link: tuple[str, str] | None = None) -> PeerSilent:
    """The error for a peer that has gone silent; ``link`` as in ``Lost``."""
    return PeerSilent(f"node {peer} has not been heard from for {SILENCE_S:g} s (its link may be cut)", peer, link)


class AddressBook(Protocol):
    """An address book, where nodes publish how they can be reached."""

    def write(self, name: str, text: str) -> None:
        """Publish a text under a name."""
        ...

    def read(self, name: str) -> str:
        """The text under a name."""
        ...


@dataclass(frozen=True)
class FolderAddressBook:
    """An address book in a folder that all nodes can reach."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        draft = self.folder / f"{name}.new"
        draft.write_text(text, encoding="ascii")
        draft.replace(self.folder / name)

    def read(self, name: str) -> str:
        """Read the file."""
        return (self.folder / name).read_text(encoding="ascii")


@dataclass(frozen=True)
class HeartbeatEndpoint:
    """Any endpoint, where each node also watches the peers that it exchanges messages with.

    Nodes publish in ``board`` where they listen. ``token`` distinguishes this run's datagrams from all others.
    """

    endpoint: Endpoint
    board: AddressBook
    nodes: Sequence[str]
    peers: Sequence[str]
    token: bytes
    address: str = "127.0.0.1"

    def connect(self, node: str) -> Transport:
        """Connect as ``node``, and watch its peers."""
        if not self.peers:
            return self.endpoint.connect(node)
        listening = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET, socket.SOCK_DGRAM)
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, PING_TOS)
        listening.setblocking(False)
        listening.bind((self.address, 0))
        host, port = listening.getsockname()[:2]
        self.board.write(self._name(node), f"{host} {port}")
        inner = self.endpoint.connect(node)  # returns when all are connected, and so have written
        peers = {self.nodes.index(peer): (peer, self._read(peer)) for peer in self.peers}
        return HeartbeatTransport(inner, Heartbeats(listening, self.token, self.nodes.index(node), peers))

    def _name(self, node: str) -> str:
        return f"heartbeat-{self.nodes.index(node)}"

    def _read(self, node: str) -> Address:
        host, port = self.board.read(self._name(node)).split()
        return host, int(port)
