"""A worker's connections to the hub: all to one port, and dialled when they are first used.

Heartbeats wait for no message where they have a connection of their own. Background traffic has one, too, since the
network sees connections and no streams: its packets are marked, on both ways, and give way to all others wherever
classes of traffic are known (``marking``). A worker without any does not dial it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from palmette.runtime.transports.tls.hub import BACKGROUND
from palmette.runtime.transports.tls.streams import LocalStream, NetworkStream, Stream, StreamState


class Connections(Protocol):
    """Where the streams of a worker are opened."""

    def opened(self, method: str, first: bytes, state: StreamState, *, background: bool = False) -> Stream:
        """A stream for a method, with its first frame."""
        ...

    def close(self) -> None:
        """Close what was dialled for these streams alone."""
        ...


@dataclass(frozen=True)
class NetworkConnections:
    """gRPC channels for heartbeats, messages, and background traffic; ``own`` are closed with the transport."""

    attending: Any
    carrying: Any
    background: Any
    own: tuple[Any, ...]

    def opened(self, method: str, first: bytes, state: StreamState, *, background: bool = False) -> Stream:
        """A stream on the connection for its kind."""
        if background:
            return NetworkStream(self.background, method, first, state, (BACKGROUND,))
        return NetworkStream(self.attending if method == "Attend" else self.carrying, method, first, state)

    def close(self) -> None:
        """Close the channels."""
        for each in self.own:
            each.close()


@dataclass(frozen=True)
class LocalConnections:
    """Local sockets to the hub on this machine, one for each stream, over which no traffic has to give way."""

    path: Path

    def opened(self, method: str, first: bytes, state: StreamState, *, background: bool = False) -> Stream:
        """A stream over a socket of its own."""
        return LocalStream(self.path, method, first, state)

    def close(self) -> None:
        """Nothing to do: each stream closes its socket."""
