"""A glance at a plan before the event clock plays it: about how long it must take at least.

What each node computes, what each link carries, and the exchange of the gradients of replicated layers, each as if
nothing else had to be waited for. A tenth of the price's cost; the search does not play what cannot be better.
"""

from __future__ import annotations

from collections.abc import Iterable

from palmette.plan.hybrid_search.paths import State, Way
from palmette.plan.hybrid_search.world import World


class Glance:
    """Sums of layer times and sizes, and routes as they are met."""

    def __init__(self, world: World) -> None:
        prices, sizes = world.task.evaluator, world.task.evaluator.sizes()
        self._prices, self._depth = prices, world.depth
        self._busy = {
            name: [(a + b) / share for a, b in zip(times.forward, times.backward, strict=True)]
            for name, share in world.shares.items()
            for times in [prices.seconds(name)]
        }
        smaller = 1 if world.lossless else 4
        self._bits = [8 * sizes.input_bytes, *(8 * each / smaller for each in sizes.output_bytes[1:])]
        self._plain_bits = [8 * sizes.input_bytes, *(8 * each for each in sizes.output_bytes[1:])]
        self._weights = [sizes.weight_bytes([(1, m)]) for m in range(world.depth + 1)]

    def least_s(self, state: State) -> float:
        """Seconds that an iteration takes at least, or nearly so."""
        busy: dict[str, float] = {}
        loads: dict[int, float] = {}
        for way in state.ways:
            at, before = way.source, 0
            for node, last in way.runs:
                if node != at:
                    bits = self._plain_bits if (at, node) in state.plain else self._bits
                    self._carry(loads, at, node, way.samples * bits[before])
                    if before:
                        self._carry(loads, node, at, way.samples * bits[before])
                sums = self._busy[node]
                busy[node] = busy.get(node, 0.0) + way.samples * (sums[last] - sums[before])
                at, before = node, last
        capacities = self._prices.routes.capacities
        linked = max((bits / capacities[resource] for resource, bits in loads.items()), default=0.0)
        return max(linked, *busy.values(), self._exchange_s(state.ways, busy))

    def likely_s(self, state: State) -> float:
        """Between what it takes at least and what its slowest way takes alone: where lanes may bring it."""
        least_s = self.least_s(state)
        return (least_s + max(least_s, *map(self._alone_s, state.ways))) / 2

    def _alone_s(self, way: Way) -> float:
        """Seconds of a way that has everything to itself, one thing after the other."""
        total, at, before = 0.0, way.source, 0
        for node, last in way.runs:
            sums = self._busy[node]
            total += way.samples * (sums[last] - sums[before])
            if node != at:
                turns = 2 if before else 1
                total += turns * way.samples * self._bits[before] / self._prices.route(at, node).bandwidth_bps
            at, before = node, last
        return total

    def _carry(self, loads: dict[int, float], a: str, b: str, bits: float) -> None:
        for resource in self._prices.route(a, b).resources:
            loads[resource] = loads.get(resource, 0.0) + bits

    def _exchange_s(self, ways: Iterable[Way], busy: dict[str, float]) -> float:
        """For two nodes that hold the same first layers: those gradients there and back, after computing."""
        heads: dict[str, int] = {}
        for way in ways:
            node, last = way.runs[0]
            heads[node] = max(heads.get(node, 0), last)
        if len(heads) < 2:
            return 0.0
        ranked = sorted(heads.items(), key=lambda head: -head[1])
        (a, _), (b, shared) = ranked[0], ranked[1]
        size_bits = 16 * self._weights[shared]
        return min(busy[a], busy[b]) + size_bits / self._prices.route(a, b).bandwidth_bps if size_bits else 0.0
