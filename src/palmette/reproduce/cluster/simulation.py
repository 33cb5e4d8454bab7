"""What a cluster takes by the event clock: all its devices train at once, for many steps.

Each device's steps follow one another; transfers share the links, and the server's updates take turns with the
training of the device that has it. The plan's own estimate plays each device alone, and equation (4) knows none of
this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from palmette.cost.clock import Capacities, Graph, Timing, play
from palmette.cost.energy import load, node_energy_j
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import trees, worker_step
from palmette.cost.steps import Iteration
from palmette.spec.cluster import Node
from palmette.spec.plan import Phase

# The slowest device takes so many steps, unless the fastest would have to take more than so many.
SLOWEST, FASTEST = 5, 1000


class DeviceRate(NamedTuple):
    """A device in a cluster: steps per second, and mean watts."""

    rate: float
    power_w: float


def device_rates(phase: Phase, prices: Evaluator) -> dict[str, DeviceRate]:
    """How fast each device of an ``async`` phase trains, and what it draws, while all of them train."""
    workers = [(tree, worker_step(tree, prices.sizes())) for tree in trees(phase)]
    alone_s = [prices.play(tree, made).total_s for tree, made in workers]
    until_s = min(SLOWEST * max(alone_s), FASTEST * min(alone_s))
    steps = _ConcurrentSteps(prices)
    for (tree, made), step_s in zip(workers, alone_s, strict=True):
        steps.add(tree, made, math.ceil(until_s / step_s) + 1)
    played = steps.played()
    return {
        tree.instances[0].node: steps.rate_of(tree.instances[0].node, k, played, until_s, alone_s[k])
        for k, (tree, _) in enumerate(workers)
    }


class _ConcurrentSteps:
    """The steps of several trees as one graph."""

    def __init__(self, prices: Evaluator) -> None:
        self._prices, self._graph = prices, Graph()
        self._names = list(prices.cluster.nodes)
        self._seconds: list[float] = []
        self._bits: list[float] = []
        self._ends: list[list[int]] = []

    def add(self, tree: Phase, made: Iteration, times: int) -> None:
        """A tree takes so many steps."""
        calls, ends = self._prices.call_seconds(tree, made), []
        before: tuple[int, ...] = ()
        for _ in range(times):
            offset = len(self._seconds)
            for number, step in enumerate(made.steps):
                after = [offset + each for each in step.after] or before
                if step.to is None:
                    self._graph.add_call(after, self._names.index(step.node), 1.0)
                    self._seconds.append(calls[number])
                else:
                    route = self._prices.route(step.node, step.to)
                    self._graph.add_transfer(after, route.resources)
                    self._seconds.append(route.latency_s)
                self._bits.append(8 * made.size_bytes[number])
            before = (len(self._seconds) - 1,)  # the server's update is the last of a step
            ends.append(before[0])
        self._ends.append(ends)

    def played(self) -> Timing:
        """When everything happens."""
        limits = [node.limits.cpu_share for node in self._prices.cluster.nodes.values()]
        return play(self._graph, self._seconds, self._bits, limits, Capacities(self._prices.routes.capacities))

    def rate_of(self, node: str, tree: int, played: Timing, until_s: float, alone_s: float) -> DeviceRate:
        """Steps per second and watts of a node up to a moment; as if alone where it is too slow to be seen."""
        ends = [played.end_s[k] for k in self._ends[tree] if played.end_s[k] <= until_s]
        rate = (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 2 else 1 / alone_s
        at = self._names.index(node)
        calls = [(played.start_s[k], played.end_s[k]) for k, host in enumerate(self._graph.node) if host == at]
        return DeviceRate(rate, mean_power_w(self._prices.cluster.nodes[node], calls, until_s))


def mean_power_w(node: Node, calls: Iterable[tuple[float, float]], until_s: float) -> float:
    """Mean watts of a node that computes from start to end of each call, one at a time, up to a moment."""
    assert node.power is not None, "the catalogue knows every machine's"
    clipped = [(start_s, min(end_s, until_s), 1.0) for start_s, end_s in calls if start_s < until_s]
    return node_energy_j(node.power, until_s, load(clipped, node.power.exponent).effort_s) / until_s
