"""How bytes get from one worker to another: one interface for real networks, emulated ones and tests."""

from __future__ import annotations

import queue
from typing import Protocol

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
        """Let go of all connections."""
        ...


class Lost(RunError):
    """The connection to another worker, ``peer``, broke; ``link`` is between whom, if not between the two."""

    def __init__(self, message: str, peer: str, link: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.peer, self.link = peer, link

    def __reduce__(self) -> tuple[type[Lost], tuple[str, str, tuple[str, str] | None]]:
        return type(self), (str(self), self.peer, self.link)


class Silent(Lost):
    """Nothing has been heard of another worker for long, though the connection did not break."""


class Closed(Exception):
    """Nothing will arrive any more: the transport was closed."""


class MemoryTransport:
    """Messages between threads of one process; one object serves all nodes."""

    def __init__(self) -> None:
        self._queues: dict[int, queue.SimpleQueue[Tensor | None]] = {}
        self._closed = False

    def send(self, channel: Channel, message: Tensor) -> None:
        """Hand the bytes over."""
        self._queue(channel).put(message.clone())

    def receive(self, channel: Channel, size_bytes: int) -> Tensor:
        """Wait for the bytes.

        Raises:
            Closed: the transport was closed meanwhile.
        """
        waiting = self._queue(channel)
        message = None if self._closed else waiting.get()
        if message is None:
            raise Closed
        return message

    def close(self) -> None:
        """Wake all that wait for a message."""
        self._closed = True
        for waiting in list(self._queues.values()):
            waiting.put(None)

    def _queue(self, channel: Channel) -> queue.SimpleQueue[Tensor | None]:
        return self._queues.setdefault(channel.number, queue.SimpleQueue())
