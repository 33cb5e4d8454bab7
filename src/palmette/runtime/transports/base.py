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

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Send raw bytes; returns when they have left and the buffer may be used again.

        ``sized``: the receiver knows how many. One in the ``background`` gives way to those that are not, as far as the
        transport can (``yielding``); it has to be unsized to do so piece by piece.

        Raises:
            ConnectionLost: the receiver is gone.
        """
        ...

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Wait for the channel's next message, which has this size; None: as large as it was sent, unsized.

        Raises:
            ConnectionLost: the sender is gone.
            BadLength: an unsized message is announced with a length that none can have.
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

    def send_due(
        self,
        channel: Channel,
        message: Tensor,
        due_s: float,
        *,
        sized: bool = True,
        background: bool = False,
        until_left: bool = False,
    ) -> float:
        """Send a message that was due to leave at ``due_s``; returns when it is due to arrive.

        Not before that moment; or, ``until_left`` or in the background, as soon as it has left, so that another may
        follow it.
        """
        ...

    def receive_due(self, channel: Channel, size_bytes: int | None) -> Arrival:
        """Wait for the channel's next message, and for the moment at which it is due."""
        ...


class OnArrival:
    """Any transport as a timed one: messages are due when they arrive."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def send_due(
        self,
        channel: Channel,
        message: Tensor,
        due_s: float,
        *,
        sized: bool = True,
        background: bool = False,
        until_left: bool = False,
    ) -> float:
        """Send at once."""
        self._inner.send(channel, message, sized=sized, background=background)
        return time.monotonic()

    def receive_due(self, channel: Channel, size_bytes: int | None) -> Arrival:
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
