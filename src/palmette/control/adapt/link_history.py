"""What links have reached so far, iteration by iteration, and what to believe of them now.

A direction of a link is so many times slower than the cluster says. One that the plan in use leaves idle shows nothing:
it counts as it was seen last for as long as it had been so then. After that it counts as declared, or as the mean of
what was seen where that is faster: a link that is thought to be slow would never be tried again.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping

from palmette.control.adapt.replanning import with_links
from palmette.spec.cluster import Cluster

WINDOW = 5
"""Iterations whose median is what a link reaches now."""
_LEAST, _MOST = 0.1, 1e4
# One bandwidth for both directions stays one where they do not differ by more.
_ALIKE = 1.25

Slower = Mapping[int, float]
"""How many times slower than the cluster says the directions of links are, by their resources."""


class LinkHistory:
    """Of all links that a run has used.

    Rates are ``alike`` that differ by less than this factor; those that the cluster declares count in the mean as if
    they had been seen for ``declared_s``.
    """

    def __init__(self, alike: float, declared_s: float) -> None:
        self._alike, self._declared_s = alike, declared_s
        self._seen, self._now_s = dict[int, _Direction](), 0.0

    def observe(self, slower: Slower, now_s: float) -> None:
        """What an iteration that has ended now shows."""
        for resource, factor in slower.items():
            if resource not in self._seen:
                self._seen[resource] = _Direction(self._now_s, self._declared_s)
            bounded = min(_MOST, max(_LEAST, factor))
            self._seen[resource].add(bounded, now_s, now_s - self._now_s, self._alike)
        self._now_s = now_s

    @property
    def recent(self) -> dict[int, float]:
        """The median of the last iterations."""
        return {resource: statistics.median(seen.last) for resource, seen in self._seen.items()}

    @property
    def mean(self) -> dict[int, float]:
        """The mean of all rates that were seen or declared, over time."""
        return {resource: seen.seconds / seen.at_full_rate_s for resource, seen in self._seen.items()}

    def believed(self, now_s: float) -> dict[int, float]:
        """What the last iteration showed, and what to hope for of links that have not been used for long."""
        mean = self.mean
        return {
            resource: seen.last[-1] if now_s - seen.at_s <= seen.at_s - seen.since_s else min(1.0, mean[resource])
            for resource, seen in self._seen.items()
        }


class _Direction:
    """The factors of one direction of a link: the last ones, since when they have been alike, and all over time."""

    def __init__(self, now_s: float, declared_s: float) -> None:
        self.last: deque[float] = deque(maxlen=WINDOW)
        self.seconds = self.at_full_rate_s = declared_s
        self.since_s = self.at_s = now_s

    def add(self, factor: float, now_s: float, took_s: float, alike: float) -> None:
        """One more iteration, which took so long and has ended now."""
        if self.last and max(factor / self.last[-1], self.last[-1] / factor) > alike:
            self.since_s = self.at_s  # from the end of the iteration before
        self.last.append(factor)
        self.seconds, self.at_full_rate_s = self.seconds + took_s, self.at_full_rate_s + took_s / factor
        self.at_s = now_s


def with_measured_bandwidth(cluster: Cluster, slower: Slower) -> Cluster:
    """The cluster with the bandwidth that its links really have; a direction that did not show is like the other."""
    links = []
    for k, link in enumerate(cluster.links):
        seen = [slower[resource] for resource in (2 * k, 2 * k + 1) if resource in slower]
        up, down = (slower.get(2 * k, seen[0]), slower.get(2 * k + 1, seen[0])) if seen else (1.0, 1.0)
        if link.bandwidth_bps is not None and max(up, down) < _ALIKE * min(up, down):
            up = down = (up + down) / 2
        links.append(link.scaled(1 / up, 1 / down) if seen else link)
    return with_links(cluster, links)
