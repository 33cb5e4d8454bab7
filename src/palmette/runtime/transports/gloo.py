"""The transport on a network that you trust: torch.distributed with gloo.

Workers find each other through a file, or a store on the network, that all can reach. Receives are posted as soon as a
channel's thread waits for its next message, so before the sender sends: a late receive would make both directions of a
connection take turns. A single node needs no connection.
Messages on one connection are sent one after another; channels with a connection of their own share the network as
transfers do on the event clock. A message whose size the receiver does not know goes in pieces, after its length; the
receives of all pieces are posted at once, so that none waits for the one before it to be acknowledged.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.distributed import FileStore, ProcessGroupGloo, Store

from palmette.errors import one_line
from palmette.runtime.program import Channel
from palmette.runtime.transports.base import ConnectionLost, Transport
from palmette.runtime.transports.lengths import LENGTH_BYTES, length_of, read_length
from palmette.runtime.transports.marking import background_connections
from palmette.runtime.transports.memory import MemoryTransport
from palmette.runtime.transports.store import NetworkStore, StoreAddress
from palmette.runtime.transports.yielding import YIELD_AT_MOST_S, SendGate, pieces_of

# The engine notices silence long before; gloo's own timeout must not end a slow transfer.
_PATIENCE = dt.timedelta(days=7)


@dataclass(frozen=True)
class FileEndpoint:
    """An endpoint for workers that share a file; ``address`` is the node's own.

    ``channels`` are those with a connection of their own; the others share one per pair of nodes, or that of another
    channel, as ``leading`` says, where their messages leave behind its own. The connections of those in the
    ``background`` are marked.
    """

    store: Path
    nodes: Sequence[str]
    address: str = "127.0.0.1"
    channels: Sequence[Channel] = ()
    background: Collection[int] = ()
    leading: Mapping[int, int] = field(default_factory=dict)

    def connect(self, node: str) -> Transport:
        """Connect this process, as ``node``, to all others; returns when all are connected."""
        if len(self.nodes) == 1:
            return MemoryTransport()
        device = ProcessGroupGloo.create_device(hostname=self.address)
        shared = _Group(FileStore(str(self.store), len(self.nodes)), self.nodes, node, device)
        # All nodes connect them in the same order, to avoid a deadlock.
        own = {
            channel.number: self._own(channel, node, device)
            for channel in sorted(self.channels)
            if node in channel[1:] and channel.number not in self.leading
        }
        following = {number: own[first] for number, first in self.leading.items() if first in own}
        return GlooTransport(shared, own | following)

    def _own(self, channel: Channel, node: str, device: Any) -> _Group:
        store = FileStore(str(self.store.with_name(f"channel-{channel.number}")), 2)
        with background_connections() if channel.number in self.background else nullcontext():
            return _Group(store, channel[1:], node, device)


@dataclass(frozen=True)
class StoreEndpoint:
    """An endpoint for workers that share no files but a store on the network; ``address`` is the node's own."""

    at: StoreAddress
    nodes: Sequence[str]
    address: str

    def connect(self, node: str) -> Transport:
        """Connect this process, as ``node``, to all others; returns when all are connected."""
        if len(self.nodes) == 1:
            return MemoryTransport()
        device = ProcessGroupGloo.create_device(hostname=self.address)
        return GlooTransport(_Group(NetworkStore(self.at), self.nodes, node, device), {})


class _Group:
    """Nodes that are all connected to each other."""

    def __init__(self, store: Store, nodes: Sequence[str], node: str, device: Any) -> None:
        options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # noqa: SLF001  (to choose the address)
        options._devices, options._timeout = [device], _PATIENCE  # noqa: SLF001
        options._threads = 1  # noqa: SLF001  (only collectives use them)
        self.ranks = {name: rank for rank, name in enumerate(nodes)}
        self.group: Any = ProcessGroupGloo(store, self.ranks[node], len(nodes), options)


class GlooTransport:
    """Messages over gloo's connections; the channel's number is the tag."""

    def __init__(self, shared: _Group, own: Mapping[int, _Group]) -> None:
        self._shared, self._own = shared, own
        self._gate = SendGate(YIELD_AT_MOST_S)

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Send the bytes and wait until they have left."""
        parts = (message,) if sized else (length_of(message), *pieces_of(message))
        over = self._own.get(channel.number, self._shared)
        with self._gate.message(background=background) as await_turn, _naming(channel.receiver):
            for part in parts:
                await_turn()
                over.group.send([part], over.ranks[channel.receiver], channel.number).wait()

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Post a receive and wait for the bytes."""
        if size_bytes is not None:
            message = torch.empty(size_bytes, dtype=torch.uint8)
            self._fill(channel, [message])
            return message
        length = torch.empty(LENGTH_BYTES, dtype=torch.uint8)
        self._fill(channel, [length])
        message = torch.empty(read_length(length, channel.sender), dtype=torch.uint8)
        self._fill(channel, pieces_of(message))
        return message

    def _fill(self, channel: Channel, parts: Sequence[Tensor]) -> None:
        """Post receives into all parts, and wait for them."""
        over = self._own.get(channel.number, self._shared)
        with _naming(channel.sender):
            for posted in [over.group.recv([part], over.ranks[channel.sender], channel.number) for part in parts]:
                posted.wait()

    def close(self) -> None:
        """Nothing to do: connections close when the process ends."""


@contextmanager
def _naming(peer: str) -> Iterator[None]:
    """Name the node that was lost; gloo names its address."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionLost(f"lost the connection to node {peer}: {one_line(str(error))}", peer) from None
