"""How nodes reach one another: over their own link, or the path with the fewest hops.

Ties go to the larger bottleneck, by the slower direction of each link, then to the order of the file; the path back is
the same reversed. A link has a resource for each direction (one for both if half duplex), which transfers share.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from palmette.cost.clock import Capacities, CapacityChange
from palmette.spec.cluster import Cluster, Link

ROUNDED = 1e-12  # of a time: events closer to one another are one moment


class Route(NamedTuple):
    """A path between two nodes: its resources in order, its bottleneck, and the sums along it.

    ``latency_s`` includes the mean of the random delays, which are ``jitters_s`` on the links that have one. ``links``
    are those on which the size of a message counts, each with the node that sends.
    """

    resources: tuple[int, ...]
    bandwidth_bps: float
    latency_s: float
    energy_j_per_bit: float
    links: tuple[tuple[Link, str], ...] = ()
    jitters_s: tuple[float, ...] = ()

    @property
    def hops(self) -> int:
        """The number of links on the path."""
        return len(self.resources)

    def transfer_s(self, size_bytes: float) -> float:
        """Seconds for a transfer that has the path to itself."""
        return self.latency_s + self.bits(size_bytes) / self.bandwidth_bps

    def bits(self, size_bytes: float) -> float:
        """Bits that a message costs: more than it has where its size does not reach the whole bandwidth."""
        if not self.links:
            return 8 * size_bytes
        return 8 * size_bytes / min(link.reached(size_bytes, sender) for link, sender in self.links)


class Routes:
    """The routes of a cluster, found when first asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._links = cluster.links
        self._order = {name: k for k, name in enumerate(cluster.nodes)}
        self._neighbours: dict[str, dict[str, int]] = {name: {} for name in cluster.nodes}
        for k, link in enumerate(cluster.links):
            a, b = link.between
            self._neighbours[a][b] = self._neighbours[b][a] = k
        self.by_size = any(link.by_size for link in cluster.links)
        self.capacities = [rate for link in cluster.links for rate in link.rates_bps]
        self._parents: dict[str, dict[str, str]] = {}
        self._found: dict[tuple[str, str], Route | None] = {}

    def from_moment(self, moment_s: float, passed_s: float = 0.0) -> Capacities:
        """The capacities from a moment on, for links with a trace as it says; or from so many seconds later on.

        A trace that begins again within what such a time is rounded to counts as its mean.
        """
        now_bps, changes = list(self.capacities), []
        for k, link in enumerate(self._links):
            trace = link.bandwidth_trace
            if trace is not None and trace.length_s > passed_s * ROUNDED:
                now_bps[2 * k : 2 * k + 2] = trace.at(moment_s + passed_s)
                changes.append(_resource_changes(k, trace.changes(moment_s + passed_s), passed_s))
        return Capacities(now_bps, heapq.merge(*changes), partial(self.from_moment, moment_s))

    def between(self, a: str, b: str) -> Route | None:
        """The route from ``a`` to ``b``, None where there is no path."""
        key = (a, b)
        if key not in self._found:
            path = self._path(a, b)
            self._found[key] = None if path is None else self._route(path)
        return self._found[key]

    def hops(self, a: str, b: str) -> float:
        """The number of links between two nodes: 0 on one node, infinite where there is no path."""
        route = self.between(a, b)
        return float("inf") if route is None else route.hops

    def meeting_node(self, nodes: Iterable[str]) -> str | None:
        """A node that all routes between some nodes pass, or end at; None where there is none."""
        shared: set[str] | None = None
        for a, b in itertools.combinations(nodes, 2):
            passed = set(self._path(a, b) or ())
            shared = passed if shared is None else shared & passed
            if not shared:
                return None
        return min(shared or nodes, key=self._order.__getitem__)

    def _route(self, path: list[str]) -> Route:
        steps = [(self._neighbours[a][b], a) for a, b in itertools.pairwise(path)]
        links = [self._links[k] for k, _ in steps]
        rates = [self._links[k].from_bps(a) for k, a in steps]
        return Route(
            tuple(2 * k + (self._links[k].duplex == "full" and self._links[k].between[1] == a) for k, a in steps),
            min(rates, default=float("inf")),
            sum(link.mean_latency_s for link in links),
            sum(link.energy_j_per_bit for link in links),
            tuple((self._links[k], a) for k, a in steps if self._links[k].by_size),
            tuple(link.jitter_s for link in links if link.jitter_s),
        )

    def _path(self, a: str, b: str) -> list[str] | None:
        if a == b:
            return [a]
        if b in self._neighbours[a]:
            return [a, b]
        # A leaf has one way out: step over it, so that a star of n nodes needs one search, not n.
        if len(self._neighbours[a]) == 1:
            (way_out,) = self._neighbours[a]
            rest = self._path(way_out, b) if len(self._neighbours[way_out]) > 1 else None
            return None if rest is None else [a, *rest]
        if len(self._neighbours[b]) == 1 or self._order[a] > self._order[b]:
            rest = self._path(b, a)
            return None if rest is None else rest[::-1]
        return self._search(a, b)

    def _search(self, a: str, b: str) -> list[str] | None:
        if a not in self._parents:
            self._parents[a] = self._widest_shortest(a)
        parents = self._parents[a]
        if b not in parents:
            return None
        path = [b]
        while path[-1] != a:
            path.append(parents[path[-1]])
        return path[::-1]

    def _widest_shortest(self, root: str) -> dict[str, str]:
        """The parent of each node that can be reached, on its widest path among those with the fewest hops."""
        parents: dict[str, str] = {}
        width = {root: float("inf")}
        ring = [root]
        while ring:
            reached: dict[str, float] = {}
            for at in ring:
                for near, k in self._neighbours[at].items():
                    wide = min(width[at], self._links[k].slower_bps)
                    if near not in width and wide > reached.get(near, 0.0):
                        reached[near] = wide
                        parents[near] = at
            width.update(reached)
            ring = list(reached)
        return parents


def _resource_changes(
    link: int, changes: Iterator[tuple[float, tuple[float, float]]], passed_s: float
) -> Iterator[CapacityChange]:
    """The changes of a link's trace, which begin after so many seconds, as those of its two resources."""
    for at_s, (up_bps, down_bps) in changes:
        yield passed_s + at_s, 2 * link, up_bps
        yield passed_s + at_s, 2 * link + 1, down_bps
