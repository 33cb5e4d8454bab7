"""A node's CPU, first come first served: calls run in parallel while their CPU shares stay within the limit."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Self

_SLACK = 1e-9
# A sleep overshoots by 0.1 or 0.2 ms: the end of a wait is a busy loop.
_AWAKE_S = 0.0003


class CpuQueue:
    """The CPU of one node, as on the event clock; ``freed_s`` is when a share of it was last due to be free.

    With ``rests``, a call with a share of a half is followed by a rest of its own length, so that no more is used.
    """

    def __init__(self, limit: float = 1.0, *, rests: bool = False) -> None:
        self.limit, self.rests = limit, rests
        self.freed_s = 0.0
        self._free = limit + _SLACK
        self._queue: deque[object] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def queue(self) -> object:
        """Reserve a place in the queue for a call that is ready before its thread is; the call must then use it."""
        ticket = object()
        with self._lock:
            self._queue.append(ticket)
        return ticket

    def share(self, wanted: float, ticket: object | None = None) -> CpuShare:
        """A share of the CPU when it is this call's turn; ``ticket`` is its reserved place in the queue, if any."""
        return CpuShare(self, wanted, ticket)

    def take(self, wanted: float, ticket: object | None) -> None:
        """Wait for a call's turn, and take its share."""
        with self._lock:
            if ticket is None:
                self._queue.append(ticket := object())
            while self._queue[0] is not ticket or wanted > self._free:
                self._changed.wait()
            self._queue.popleft()
            self._change(-wanted)

    def give_back(self, share: float, due_s: float) -> None:
        """Release a share, which was due to be free at ``due_s``."""
        with self._lock:
            self.freed_s = due_s
            self._change(share)

    def _change(self, by: float) -> None:
        """Change the free share, and wake the waiting calls: all of them are in the queue."""
        self._free += by
        if self._queue:
            self._changed.notify_all()


class CpuShare:
    """A CPU share, held while inside: free since ``free_s``, due to be released at ``due_s`` if that is set."""

    __slots__ = ("_began_s", "_cpu", "_ticket", "_wanted", "due_s", "free_s")

    def __init__(self, cpu: CpuQueue, wanted: float, ticket: object | None) -> None:
        self._cpu, self._wanted, self._ticket = cpu, wanted, ticket
        self.free_s = 0.0
        self.due_s: float | None = None

    def __enter__(self) -> Self:
        self._cpu.take(self._wanted, self._ticket)
        self.free_s = self._cpu.freed_s
        self._began_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._cpu.rests:
            time.sleep((time.monotonic() - self._began_s) * (1 / self._wanted - 1))
        self._cpu.give_back(self._wanted, time.monotonic() if self.due_s is None else self.due_s)


def sleep_until(end_s: float) -> None:
    """Wait until the clock (``time.monotonic``) shows ``end_s``."""
    while (left_s := end_s - time.monotonic()) > 0:
        if left_s > _AWAKE_S:
            time.sleep(left_s - _AWAKE_S)
