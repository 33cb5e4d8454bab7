"""Emulated links: a process that knows every transfer under way, and says when each has arrived.

It shares the links with the same code as the event clock, on real time. A sender announces a transfer and the bytes of
the message that it really sends, whatever the estimate says of them; when the last bit would have left, both ends are
told when it will have arrived. The bytes themselves travel over loopback meanwhile.

    sender ── begin(channel, bytes) ──▶ links ── arrives(channel, when) ──▶ sender, receiver
"""

from __future__ import annotations

import os
import select
import signal
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path as FilePath
from typing import Any

from palmette.cost.sharing import Flows, Path
from palmette.runtime.engines.forking import forking

_BEGINS = struct.Struct("<qqd")
_ARRIVES = struct.Struct("<qd")


@dataclass(frozen=True)
class Line:
    """What a channel's transfers go over: a path of resources and its latency."""

    path: Path
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

    def begin(self, channel: int, size_bytes: int, due_s: float) -> None:
        """Announce a transfer of so many bytes that was due to begin at a moment."""
        with self._lock:
            self._connection.send_bytes(_BEGINS.pack(channel, size_bytes, due_s))

    def arrives(self) -> tuple[int, float]:
        """Wait for a transfer from or to this node; returns its channel and the moment at which it arrives."""
        channel, arrived_s = _ARRIVES.unpack(self._connection.recv_bytes())
        return channel, arrived_s


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

    def run(self) -> None:
        """Serve until the other end closes."""
        open_ends = list(self._ends.values())
        while True:
            patience = None if self._next_s == float("inf") else max(0.0, self._next_s - time.monotonic())
            # Not multiprocessing's wait: that rounds up to whole milliseconds.
            for end in select.select([*open_ends, self._control], [], [], patience)[0]:
                if end is self._control:
                    self._stretch(self._control.recv())
                    self._control.send(True)
                    continue
                try:
                    channel, size_bytes, began_s = _BEGINS.unpack(end.recv_bytes())
                except (EOFError, OSError):
                    open_ends.remove(end)
                    continue
                self._begin(channel, 8.0 * size_bytes, began_s)
            self._end_until(time.monotonic())

    def _begin(self, channel: int, bits: float, began_s: float) -> None:
        """Begin a transfer at the time its sender says, unless the links have moved on since."""
        now = max(began_s, self._passed_s)
        self._end_until(now)
        if bits > 0:
            self._flows.begin(channel, self._lines[channel].path, bits, now)
        else:
            self._tell(channel, now)
        self._next_s = self._flows.share(now)
        self._passed_s = now

    def _end_until(self, now: float) -> None:
        while self._next_s <= now:
            ended_s = self._next_s
            for channel in self._flows.end(ended_s, ended_s):
                self._tell(channel, ended_s)
            self._next_s = self._flows.share(ended_s)
            self._passed_s = ended_s

    def _tell(self, channel: int, left_s: float) -> None:
        """Tell both ends when what has left will have arrived."""
        line = self._lines[channel]
        message = _ARRIVES.pack(channel, left_s + line.latency_s * self._dilation)
        for node in (line.sender, line.receiver):
            self._ends[node].send_bytes(message)
