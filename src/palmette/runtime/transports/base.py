"""How bytes get from one worker to another: one interface for real networks, emulated ones and tests."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from palmette.errors import RunError
from palmette.runtime.program import Channel


class Transport(Protocol):
    """Carries messages over channels; each channel delivers in the order of sending.

    Calls of different channels come from different threads.
    """

    def send(self, channel: Channel, message: Tensor) -> None:
        """Send raw bytes; returns when they have left and the buffer may be used again.

        Raises:
            Lost: the receiver is gone.
        """
        ...

    def receive(self, channel: Channel, size_bytes: int) -> Tensor:
        """Wait for the channel's next message, which has a known size.

        Raises:
            Lost: the sender is gone.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class Arrival(NamedTuple):
    """A message, and the moment (``time.monotonic``) at which it was due to arrive."""

    message: Tensor
    due_s: float


@runtime_checkable
class TimedTransport(Protocol):
    """A transport that knows when messages are due, however late this machine schedules its threads."""

    def send_due(self, channel: Channel, message: Tensor, due_s: float) -> float:
        """Send a message that was due to leave at ``due_s``; returns when it is due to arrive."""
        ...

    def receive_due(self, channel: Channel, size_bytes: int) -> Arrival:
        """Wait for the channel's next message, and for the moment at which it is due."""
        ...


class OnArrival:
    """Any transport as a timed one: messages are due when they arrive."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def send_due(self, channel: Channel, message: Tensor, due_s: float) -> float:
        """Send at once."""
        self._inner.send(channel, message)
        return time.monotonic()

    def receive_due(self, channel: Channel, size_bytes: int) -> Arrival:
        """Wait for the message."""
        return Arrival(self._inner.receive(channel, size_bytes), time.monotonic())


def timed(transport: Transport) -> TimedTransport:
    """The transport as a timed one: itself, if it knows when messages are due."""
    return transport if isinstance(transport, TimedTransport) else OnArrival(transport)


class ConnectionLost(RunError):
    """The connection to another worker, ``peer``, broke; ``link`` has its ends, if not this worker and ``peer``."""

    def __init__(self, message: str, peer: str, link: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.peer, self.link = peer, link

    def __reduce__(self) -> tuple[type[ConnectionLost], tuple[str, str, tuple[str, str] | None]]:
        return type(self), (str(self), self.peer, self.link)


class PeerSilent(ConnectionLost):
    """Another worker has been silent too long, though the connection did not break."""


class TransportClosed(Exception):
    """Nothing will arrive any more: the transport was closed."""


class Endpoint(Protocol):
    """The endpoint through which a worker connects to the others."""

    def connect(self, node: str) -> Transport:
        """Connect as ``node``; returns when all are connected."""
        ...
