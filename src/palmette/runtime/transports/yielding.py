"""Background messages give way to foreground ones, on links that are not ours to schedule.

The event clock and emulated links have two classes of traffic. A real network does not know them, so the sender yields:
a background message goes in pieces, and before each of them it waits while a foreground message of the same worker is
being sent, to whichever node.

    foreground          ███████████████
    background  ██ ██ ██               ██ ██ ██

A foreground message so waits for a piece at most, and for what has been buffered before it: by the kernel and, over
tls, by gRPC and the hub. What other workers send over the same link does not count; they share it as the network lets
them (but see ``marking``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Long enough to cost little (4 MB over loopback: 2.8 ms, 1.8 ms in one piece), short enough for slow links.
PIECE_BYTES = 64 * 1024
# A foreground message is being sent from when it is ready, though its receiver may not be, and may be waiting for the
# background message itself.
YIELD_AT_MOST_S = 5.0


def pieces_of(message: Tensor) -> tuple[Tensor, ...]:
    """A message cut into pieces, which share its memory; none if it is empty."""
    return torch.split(message, PIECE_BYTES) if message.numel() else ()


class SendGate:
    """Lets the background messages of a worker wait while foreground ones are being sent.

    After ``patience_s`` a piece is sent all the same; None: never.
    """

    def __init__(self, patience_s: float | None = None) -> None:
        self._patience_s = patience_s
        self._sending = 0
        self._free = threading.Condition()

    @contextmanager
    def message(self, *, background: bool) -> Iterator[Callable[[], None]]:
        """While a message is being sent; gives what waits for its turn, to be called before each piece."""
        if background:
            yield self._await_turn
            return
        with self._free:
            self._sending += 1
        try:
            yield _at_once
        finally:
            with self._free:
                self._sending -= 1
                self._free.notify_all()

    def _await_turn(self) -> None:
        with self._free:
            self._free.wait_for(lambda: not self._sending, self._patience_s)


def _at_once() -> None:
    """The turn of a foreground message has always come."""
