"""Emulated links: a process that knows every transfer under way, and says when each has arrived.

It shares the links with the same code as the event clock, on real time. A sender announces a transfer; when its last
bit would have arrived, both ends are told. The bytes themselves travel over loopback meanwhile.

    sender ── begin(channel) ──▶ links ── arrived(channel) ──▶ sender, receiver
"""

from __future__ import annotations

import heapq
import os
import signal
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path as FilePath
from typing import Any

from palmette.cost.sharing import Flows, Path
from palmette.runtime.forking import forking

_NUMBER = struct.Struct("<qd")


@dataclass(frozen=True)
class Line:
    """What a channel's transfers go over: a path of resources, its bits and its latency."""

    path: Path
    bits: float
    latency_s: float
    sender: str
    receiver: str


class Links:
    """The emulated links of a cluster; nodes reach them through a socket in a folder."""

    def __init__(
        self, lines: Mapping[int, Line], capacities: Sequence[float], nodes: Sequence[str], folder: FilePath
    ) -> None:
        context = forking()
        self.address = str(folder / "links")
        self._control, control = context.Pipe()
        arguments = (dict(lines), list(capacities), len(nodes), self.address, control)
        self._process = context.Process(target=_serve, args=arguments, name="palmette links", daemon=True)
        self._process.start()
        control.close()
        self._control.recv()

    def stretch(self, dilation: float) -> None:
        """Make everything slower by this factor, from now on."""
        self._control.send(dilation)
        self._control.recv()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._control.close()


class Caller:
    """A node's line to the links."""

    def __init__(self, address: str, node: str) -> None:
        self._connection, self._lock = Client(address, "AF_UNIX"), threading.Lock()
        self._connection.send(node)

    def begin(self, channel: int) -> None:
        """Announce that a transfer begins now."""
        with self._lock:
            self._connection.send_bytes(_NUMBER.pack(channel, time.monotonic()))

    def arrived(self) -> int:
        """Wait until a transfer from or to this node has arrived; returns its channel."""
        channel: int = _NUMBER.unpack(self._connection.recv_bytes())[0]
        return channel


def _serve(
    lines: dict[int, Line], capacities: list[float], many: int, address: str, control: Connection[Any, Any]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Listener(address, "AF_UNIX", backlog=many) as listener:
            control.send(True)
            ends = {}
            for _ in range(many):
                end = listener.accept()
                ends[end.recv()] = end
        _Server(lines, capacities, ends, control).run()
    except (EOFError, OSError):
        os._exit(0)  # whoever made the links is gone


class _Server:
    def __init__(
        self,
        lines: dict[int, Line],
        capacities: list[float],
        ends: dict[str, Connection[Any, Any]],
        control: Connection[Any, Any],
    ) -> None:
        self._lines, self._capacities, self._ends, self._control = lines, capacities, ends, control
        self._passed_s = 0.0
        self._stretch(1.0)

    def _stretch(self, dilation: float) -> None:
        self._dilation = dilation
        slower = [capacity / dilation for capacity in self._capacities]
        self._flows = Flows(slower)
        self._next_s = float("inf")
        self._arrivals: list[tuple[float, int]] = []

    def run(self) -> None:
        """Serve until the other end closes."""
        open_ends = list(self._ends.values())
        while True:
            until = min(self._next_s, self._arrivals[0][0] if self._arrivals else float("inf"))
            patience = None if until == float("inf") else max(0.0, until - time.monotonic())
            for end in wait([*open_ends, self._control], patience):
                if end is self._control:
                    self._stretch(self._control.recv())
                    self._control.send(True)
                    continue
                try:
                    channel, began_s = _NUMBER.unpack(end.recv_bytes())  # type: ignore[union-attr]
                except (EOFError, OSError):
                    open_ends.remove(end)  # type: ignore[arg-type]
                    continue
                self._begin(channel, began_s)
            self._deliver()

    def _begin(self, channel: int, began_s: float) -> None:
        """Begin a transfer at the time its sender says, unless the links have moved on since."""
        line = self._lines[channel]
        now = max(began_s, self._passed_s)
        self._end_until(now)
        if line.bits > 0:
            self._flows.begin(channel, line.path, line.bits, now)
        else:
            heapq.heappush(self._arrivals, (now + line.latency_s * self._dilation, channel))
        self._next_s = self._flows.share(now)
        self._passed_s = now

    def _end_until(self, now: float) -> None:
        while self._next_s <= now:
            ended_s = self._next_s
            for channel in self._flows.end(ended_s, ended_s):
                latency = self._lines[channel].latency_s * self._dilation
                heapq.heappush(self._arrivals, (ended_s + latency, channel))
            self._next_s = self._flows.share(ended_s)
            self._passed_s = ended_s

    def _deliver(self) -> None:
        now = time.monotonic()
        self._end_until(now)
        while self._arrivals and self._arrivals[0][0] <= now:
            arrived_s, channel = heapq.heappop(self._arrivals)
            line = self._lines[channel]
            for node in (line.sender, line.receiver):
                self._ends[node].send_bytes(_NUMBER.pack(channel, arrived_s))
