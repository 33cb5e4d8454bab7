"""Emulated links: a process that knows every transfer in flight, and tells both nodes when it arrives.

It shares the bandwidth of links with the same code as the event clock, in real time. A sender announces a transfer and
the size of the message that it really sends, whatever the estimate says; when the last bit would have left, sender and
receiver are told when it arrives. The bytes themselves travel over loopback meanwhile.

    sender ── begin(channel, bytes) ──▶ emulator ── arrives(channel, when) ──▶ sender, receiver
"""

from __future__ import annotations

import os
import select
import signal
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path as FilePath
from typing import Any

from palmette.cost.priorities import flows_over
from palmette.cost.sharing import Path
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.spec.link_trace import BandwidthTrace
from palmette.testbed.jitter import Jitter
from palmette.testbed.replay import Replay

_BEGINS = struct.Struct("<qqd")
_ARRIVES = struct.Struct("<qd")


@dataclass(frozen=True)
class ChannelRoute:
    """The path of link resources that a channel's transfers take, and its latency, random delays in the mean.

    Those in the ``background`` give way to the others on the same links.
    """

    path: Path
    latency_s: float
    sender: str
    receiver: str
    background: bool = False
    jitters_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class LinkTraces:
    """The bandwidths of links over time, by the link's number, from a moment on."""

    by_link: Mapping[int, BandwidthTrace] = field(default_factory=dict)
    moment_s: float = 0.0


@dataclass(frozen=True)
class EmulatedLinks:
    """The paths of channels, and the capacities of the resources on them, which traces may change."""

    routes: dict[int, ChannelRoute]
    capacities: list[float]
    traces: LinkTraces


class LinkEmulator:
    """The emulated links of a cluster, in a process of their own; nodes connect to its socket in a folder."""

    def __init__(
        self,
        routes: Mapping[int, ChannelRoute],
        capacities: Sequence[float],
        nodes: Sequence[str],
        folder: FilePath,
        traces: LinkTraces = LinkTraces(),
    ) -> None:
        context = forkserver_context()
        self.address = str(folder / "links")
        self._control, control = context.Pipe()
        links = EmulatedLinks(dict(routes), list(capacities), traces)
        arguments = (links, len(nodes), self.address, control)
        self._process = context.Process(target=_serve, args=arguments, name="palmette links", daemon=True)
        self._process.start()
        control.close()
        self._control.recv()

    def set_dilation(self, dilation: float) -> None:
        """From now on, make everything slower by this factor."""
        self._control.send(dilation)
        self._control.recv()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._control.close()


class LinkClient:
    """A node's connection to the link emulator."""

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


def _serve(links: EmulatedLinks, count: int, address: str, control: Connection[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Listener(address, "AF_UNIX", backlog=count) as listener:
            control.send(True)
            connections = {}
            for _ in range(count):
                connection = listener.accept()
                connections[connection.recv()] = connection
        _Server(links, connections, control).run()
    except (EOFError, OSError):
        os._exit(0)  # the process that started the emulator is gone


class _Server:
    def __init__(
        self, links: EmulatedLinks, connections: dict[str, Connection[Any, Any]], control: Connection[Any, Any]
    ) -> None:
        self._routes, self._capacities = links.routes, list(links.capacities)
        self._connections, self._control = connections, control
        self._replay = Replay(links.traces.by_link, links.traces.moment_s)
        for number, rates in self._replay.rates_bps.items():
            self._capacities[2 * number : 2 * number + 2] = rates
        self._dilation, self._dilated = 1.0, list(self._capacities)
        background = {channel for channel, route in self._routes.items() if route.background}
        self._flows = flows_over(self._dilated, background)
        self._jitter = {channel: Jitter(route.jitters_s, channel) for channel, route in self._routes.items()}
        self._passed_s, self._next_s = 0.0, float("inf")

    def _set_dilation(self, dilation: float) -> None:
        """Make all links slower by this factor; what is under way goes on, as samples that are sent ahead may be."""
        now = max(time.monotonic(), self._passed_s)
        self._end_until(now)
        self._dilation = dilation
        self._replay.begin(now, dilation)
        for resource in range(len(self._capacities)):
            self._renew(resource, now)
        self._next_s, self._passed_s = self._flows.share(now), now

    def _renew(self, resource: int, now: float) -> None:
        self._dilated[resource] = self._capacities[resource] / self._dilation
        self._flows.renew(resource, now)

    def _change(self) -> None:
        """Change the bandwidth of a link as its trace says."""
        now = self._replay.next_s
        number, rates = self._replay.take()
        for resource, rate in zip((2 * number, 2 * number + 1), rates, strict=True):
            self._capacities[resource] = rate
            self._renew(resource, now)
        self._next_s, self._passed_s = self._flows.share(now), now

    def run(self) -> None:
        """Serve until the control connection closes."""
        open_connections = list(self._connections.values())
        while True:
            next_s = min(self._next_s, self._replay.next_s)
            timeout_s = None if next_s == float("inf") else max(0.0, next_s - time.monotonic())
            # Not multiprocessing's wait: that rounds up to whole milliseconds.
            for connection in select.select([*open_connections, self._control], [], [], timeout_s)[0]:
                if connection is self._control:
                    self._set_dilation(self._control.recv())
                    self._control.send(True)
                    continue
                try:
                    channel, size_bytes, began_s = _BEGINS.unpack(connection.recv_bytes())
                except (EOFError, OSError):
                    open_connections.remove(connection)
                    continue
                self._begin(channel, 8.0 * size_bytes, began_s)
            self._end_until(time.monotonic())

    def _begin(self, channel: int, bits: float, began_s: float) -> None:
        """Begin a transfer at the time its sender says, unless the links have moved on since."""
        now = max(began_s, self._passed_s)
        self._end_until(now)
        if bits > 0:
            self._flows.begin(channel, self._routes[channel].path, bits, now)
        else:
            self._announce(channel, now)
        self._next_s = self._flows.share(now)
        self._passed_s = now

    def _end_until(self, now: float) -> None:
        while min(self._next_s, self._replay.next_s) <= now:
            if self._replay.next_s < self._next_s:
                self._change()
                continue
            ended_s = self._next_s
            for channel in self._flows.end(ended_s, ended_s):
                self._announce(channel, ended_s)
            self._next_s = self._flows.share(ended_s)
            self._passed_s = ended_s

    def _announce(self, channel: int, left_s: float) -> None:
        """Tell sender and receiver when the transfer arrives."""
        route = self._routes[channel]
        delay_s = route.latency_s + self._jitter[channel].next_s()
        message = _ARRIVES.pack(channel, left_s + delay_s * self._dilation)
        for node in (route.sender, route.receiver):
            self._connections[node].send_bytes(message)
