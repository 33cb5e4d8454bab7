"""Turns at a node's CPU, first come first served: calls run side by side while their shares add up to the limit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator

_SLACK = 1e-9
# A sleep overshoots by a tenth of a millisecond or two: the last stretch is waited for awake.
_AWAKE_S = 0.0003


class Cpu:
    """The CPU of one node, as the event clock sees it."""

    def __init__(self, limit: float = 1.0) -> None:
        self.limit = limit
        self._free = limit + _SLACK
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    def queue(self) -> object:
        """A place at the end of the queue, for a call that is ready before its thread gets here; it has to come."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        return ticket

    @contextlib.contextmanager
    def share(self, wanted: float, ticket: object | None = None) -> Iterator[None]:
        """Have a share of the CPU, once it is this call's turn; by the place in the queue that it has, if any."""
        ticket = ticket or self.queue()
        with self._changed:
            self._changed.wait_for(lambda: self._queue[0] is ticket and wanted <= self._free)
            self._queue.popleft()
            self._free -= wanted
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()


def last_until(end_s: float) -> None:
    """Wait until the clock (``time.monotonic``) shows ``end_s``."""
    while (left_s := end_s - time.monotonic()) > 0:
        if left_s > _AWAKE_S:
            time.sleep(left_s - _AWAKE_S)
