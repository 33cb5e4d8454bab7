"""Links that are not what the cluster file says: the transfers of a run beside those of its estimate.

A link has drifted when all that goes over it takes much longer, or much shorter, than the evaluator predicted, in the
median of the last iterations. Transfers that share a link at the same time count as one: how they share it is up to the
transport, how long they take together is up to the link. The prediction is scaled to the bytes that were really sent: a
message that is shorter than predicted, as with frozen weights, says nothing about the link. Nor do samples that are
sent ahead: they give way to all others.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palmette.control.adapt.replanning import with_links
from palmette.cost.estimate import Transfer, transfers
from palmette.cost.evaluate import Evaluator
from palmette.runtime.record.activity import covered_s
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase

WINDOW = 5
# Shorter ones say more about the machine than about the link.
_SHORTEST_S = 0.05
# One bandwidth for both directions stays one where they do not differ by more.
_ALIKE = 1.25


class _Arrival(NamedTuple):
    """A message that arrived: when it was sent, when it was there, and its bytes."""

    start_s: float
    end_s: float
    size_bytes: float


class _LinkUse(NamedTuple):
    """Transfers on a link's resource at the same time: their numbers, and their bytes and time by the estimate."""

    resource: int
    transfers: tuple[int, ...]
    size_bytes: float
    predicted_s: float
    latency_s: float

    def ratio(self, arrived: Sequence[_Arrival]) -> float:
        """Measured over predicted time for as many bytes; 1 where there are too few bytes to tell."""
        own = [arrived[k] for k in self.transfers]
        predicted_s = self.predicted_s * sum(each.size_bytes for each in own) / self.size_bytes
        if predicted_s < _SHORTEST_S:
            return 1.0
        measured_s = covered_s([(each.start_s, each.end_s) for each in own]) - self.latency_s
        return max(measured_s, 0.1 * predicted_s) / predicted_s


class LinkSpeeds:
    """Hears of every iteration of a run; ``threshold``: the fraction by which a bandwidth may be off."""

    def __init__(self, phase: Phase, prices: Evaluator, threshold: float) -> None:
        self._prices, self._threshold = prices, threshold
        self._expected = transfers(prices.price(phase))
        self._uses = list(_link_uses(self._expected, prices))
        self._ratios: deque[list[float]] = deque(maxlen=WINDOW)
        self._lock, self._heard = threading.Lock(), list[Mapping[str, Any]]()

    def __call__(self) -> Cluster | None:
        """The cluster with its links' real bandwidths, if one has drifted."""
        for iteration in self._iterations():
            self._record(iteration)
        if len(self._ratios) < WINDOW:
            return None
        off = self.drifted_links([statistics.median(ratios) for ratios in zip(*self._ratios, strict=True)])
        cluster = self._prices.cluster
        return with_measured_bandwidth(cluster, off) if off else None

    def drifted_links(self, ratios: Sequence[float]) -> dict[int, float]:
        """How many times slower than declared each direction of a link is, by its resource; empty where none drifted.

        One that has not drifted counts as declared, and one without transfers that tell is missing.
        """
        by_resource: dict[int, list[float]] = {}
        for use, ratio in zip(self._uses, ratios, strict=True):
            by_resource.setdefault(use.resource, []).append(ratio)
        limit = 1 + self._threshold
        drifted = {
            resource: statistics.median(found)
            for resource, found in by_resource.items()
            if min(found) > limit or max(found) < 1 / limit
        }
        return dict.fromkeys(by_resource, 1.0) | drifted if drifted else {}

    def _record(self, iteration: Sequence[Mapping[str, Any]]) -> None:
        """Keep the ratios of measured to predicted time of an iteration."""
        arrived: dict[tuple[str, str], list[_Arrival]] = {}
        received = [line for line in iteration if line["op"] == "receive"]
        for line in sorted(received, key=lambda line: float(line["start_s"])):
            found = _Arrival(line["start_s"], line["end_s"], line["bytes"])
            arrived.setdefault((line["node"], line["instance"]), []).append(found)
        try:
            messages = [arrived[_receiver(transfer)].pop(0) for transfer in self._expected]
        except (KeyError, IndexError):
            return  # other messages than expected, such as a handover
        self._ratios.append([use.ratio(messages) for use in self._uses])

    def hear(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """What nodes did for an iteration; called from another thread."""
        with self._lock:
            self._heard += operations

    def _iterations(self) -> list[list[Mapping[str, Any]]]:
        """The iterations that were heard of since the last call, except the last, which may be incomplete."""
        found: dict[int, list[Mapping[str, Any]]] = {}
        with self._lock:
            for line in self._heard:
                found.setdefault(line["iteration"], []).append(line)
            self._heard = found.pop(max(found), []) if found else []
        return [found[number] for number in sorted(found)]


def _link_uses(expected: Sequence[Transfer], prices: Evaluator) -> Iterator[_LinkUse]:
    """Overlapping transfers on each link; those too short to say anything about it are left out."""
    routes = [prices.route(transfer.sender, transfer.receiver) for transfer in expected]
    for resource in sorted({resource for route in routes for resource in route.resources}):
        over = [k for k, route in enumerate(routes) if not expected[k].background and resource in route.resources]
        for together in _overlapping(over, expected):
            latency_s = max(routes[k].latency_s for k in together)
            predicted_s = covered_s([(expected[k].start_s, expected[k].end_s) for k in together]) - latency_s
            if predicted_s >= _SHORTEST_S:
                size_bytes = sum(expected[k].size_bytes for k in together)
                yield _LinkUse(resource, tuple(together), size_bytes, predicted_s, latency_s)


def _overlapping(numbers: Sequence[int], expected: Sequence[Transfer]) -> list[list[int]]:
    """Transfers that are under way at the same time, in groups."""
    groups: list[list[int]] = []
    end_s = -math.inf
    for k in sorted(numbers, key=lambda k: expected[k].start_s):
        if expected[k].start_s >= end_s:
            groups.append([])
        groups[-1].append(k)
        end_s = max(end_s, expected[k].end_s)
    return groups


def _receiver(transfer: Transfer) -> tuple[str, str]:
    return transfer.receiver, transfer.instance


def with_measured_bandwidth(cluster: Cluster, off: Mapping[int, float]) -> Cluster:
    """The cluster with the bandwidth that its links really have; a direction that did not show is like the other."""
    links = []
    for k, link in enumerate(cluster.links):
        seen = [off[resource] for resource in (2 * k, 2 * k + 1) if resource in off]
        up, down = (off.get(2 * k, seen[0]), off.get(2 * k + 1, seen[0])) if seen else (1.0, 1.0)
        if link.bandwidth_bps is not None and max(up, down) < _ALIKE * min(up, down):
            up = down = (up + down) / 2
        links.append(link.scaled(1 / up, 1 / down))
    return with_links(cluster, links)
