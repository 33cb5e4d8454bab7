"""Credit for messages whose size the receiver does not know: how many bytes may be sent before it asks for them.

The receiver opens a window when it first waits for a message, and opens it again whenever half of it is used and it
waits for more. So a sender that stays within the window never waits for the receiver, however long the way, and no
more than the window is ever under way to a receiver that does not take it.

    receiver   credit ──▶            credit ──▶
    sender            ▶ 1 ▶ 2 ▶ 3 ▶ 4 ▶ 5 ▶ …
"""

from __future__ import annotations

from palmette.runtime.program import Channel
from palmette.runtime.transports.tls.frames import LONGEST_PART, BadFrame, FrameKind
from palmette.runtime.transports.tls.streams import Stream

# Full use of 100 Mbit/s with a round trip of 80 ms; half of it has to hold the longest part of a message.
WINDOW_BYTES = 4 * LONGEST_PART


class SendCredit:
    """The sender's end: bytes that it may still send."""

    def __init__(self, channel: Channel, stream: Stream) -> None:
        self._channel, self._stream, self._left_bytes = channel, stream, 0

    def take(self, size_bytes: int) -> None:
        """Use credit; waits for more if there is not enough.

        Raises:
            BadFrame: the receiver sends something else.
        """
        while self._left_bytes < size_bytes:
            frame = self._stream.next()
            if frame.kind is not FrameKind.CREDIT:
                found = frame.kind.name.lower()
                raise BadFrame(f"node {self._channel.receiver} sent a frame of kind {found}; expected credit")
            self._left_bytes += frame.size
        self._left_bytes -= size_bytes


class ReceiveWindow:
    """The receiver's end: bytes that it has allowed and that have not arrived."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._open_bytes = channel, 0

    def renewal_bytes(self) -> int:
        """The credit to send now, which opens the window again; 0 while more than half of it is open."""
        if self._open_bytes > WINDOW_BYTES // 2:
            return 0
        more = WINDOW_BYTES - self._open_bytes
        self._open_bytes = WINDOW_BYTES
        return more

    def take(self, size_bytes: int) -> None:
        """Count bytes that have arrived.

        Raises:
            BadFrame: they are more than were allowed.
        """
        if size_bytes > self._open_bytes:
            allowed = f"{self._open_bytes} more were allowed"
            raise BadFrame(f"node {self._channel.sender} sent {size_bytes} bytes where {allowed}")
        self._open_bytes -= size_bytes
