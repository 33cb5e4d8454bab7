"""A cluster as network namespaces: addresses, routes and shaped links, as lines for ``ip`` and ``tc``. Pure.

Every node that computes or relays has one address, on its loopback device; a link is a veth pair without addresses of
its own. A relay picks the next hop by source and destination, so that packets take exactly the path that the estimate
assumes. What leaves an end of a link goes through

    htb ┬─ pings and acknowledgements: never wait and cost nothing, so that the two directions stay apart
        └─ tbf, the link's rate ── htb ┬─ packets of one connection ┐
                                       ├─ packets of another        ┤ take turns, so that transfers share the link
                                       ├─ all others                ┘ fairly, as on the event clock
                                       └─ background packets of one connection, of another …: take turns when there
                                          are no others
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import NamedTuple

from palmette.cost.routes import Route, Routes
from palmette.runtime.transports.heartbeat import PING_TOS
from palmette.runtime.transports.marking import BACKGROUND_TOS
from palmette.spec.cluster import Cluster
from palmette.testbed.replay import Replay

Pair = tuple[str, str]

_FIRST_ADDRESS = IPv4Address("10.71.0.1")
_FIRST_TABLE = 1000  # routing tables of relays, one a sender
# A packet of 1514 bytes carries 1448 of a message.
HEADER_OVERHEAD = 1514 / 1448
# tbf lets this much through at once: little, or short messages arrive too early, but at high rates enough for a timer
# that is half a millisecond late.
_MIN_BURST_BYTES = 1600
_LATE_S = 0.0005
# More than any machine moves through a veth pair.
_MAX_BPS = 100e9
_QUEUE_PACKETS = 1000
# A sender's TCP buffer holds what its fastest link carries in this time. With more, packets would pile up at a relay
# and take bandwidth from others before it, and a send would seem to end long before its last byte has left.
_BUFFERED_S = 0.1
_MIN_BUFFER_BYTES = 64 * 1024
_MAX_BUFFER_BYTES = 4 * 1024 * 1024
# A TCP packet without content: its whole length, and the length of the TCP header as that header says it.
_ACKNOWLEDGEMENTS = ((52, 0x80), (64, 0xB0), (72, 0xD0), (80, 0xF0))


class TcpEndpoint(NamedTuple):
    """An end of a TCP connection."""

    address: str
    port: int


class TcpFlow(NamedTuple):
    """What one end of a TCP connection sends to the other."""

    sender: TcpEndpoint
    receiver: TcpEndpoint


@dataclass(frozen=True)
class VethLink:
    """A link in use: its number in the cluster, its ends, and the bandwidth from each of them to the other."""

    number: int
    ends: Pair
    rates_bps: tuple[float, float]

    @property
    def device(self) -> str:
        """What the link is called in the namespaces of both its ends."""
        return f"link{self.number}"

    def from_bps(self, sender: str) -> float:
        """The bandwidth from one end to the other."""
        return self.rates_bps[self.ends.index(sender)]


class NamespaceNetwork:
    """The nodes and links over which some nodes of a cluster reach one another; ``replay`` has those that change."""

    def __init__(self, cluster: Cluster, hosts: Sequence[str], routes: Routes, replay: Replay | None = None) -> None:
        self._cluster, self._routes = cluster, routes
        self._paths = {pair: path for pair in itertools.permutations(hosts, 2) if (path := self._path(*pair))}
        on_the_way = {node for path in self._paths.values() for node in path}
        self.nodes = [name for name in cluster.nodes if name in on_the_way or name in hosts]
        hops = {frozenset(hop) for path in self._paths.values() for hop in itertools.pairwise(path)}
        now_bps = replay.rates_bps if replay is not None else {}
        self.links = [
            VethLink(k, link.between, now_bps.get(k, link.rates_bps))
            for k, link in enumerate(cluster.links)
            if frozenset(link.between) in hops
        ]
        self._devices = {pair: link.device for link in self.links for pair in itertools.permutations(link.ends)}
        self._addresses = {name: str(_FIRST_ADDRESS + k) for k, name in enumerate(self.nodes)}
        self._between = {(self.address(a), self.address(b)): path for (a, b), path in self._paths.items()}

    def address(self, node: str) -> str:
        """The node's address."""
        return self._addresses[node]

    def latency_s(self, sender: str, receiver: str) -> float:
        """The latency of the route between two nodes, with its random delays in the mean."""
        return self._route(sender, receiver).latency_s

    def jitters_s(self, sender: str, receiver: str) -> tuple[float, ...]:
        """The means of the random delays on that route."""
        return self._route(sender, receiver).jitters_s

    def send_buffer_bytes(self, node: str) -> int:
        """The size of the buffers of the node's TCP connections."""
        fastest = max((link.from_bps(node) for link in self.links if node in link.ends), default=0.0)
        return int(min(_MAX_BUFFER_BYTES, max(_MIN_BUFFER_BYTES, fastest / 8 * _BUFFERED_S)))

    def address_commands(self, node: str) -> list[str]:
        """Lines for ``ip`` in the node's namespace: its address, its links and its routes."""
        lines = ["link set lo up", f"address add {self.address(node)}/32 dev lo"]
        lines += [f"link set {link.device} up" for link in self.links if node in link.ends]
        tables: dict[str, list[str]] = {}
        for (a, b), path in self._paths.items():
            if node in path[:-1]:
                hop = self._hop(b, node, path[path.index(node) + 1])
                tables.setdefault(a, []).append(hop)
        for a, hops in tables.items():
            if a == node:
                lines += [f"route add {hop} src {self.address(node)}" for hop in hops]
            else:
                table = _FIRST_TABLE + self.nodes.index(a)
                lines.append(f"rule add from {self.address(a)} lookup {table}")
                lines += [f"route add {hop} table {table}" for hop in hops]
        return lines

    def shaping_commands(
        self, node: str, dilation: float, flows: Iterable[TcpFlow], *, background: bool = False
    ) -> list[str]:
        """Lines for ``tc`` in the node's namespace: the rate of each link, and which flows take turns.

        ``background``: there are packets that are marked to give way to all others.
        """
        leaving: dict[str, list[TcpFlow]] = {link.device: [] for link in self.links if node in link.ends}
        for flow in flows:
            path = self._between.get((flow.sender.address, flow.receiver.address), [])
            if node in path[:-1]:
                leaving[self._devices[node, path[path.index(node) + 1]]].append(flow)
        bandwidths = {link.device: link.from_bps(node) for link in self.links if node in link.ends}
        return [
            line
            for device, passing in leaving.items()
            for line in shaping_rules(device, bandwidths[device] / dilation, passing, background=background)
        ]

    def rate_commands(self, node: str, dilation: float, only: VethLink | None = None) -> list[str]:
        """Lines for ``tc`` that change the rate of each link, or one, and let the packets wait that are under way."""
        own = [link for link in (self.links if only is None else [only]) if node in link.ends]
        return [f"qdisc change dev {link.device} {token_bucket(link.from_bps(node) / dilation)}" for link in own]

    def change(self, number: int, rates_bps: tuple[float, float]) -> VethLink | None:
        """Give a link other rates; returns it, None where it is not in use."""
        for k, link in enumerate(self.links):
            if link.number == number:
                self.links[k] = replace(link, rates_bps=rates_bps)
                return self.links[k]
        return None

    def _hop(self, to: str, node: str, following: str) -> str:
        device = self._devices[node, following]
        via = "" if following == to else f" via {self.address(following)}"
        return f"{self.address(to)}{via} dev {device}{' onlink' if via else ''}"

    def _route(self, a: str, b: str) -> Route:
        route = self._routes.between(a, b)
        assert route is not None, f"the nodes of a phase can reach one another, but {a} cannot reach {b}"
        return route

    def _path(self, a: str, b: str) -> list[str]:
        path = [a]
        for resource in self._route(a, b).resources:
            one, other = self._cluster.links[resource // 2].between
            path.append(other if path[-1] == one else one)
        return path


def token_bucket(bandwidth_bps: float) -> str:
    """The queue that limits a device to a link's bandwidth."""
    rate = min(_MAX_BPS, bandwidth_bps * HEADER_OVERHEAD)
    burst = max(_MIN_BURST_BYTES, math.ceil(rate / 8 * _LATE_S))
    return f"parent 1:2 handle 12: tbf rate {max(8, round(rate))}bit burst {burst} latency 400ms"


def shaping_rules(
    device: str, bandwidth_bps: float, flows: Sequence[TcpFlow], *, background: bool = False
) -> list[str]:
    """Lines for ``tc`` that limit a device to a link's bandwidth, shared fairly by these flows."""
    free = f"htb rate {_MAX_BPS:.0f}bit quantum 1514"
    queue = f"pfifo limit {_QUEUE_PACKETS}"
    at_once = f"filter add dev {device} parent 1: protocol ip prio 1 u32"
    lines = [
        f"qdisc add dev {device} root handle 1: htb default 2",
        f"class add dev {device} parent 1: classid 1:1 {free} prio 0",
        f"class add dev {device} parent 1: classid 1:2 {free} prio 1",
        f"qdisc add dev {device} parent 1:1 handle 11: {queue}",
        f"qdisc add dev {device} {token_bucket(bandwidth_bps)}",
        f"{at_once} match u8 {PING_TOS:#x} 0xff at 1 flowid 1:1",
    ]
    for length, header in _ACKNOWLEDGEMENTS:
        fields = f"match u8 6 0xff at 9 match u16 {length} 0xffff at 2 match u8 {header:#x} 0xf0 at 32"
        lines.append(f"{at_once} {fields} flowid 1:1")
    lines.append(f"qdisc add dev {device} parent 12:1 handle 13: htb default 1")
    classes = [(flow, False) for flow in (None, *flows)] + [(flow, True) for flow in flows if background]
    for minor, (flow, marked) in enumerate(classes, start=1):
        lines.append(f"class add dev {device} parent 13: classid 13:{minor:x} {free} prio {int(marked)}")
        lines.append(f"qdisc add dev {device} parent 13:{minor:x} handle {0x100 + minor:x}: {queue}")
        if flow is not None:
            fields = f"match u8 {BACKGROUND_TOS:#x} 0xfc at 1 " if marked else ""
            fields += f"match ip src {flow.sender.address} match ip sport {flow.sender.port} 0xffff"
            fields += f" match ip dst {flow.receiver.address} match ip dport {flow.receiver.port} 0xffff"
            at = f"filter add dev {device} parent 13: protocol ip prio {1 if marked else 2} u32"
            lines.append(f"{at} {fields} flowid 13:{minor:x}")
    return lines
