"""What a list of parts costs at least, from its work alone: brute force need not play what cannot be better.

A node computes no faster than its work allows, nor does a link send; and a part's own calls and transfers follow one
another. A plan lasts no longer than all of them one after the other, which bounds its power from below.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from palmette.plan.core.delivery import may_be_kept
from palmette.plan.core.strategy import Task
from palmette.spec.goal import Quantity

Way = tuple[str, tuple[str, ...], int]  # a source, the node of each layer, and samples


class Work(NamedTuple):
    """What samples of one way bring: seconds of nodes and links, joules, nodes, and seconds one after the other."""

    seconds: dict[str | int, float]
    joules: float
    nodes: frozenset[str]
    chain_s: float
    longest_s: float


class WorkBound:
    """Lower bounds for one task; its nodes have a power that grows linearly with their load."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._powers = {name: node.power for name, node in task.cluster.nodes.items() if node.power is not None}
        self.work = cache(self._work)
        self._exchange_s = self._longest_exchange_s()
        self._first_exchange_s = self._shortest_exchange_s(8 * task.profile.layers[0].parameter_bytes)

    def least(self, ways: Sequence[Way]) -> dict[Quantity, float]:
        """The least of each goal for so many samples along each of some ways."""
        works = [self.work(way) for way in ways]
        seconds: dict[str | int, float] = {}
        for work in works:
            for name, each in work.seconds.items():
                seconds[name] = seconds.get(name, 0.0) + each
        time_s = max(self._chains_s(ways, works), *seconds.values())
        idle_w = sum(self._powers[name].idle_w for name in frozenset().union(*(work.nodes for work in works)))
        joules = sum(work.joules for work in works)
        energy_j = idle_w * time_s + joules
        most_s = sum(work.longest_s for work in works) + self._exchange_s
        return {"time": time_s, "energy": energy_j, "edp": energy_j * time_s, "power": idle_w + joules / most_s}

    def _chains_s(self, ways: Sequence[Way], works: Sequence[Work]) -> float:
        """The longest of the chains; where two nodes hold the first layer, one of them exchanges it after its own."""
        chains = [work.chain_s for work in works]
        if len({nodes[0] for _, nodes, _ in ways}) == 1:
            return max(chains)
        return max(*chains, min(chains) + self._first_exchange_s)

    def _work(self, way: Way) -> Work:
        source, nodes, samples = way
        seconds: dict[str | int, float] = {}
        joules = chain_s = longest_s = 0.0
        for node, full_s, call_s, update_s in self._calls(nodes, samples):
            share = self._task.cluster.nodes[node].limits.cpu_share
            seconds[node] = seconds.get(node, 0.0) + full_s
            joules += (self._powers[node].busy_w - self._powers[node].idle_w) * full_s
            chain_s += (full_s + call_s) / share
            longest_s += (full_s + call_s + update_s) / share
        for a, b, bits, fraction, raw in self._transfers(source, nodes, samples):
            route = self._task.evaluator.route(a, b)
            for resource in route.resources:
                rate = self._task.evaluator.routes.capacities[resource]
                seconds[resource] = seconds.get(resource, 0.0) + fraction * bits / rate
            joules += fraction * bits * route.energy_j_per_bit
            longest_s += route.latency_s + bits / route.bandwidth_bps
            chain_s += 0.0 if raw else route.latency_s + bits / route.bandwidth_bps
        return Work(seconds, joules, frozenset((source, *nodes)), chain_s, longest_s)

    def _calls(self, nodes: Sequence[str], samples: int) -> Iterator[tuple[str, float, float, float]]:
        """The node of each layer, its seconds at full CPU, the fixed parts of its calls, and an update."""
        for layer, node in enumerate(nodes):
            times = self._task.profile.nodes[node]
            fixed = sum(each[layer] for each in (times.forward_call_s, times.backward_call_s) if each)
            yield node, samples * (times.forward_s[layer] + times.backward_s[layer]), fixed, times.update_s[layer]

    def _transfers(
        self, source: str, nodes: Sequence[str], samples: int
    ) -> Iterator[tuple[str, str, float, float, bool]]:
        """From where to where, the bits, in which fraction of the iterations at least, and whether it is raw data.

        Raw data may travel ahead, so that no call waits for it.
        """
        if nodes[0] != source:
            kept = may_be_kept(source, self._task.cluster)
            bits = 8 * samples * self._task.evaluator.sizes().sample_bytes(source)
            yield source, nodes[0], bits, 1 / self._task.horizon if kept else 1.0, True
        for layer, (a, b) in enumerate(itertools.pairwise(nodes)):
            if a != b:
                bits = 8 * samples * self._task.profile.layers[layer].output_bytes
                yield a, b, bits, 1.0, False
                yield b, a, bits, 1.0, False

    def _longest_exchange_s(self) -> float:
        """Seconds to send all gradients from every node to every other and back, one after the other."""
        bits = 8 * sum(layer.parameter_bytes for layer in self._task.profile.layers)
        names = self._task.cluster.nodes
        routes = [self._task.evaluator.route(a, b) for a in names for b in names if a != b]
        return sum(
            2 * len(self._task.profile.layers) * route.latency_s + bits / route.bandwidth_bps for route in routes
        )

    def _shortest_exchange_s(self, bits: float) -> float:
        """Seconds to send so many bits from some node to another and back."""
        names = self._task.cluster.nodes
        both = [
            (self._task.evaluator.route(a, b), self._task.evaluator.route(b, a)) for a in names for b in names if a != b
        ]
        return min(sum(route.latency_s + bits / route.bandwidth_bps for route in pair) for pair in both)


def may_be_better(least: dict[Quantity, float], known: Iterable[tuple[Quantity, float]]) -> bool:
    """Whether a plan with such bounds may be better than what is known, for any of the goals."""
    return any(least[goal] < value for goal, value in known)
