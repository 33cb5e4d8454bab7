"""Turns at a node's CPU, first come first served: calls run side by side while their shares add up to the limit."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Self

_SLACK = 1e-9
# A sleep overshoots by a tenth of a millisecond or two: the last stretch is waited for awake.
_AWAKE_S = 0.0003


class Cpu:
    """The CPU of one node, as the event clock sees it; ``freed_s`` is when a share of it was last due to be free."""

    def __init__(self, limit: float = 1.0) -> None:
        self.limit = limit
        self.freed_s = 0.0
        self._free = limit + _SLACK
        self._queue: deque[object] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def queue(self) -> object:
        """A place at the end of the queue, for a call that is ready before its thread gets here; it has to come."""
        ticket = object()
        with self._lock:
            self._queue.append(ticket)
        return ticket

    def share(self, wanted: float, ticket: object | None = None) -> Share:
        """A share of the CPU, once it is this call's turn; by the place in the queue that it has, if any."""
        return Share(self, wanted, ticket)

    def take(self, wanted: float, ticket: object | None) -> None:
        """Wait for the turn of a call, and take its share."""
        with self._lock:
            if ticket is None:
                self._queue.append(ticket := object())
            while self._queue[0] is not ticket or wanted > self._free:
                self._changed.wait()
            self._queue.popleft()
            self._change(-wanted)

    def give_back(self, share: float, due_s: float) -> None:
        """Leave a share to others; it was due to be free at a moment."""
        with self._lock:
            self.freed_s = due_s
            self._change(share)

    def _change(self, by: float) -> None:
        """Change what is free, and tell those in the queue: all who wait are there."""
        self._free += by
        if self._queue:
            self._changed.notify_all()


class Share:
    """A share of a CPU, had while inside: free since ``free_s``, due to be given back at ``due_s`` if that is set."""

    __slots__ = ("_cpu", "_ticket", "_wanted", "due_s", "free_s")

    def __init__(self, cpu: Cpu, wanted: float, ticket: object | None) -> None:
        self._cpu, self._wanted, self._ticket = cpu, wanted, ticket
        self.free_s = 0.0
        self.due_s: float | None = None

    def __enter__(self) -> Self:
        self._cpu.take(self._wanted, self._ticket)
        self.free_s = self._cpu.freed_s
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu.give_back(self._wanted, time.monotonic() if self.due_s is None else self.due_s)


def last_until(end_s: float) -> None:
    """Wait until the clock (``time.monotonic``) shows ``end_s``."""
    while (left_s := end_s - time.monotonic()) > 0:
        if left_s > _AWAKE_S:
            time.sleep(left_s - _AWAKE_S)
