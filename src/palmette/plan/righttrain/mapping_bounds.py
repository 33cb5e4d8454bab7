"""A lower bound of what a tree costs, whatever its mapping, shares and waiting; and a mapping that nearly costs it.

Idle power P of the nodes in use counts for the whole iteration, which lasts at least as long as any mean of the paths
of the feeds: T ≥ Σ π_d t_d. Time beyond what the deadline allows is priced too, at Λ − P. At these prices the layers
cost what ``costs`` says, each on its own, and the cheapest nodes follow from the leaves up by dynamic programming:

    E ≥ min over mappings of Σ costs(Λ π) − (Λ − P) T_most          for any Λ ≥ P and any weights π

Prices are raised where the paths turn out too long. The exchange of gradients is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from palmette.plan.righttrain.layer_costs import LayerCosts
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_table import MappingTable, TimePrices
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import InstanceTree, RankedTree

_FEW_NODES = 7
_FEW_FEEDS = 8
_ROUNDS = 5
TIME_ONLY_W = 1e15
"""A price of time beside which no energy counts."""


@dataclass(frozen=True)
class MappingBound:
    """A lower bound of the joules of the whole training with some nodes in use, the prices, and their mapping."""

    joules: float
    nodes: tuple[int, ...]
    prices: TimePrices
    mapping: Mapping


class MappingBounds:
    """Lower bounds of trees of one ground."""

    def __init__(self, problem: RightTrainProblem) -> None:
        self._ground = problem
        self.few_nodes = len(problem.compute_nodes) <= _FEW_NODES
        self._costs: dict[tuple[int, ...], LayerCosts] = {}

    def lower_bounds(self, ranked: RankedTree) -> list[MappingBound]:
        """For each set of nodes in use a bound of the tree, the lowest first; sets that cannot be in time left out.

        Where there are too many sets, one bound for all of them.
        """
        found = [self._lower_bound(ranked, nodes) for nodes in self._node_sets(ranked.tree)]
        return sorted((bound for bound in found if bound is not None), key=lambda bound: bound.joules)

    def costs(self, nodes: tuple[int, ...]) -> LayerCosts:
        """The costs among some nodes."""
        if nodes not in self._costs:
            self._costs[nodes] = LayerCosts(self._ground, list(nodes), charge_idle_when_busy=not self.few_nodes)
        return self._costs[nodes]

    def _node_sets(self, tree: InstanceTree) -> Iterator[tuple[int, ...]]:
        """The sets of nodes that may be in use: those of the sources, and any others."""
        problem = self._ground
        own = {problem.feed_nodes[feed] for feed in tree.feeds}
        others = [node for node in problem.compute_nodes if node not in own]
        inner = [node for node in problem.compute_nodes if node in own]
        if not self.few_nodes:
            yield tuple(problem.compute_nodes)
            return
        for many in range(len(others) + 1):
            for chosen in combinations(others, many):
                if inner or chosen:
                    yield tuple(sorted((*inner, *chosen)))

    def idle_w(self, tree: InstanceTree, nodes: Sequence[int]) -> float:
        """The idle power of the sources in use, and of the other nodes where their set is settled."""
        own = {self._ground.feed_nodes[feed] for feed in tree.feeds}
        return float(sum(self._ground.idle_w[node] for node in (own | set(nodes) if self.few_nodes else own)))

    def refined(self, ranked: RankedTree, bound: MappingBound) -> MappingBound | None:
        """The same with better prices, which takes longer; None where it turns out that it cannot be in time."""
        if not self.few_nodes or self._too_slow(ranked, self.time_tables(ranked.tree, bound.nodes)):
            return bound if not self.few_nodes else None
        return self._raise_prices_from(ranked, bound.nodes, bound.prices, _ROUNDS)

    def time_tables(self, tree: InstanceTree, nodes: tuple[int, ...]) -> list[MappingTable]:
        """Tables with nothing but time at a price: the mean of all paths, and each feed's where there are few."""
        feeds = tree.feeds
        fractions = [{feed: float(feed == slow) for feed in feeds} for slow in feeds if 1 < len(feeds) <= _FEW_FEEDS]
        return [
            self._mean_time_table(tree, nodes),
            *(MappingTable(tree, self.costs(nodes), TimePrices(TIME_ONLY_W, each)) for each in fractions),
        ]

    def _mean_time_table(self, tree: InstanceTree, nodes: tuple[int, ...]) -> MappingTable:
        fractions = dict.fromkeys(tree.feeds, 1 / len(tree.feeds))
        return MappingTable(tree, self.costs(nodes), TimePrices(TIME_ONLY_W, fractions))

    def _too_slow(self, ranked: RankedTree, tables: Iterable[MappingTable]) -> bool:
        max_s = self._ground.max_iteration_s(ranked.schedule) * (1 + 1e-9)
        return max_s < math.inf and any(table.total_j() / TIME_ONLY_W > max_s for table in tables)

    def _lower_bound(self, ranked: RankedTree, nodes: tuple[int, ...]) -> MappingBound | None:
        watts, feeds = self.idle_w(ranked.tree, nodes), ranked.tree.feeds
        if math.isfinite(self._ground.max_iteration_s(ranked.schedule)) and self._too_slow(
            ranked, [self._mean_time_table(ranked.tree, nodes)]
        ):
            return None
        return self._raise_prices_from(ranked, nodes, TimePrices(watts, dict.fromkeys(feeds, 1 / len(feeds))), 1)

    def _raise_prices_from(
        self, ranked: RankedTree, nodes: tuple[int, ...], prices: TimePrices, rounds: int
    ) -> MappingBound | None:
        """The best bound of a few rounds, each with more of a price on the paths that were too long."""
        tree, many = ranked.tree, ranked.schedule.iterations
        max_s, idle_w = self._ground.max_iteration_s(ranked.schedule), self.idle_w(tree, nodes)
        best: MappingBound | None = None
        for turn in range(rounds):
            table = MappingTable(tree, self.costs(nodes), prices)
            total_j = table.total_j()
            if not math.isfinite(total_j):
                return None
            over_j = (prices.watts - idle_w) * max_s if prices.watts > idle_w else 0.0
            mapping = table.mapping()
            if best is None or many * (total_j - over_j) > best.joules:
                best = MappingBound(many * (total_j - over_j), nodes, prices, mapping)
            prices = _raise_prices(prices, table.feed_times_s(mapping), idle_w, max_s, 2.0 / (1 + 0.3 * turn))
        return best


def _raise_prices(prices: TimePrices, times: dict[int, float], idle_w: float, max_s: float, step: float) -> TimePrices:
    """Higher prices on paths that are too long, lower ones on those that are not; in all never below idling."""
    critical_path = max(times.values())
    target_s = min(max_s, critical_path)
    if target_s <= 0:
        return prices
    watts = {
        feed: prices.watts * part * math.exp(step * max(-1.0, min(1.0, times[feed] / target_s - 1)))
        for feed, part in prices.fractions.items()
    }
    total = sum(watts.values())
    if total <= 0:
        return TimePrices(max(idle_w, 1e-9), prices.fractions)
    if max_s >= critical_path:  # in time: no more than a step back towards the price of idling
        total_after = max(idle_w, total * math.exp(step * max(-1.0, critical_path / max_s - 1)))
    else:
        total_after = max(idle_w, total)
    return TimePrices(total_after, {feed: each / total for feed, each in watts.items()})
