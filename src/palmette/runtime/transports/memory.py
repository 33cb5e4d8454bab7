"""Messages between threads of one process."""

from __future__ import annotations

import queue
from dataclasses import dataclass

from torch import Tensor

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import TransportClosed


class MemoryTransport:
    """Messages between threads of one process; one object serves all nodes."""

    def __init__(self) -> None:
        self._queues: dict[int, queue.SimpleQueue[Tensor | None]] = {}
        self._closed = False

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        """Queue a copy of the bytes."""
        self._queue(channel).put(message.clone())

    def receive(self, channel: Channel, size_bytes: int | None) -> Tensor:
        """Wait for the bytes.

        Raises:
            TransportClosed: the transport was closed meanwhile.
        """
        waiting = self._queue(channel)
        message = None if self._closed else waiting.get()
        if message is None:
            raise TransportClosed
        return message

    def close(self) -> None:
        """Wake all threads that wait for a message."""
        self._closed = True
        for waiting in list(self._queues.values()):
            waiting.put(None)

    def _queue(self, channel: Channel) -> queue.SimpleQueue[Tensor | None]:
        return self._queues.setdefault(channel.number, queue.SimpleQueue())


@dataclass(frozen=True)
class MemoryEndpoint:
    """An endpoint for threads, which share one transport."""

    transport: MemoryTransport

    def connect(self, node: str) -> MemoryTransport:
        """The shared transport."""
        return self.transport
