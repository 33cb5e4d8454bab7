"""What links really reach: the transfers of a run beside those of its estimate.

A direction of a link is so many times slower than the cluster says as all that goes over it in an iteration takes
longer than the evaluator predicts. Transfers that share a link at the same time count as one: how they share it is up
to the transport, how long they take together is up to the link. The prediction is scaled to the bytes that were really
sent: a message that is shorter than predicted, as with frozen weights, says nothing about the link. Nor do samples that
are sent ahead: they give way to all others.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palmette.cost.estimate import Transfer, transfers
from palmette.cost.evaluate import Evaluator
from palmette.runtime.record.activity import covered_s
from palmette.spec.plan import Phase

# Shorter ones say more about the machine than about the link.
_SHORTEST_S = 0.05


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

    def times_s(self, arrived: Sequence[_Arrival]) -> tuple[float, float]:
        """Measured and predicted time of as many bytes; nothing where there are too few bytes to tell."""
        own = [arrived[k] for k in self.transfers]
        predicted_s = self.predicted_s * sum(each.size_bytes for each in own) / self.size_bytes
        if predicted_s < _SHORTEST_S:
            return 0.0, 0.0
        measured_s = covered_s([(each.start_s, each.end_s) for each in own]) - self.latency_s
        return max(measured_s, 0.1 * predicted_s), predicted_s


class Observed(NamedTuple):
    """An iteration: how many times slower than predicted each resource of links that it used was, and when it ended."""

    slower: dict[int, float]
    end_s: float


class LinkSpeeds:
    """Hears of every iteration of a run of a phase, priced by ``prices``."""

    def __init__(self, phase: Phase, prices: Evaluator) -> None:
        self._expected = transfers(prices.price(phase))
        self._uses = list(_link_uses(self._expected, prices))
        self._lock, self._heard, self._told = threading.Lock(), list[Mapping[str, Any]](), -1

    def __call__(self) -> list[Observed]:
        """The iterations that have ended since the last call."""
        found = [self._observed(iteration) for iteration in self._iterations()]
        return [each for each in found if each is not None]

    def _observed(self, iteration: Sequence[Mapping[str, Any]]) -> Observed | None:
        """What an iteration shows; None where its messages are others than expected, as with a handover."""
        messages = self._messages(iteration)
        if messages is None:
            return None
        measured_s, predicted_s = dict[int, float](), dict[int, float]()
        for use in self._uses:
            measured, predicted = use.times_s(messages)
            measured_s[use.resource] = measured_s.get(use.resource, 0.0) + measured
            predicted_s[use.resource] = predicted_s.get(use.resource, 0.0) + predicted
        slower = {resource: measured_s[resource] / each_s for resource, each_s in predicted_s.items() if each_s}
        return Observed(slower, max(float(line["end_s"]) for line in iteration))

    def _messages(self, iteration: Sequence[Mapping[str, Any]]) -> list[_Arrival] | None:
        """The expected messages as they arrived; None where one is missing."""
        arrived: dict[tuple[str, str], list[_Arrival]] = {}
        received = [line for line in iteration if line["op"] == "receive"]
        for line in sorted(received, key=lambda line: float(line["start_s"])):
            found = _Arrival(line["start_s"], line["end_s"], line["bytes"])
            arrived.setdefault((line["node"], line["instance"]), []).append(found)
        try:
            return [arrived[_receiver(transfer)].pop(0) for transfer in self._expected]
        except (KeyError, IndexError):
            return None

    def hear(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """What nodes did for an iteration; called from another thread."""
        with self._lock:
            self._heard += operations

    def _iterations(self) -> list[list[Mapping[str, Any]]]:
        """The iterations that were heard of since the last call; the last one only where all its messages are there."""
        found: dict[int, list[Mapping[str, Any]]] = {}
        with self._lock:
            for line in self._heard:
                if line["iteration"] > self._told:
                    found.setdefault(line["iteration"], []).append(line)
            self._heard = []
            if found and self._messages(found[max(found)]) is None:
                self._heard = found.pop(max(found))
            self._told = max(found, default=self._told)
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
