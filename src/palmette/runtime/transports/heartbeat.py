"""Notices a peer that has gone silent, over the same network as the messages.

A cut cable leaves both processes well, and TCP waits for minutes. So nodes that exchange messages also send each other
a small datagram twice a second; one that has not been heard from for some seconds is lost, and whoever waits in the
transport is told.

    Presence           one thread, one UDP socket: sends, listens, counts the seconds
    WatchedTransport   any transport, whose calls end with an error when a peer is lost
    WatchedPlace       joins another place and watches the peers there; nodes find one another through a board
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
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Place, Silent, Transport
from palmette.runtime.transports.liveness import Silence

EVERY_S = 0.5
SILENCE_S = 4.0
_LOOK_EVERY_S = 0.25
# Who has been asleep this long (Ctrl-Z, an overloaded machine) may not blame others for silence.
ASLEEP_S = EVERY_S + 1.0
TOKEN_BYTES = 8
# "Low delay": a network that has a fast lane may use it for so few bytes.
PING_TOS = 0x10
_PING = struct.Struct(f"<{TOKEN_BYTES}sI")
Address = tuple[str, int]


def sign(token: bytes, number: int) -> bytes:
    """A sign of life of the node with this number."""
    return _PING.pack(token, number)


def signs(line: socket.socket, token: bytes) -> Iterator[int]:
    """The numbers of those whose signs with this token have arrived; all other datagrams are passed over."""
    while True:
        try:
            datagram = line.recv(2 * _PING.size)
        except OSError:
            return  # nothing more there
        if len(datagram) == _PING.size:
            found, number = _PING.unpack(datagram)
            if secrets.compare_digest(found, token):
                yield number


class Presence:
    """Tells peers that this node is there, and calls ``lost`` with a peer's name when it has long been silent."""

    def __init__(self, listening: socket.socket, token: bytes, number: int, peers: Mapping[int, tuple[str, Address]]):
        self._socket, self._token, self._ping = listening, token, sign(token, number)
        self._peers = peers
        self._closed = False

    def watch(self, lost: Callable[[str], None]) -> None:
        """Begin, in a thread of its own."""
        threading.Thread(target=self._watch, args=(lost,), name="presence", daemon=True).start()

    def close(self) -> None:
        """Fall silent, soon."""
        self._closed = True

    def _watch(self, lost: Callable[[str], None]) -> None:
        with self._socket:
            peer = self._first_lost()
        if peer is not None:
            lost(peer)

    def _first_lost(self) -> str | None:
        """Send and listen until a peer is lost, which is named, or until closed."""
        silence, due_s = Silence(SILENCE_S, ASLEEP_S), time.monotonic()
        silence.heard((name for name, _ in self._peers.values()), due_s)
        while not self._closed:
            select.select([self._socket], [], [], min(_LOOK_EVERY_S, max(0.0, due_s - time.monotonic())))
            now = time.monotonic()
            silence.heard(self._heard(), now)
            peer = silence.first(now)
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
                continue  # no way to it: it will hear nothing, and say so

    def _heard(self) -> list[str]:
        """The peers whose datagrams have arrived."""
        return [self._peers[number][0] for number in signs(self._socket, self._token) if number in self._peers]


class WatchedTransport:
    """A transport that gives up on a peer that has gone silent.

    A call may wait inside the other transport forever; so it is made in a thread of its channel's own, and the caller
    waits for whichever comes first: its end or the loss of a peer.
    """

    def __init__(self, inner: Transport, presence: Presence) -> None:
        self._inner, self._presence = inner, presence
        self._lanes: dict[int, _Lane] = {}
        self._lock = threading.Lock()
        self._lost: str | None = None
        presence.watch(self._give_up)

    def send(self, channel: Channel, message: Tensor) -> None:
        """Send the bytes.

        Raises:
            Silent: a peer has gone silent.
        """
        self._lane(channel).carry(lambda: self._inner.send(channel, message))

    def receive(self, channel: Channel, size_bytes: int) -> Tensor:
        """Wait for the bytes.

        Raises:
            Silent: a peer has gone silent.
        """
        message: Tensor = self._lane(channel).carry(lambda: self._inner.receive(channel, size_bytes))
        return message

    def close(self) -> None:
        """Fall silent and close what is underneath."""
        self._presence.close()
        for lane in self._lanes.values():
            lane.calls.put(None)
        self._inner.close()

    def _lane(self, channel: Channel) -> _Lane:
        with self._lock:
            if self._lost is not None:
                raise silent(self._lost)
            if channel.number not in self._lanes:
                self._lanes[channel.number] = _Lane()
            return self._lanes[channel.number]

    def _give_up(self, peer: str) -> None:
        with self._lock:
            self._lost = peer
            for lane in self._lanes.values():
                lane.results.put(silent(peer))


class _Lane:
    """A thread that makes the calls of one channel."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.results: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def carry(self, made: Callable[[], Any]) -> Any:
        """What the call gives, or the error that comes first."""
        self.calls.put(made)
        result = self.results.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _run(self) -> None:
        while (made := self.calls.get()) is not None:
            try:
                self.results.put(made())
            except BaseException as error:  # noqa: BLE001  (it belongs to whoever waits for the call)
                self.results.put(error)


def silent(peer: str, link: tuple[str, str] | None = None) -> Silent:
    """What it is to whoever waits that a peer, or whoever is at the ends of ``link``, has gone silent."""
    return Silent(f"node {peer} has not been heard from for {SILENCE_S:g} s (its link may be cut)", peer, link)


class Board(Protocol):
    """Where nodes write down for the others how they can be reached."""

    def write(self, name: str, text: str) -> None:
        """Let others read a text under a name."""
        ...

    def read(self, name: str) -> str:
        """What somebody has written."""
        ...


@dataclass(frozen=True)
class FolderBoard:
    """A folder that all nodes can reach."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        draft = self.folder / f"{name}.new"
        draft.write_text(text, encoding="ascii")
        draft.replace(self.folder / name)

    def read(self, name: str) -> str:
        """Read the file."""
        return (self.folder / name).read_text(encoding="ascii")


@dataclass(frozen=True)
class WatchedPlace:
    """Another place, where each node watches those that it exchanges messages with.

    Nodes write down on the ``board`` where they listen. ``token`` tells this run's datagrams from any others.
    """

    place: Place
    board: Board
    nodes: Sequence[str]
    peers: Sequence[str]
    token: bytes
    address: str = "127.0.0.1"

    def join(self, node: str) -> Transport:
        """Connect as ``node``, and watch the others."""
        if not self.peers:
            return self.place.join(node)
        listening = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET, socket.SOCK_DGRAM)
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, PING_TOS)
        listening.setblocking(False)
        listening.bind((self.address, 0))
        host, port = listening.getsockname()[:2]
        self.board.write(self._name(node), f"{host} {port}")
        inner = self.place.join(node)  # returns when all are there, and so have written
        peers = {self.nodes.index(peer): (peer, self._read(peer)) for peer in self.peers}
        return WatchedTransport(inner, Presence(listening, self.token, self.nodes.index(node), peers))

    def _name(self, node: str) -> str:
        return f"presence-{self.nodes.index(node)}"

    def _read(self, node: str) -> Address:
        host, port = self.board.read(self._name(node)).split()
        return host, int(port)
