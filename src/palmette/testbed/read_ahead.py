"""Takes messages off the wire as they come, so that none waits until the one before it is through the emulated link.

On a link, messages follow one another: each arrives a latency after it has left. An emulated link holds a message back
at its receiver; if nobody took the next one meanwhile, its sender would wait, and latencies would add up.

    sent       ├1┼2┼3┤
    released    ─ latency ─▶ ├1┼2┼3┤

Only samples are sent before the message that precedes them has been used, and they are unsized: messages of known size
wait for nobody, and are received when they are asked for. How many samples can wait here is limited by their sender,
which is only so many iterations ahead as the plan says.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

from palmette.runtime.program import Channel
from palmette.runtime.transports.base import Arrival, Transport, TransportClosed


class ReadAhead:
    """The receiving side of a transport, with a thread for each channel of unsized messages."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._readers: dict[int, _ChannelReader] = {}

    def receive(self, channel: Channel, size_bytes: int | None) -> Arrival:
        """The channel's next message, and when it came off the wire.

        Raises:
            TransportClosed: it was closed meanwhile.
            RunError: as the transport raises it.
        """
        if size_bytes is not None:
            return Arrival(self._inner.receive(channel, size_bytes), time.monotonic())
        if channel.number not in self._readers:
            self._readers[channel.number] = _ChannelReader(self._inner, channel)
        return self._readers[channel.number].next()

    def close(self) -> None:
        """Close the transport, and wake all that wait for a message."""
        self._inner.close()
        for reader in list(self._readers.values()):
            reader.close()


class _ChannelReader:
    """Receives all messages of a channel; the last result is the error that ended it."""

    def __init__(self, inner: Transport, channel: Channel) -> None:
        self._inner, self._channel = inner, channel
        self._found: SimpleQueue[Arrival | BaseException] = SimpleQueue()
        threading.Thread(target=self._read, name=f"channel {channel.number}", daemon=True).start()

    def next(self) -> Arrival:
        found = self._found.get()
        if isinstance(found, BaseException):
            self._found.put(found)  # for whoever asks again
            raise found
        return found

    def close(self) -> None:
        """Wake whoever waits; the thread ends when the transport lets go of it, or with the process."""
        self._found.put(TransportClosed())

    def _read(self) -> None:
        try:
            while True:
                self._found.put(Arrival(self._inner.receive(self._channel, None), time.monotonic()))
        except BaseException as error:  # noqa: BLE001  (raised where the message is waited for)
            self._found.put(error)
