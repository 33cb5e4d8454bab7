"""A lower bound of a tree's energy, whatever its mapping, shares and contention; and a mapping close to it.

Idle power P of the nodes in use counts for the whole iteration, which lasts at least as long as any weighted mean of
the paths of the feeds: T ≥ Σ π_d t_d. Time beyond the deadline is priced too, at Λ − P. At these prices layers cost
what ``layer_costs`` says, independently of one another, and the cheapest mapping follows by dynamic programming:

    E ≥ min over mappings of Σ costs(Λ π) − (Λ − P) T_max           for any Λ ≥ P and any weights π

Prices are raised on paths that are too long. The exchange of gradients is ignored.
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
from palmette.plan.righttrain.trees import GroupingTree, RankedTree

_FEW_NODES = 7
_FEW_FEEDS = 8
_ROUNDS = 5
TIME_ONLY_W = 1e15
"""A price of time at which energy is negligible."""


@dataclass(frozen=True)
class MappingBound:
    """A lower bound of the joules of the whole training on some nodes, its prices, and the cheapest mapping."""

    joules: float
    nodes: tuple[int, ...]
    prices: TimePrices
    mapping: Mapping


class MappingBounds:
    """Lower bounds of the trees of one problem."""

    def __init__(self, problem: RightTrainProblem) -> None:
        self._problem = problem
        self.few_nodes = len(problem.compute_nodes) <= _FEW_NODES
        self._costs: dict[tuple[int, ...], LayerCosts] = {}

    def lower_bounds(self, ranked: RankedTree) -> list[MappingBound]:
        """A bound of the tree for each set of nodes, lowest first, without sets that are too slow.

        Where there are too many sets, one bound for all of them.
        """
        found = [self._lower_bound(ranked, nodes) for nodes in self._node_sets(ranked.tree)]
        return sorted((bound for bound in found if bound is not None), key=lambda bound: bound.joules)

    def costs(self, nodes: tuple[int, ...]) -> LayerCosts:
        """The costs among some nodes."""
        if nodes not in self._costs:
            self._costs[nodes] = LayerCosts(self._problem, list(nodes), charge_idle_when_busy=not self.few_nodes)
        return self._costs[nodes]

    def _node_sets(self, tree: GroupingTree) -> Iterator[tuple[int, ...]]:
        """The sets of nodes that may be used: those of the sources, and any others."""
        problem = self._problem
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

    def idle_w(self, tree: GroupingTree, nodes: Sequence[int]) -> float:
        """The idle power of the sources in use, and of the other nodes where their set is fixed."""
        own = {self._problem.feed_nodes[feed] for feed in tree.feeds}
        return float(sum(self._problem.idle_w[node] for node in (own | set(nodes) if self.few_nodes else own)))

    def refined(self, ranked: RankedTree, bound: MappingBound) -> MappingBound | None:
        """A tighter bound, with better prices; None where it shows that the tree is too slow."""
        if not self.few_nodes or self._too_slow(ranked, self.time_tables(ranked.tree, bound.nodes)):
            return bound if not self.few_nodes else None
        return self._raise_prices_from(ranked, bound.nodes, bound.prices, _ROUNDS)

    def time_tables(self, tree: GroupingTree, nodes: tuple[int, ...]) -> list[MappingTable]:
        """Tables with a price on time only: on the mean of all paths, and on each feed's path where there are few."""
        feeds = tree.feeds
        fractions = [{feed: float(feed == slow) for feed in feeds} for slow in feeds if 1 < len(feeds) <= _FEW_FEEDS]
        return [
            self._mean_time_table(tree, nodes),
            *(MappingTable(tree, self.costs(nodes), TimePrices(TIME_ONLY_W, each)) for each in fractions),
        ]

    def _mean_time_table(self, tree: GroupingTree, nodes: tuple[int, ...]) -> MappingTable:
        fractions = dict.fromkeys(tree.feeds, 1 / len(tree.feeds))
        return MappingTable(tree, self.costs(nodes), TimePrices(TIME_ONLY_W, fractions))

    def _too_slow(self, ranked: RankedTree, tables: Iterable[MappingTable]) -> bool:
        max_s = self._problem.max_iteration_s(ranked.schedule) * (1 + 1e-9)
        return max_s < math.inf and any(table.total_j() / TIME_ONLY_W > max_s for table in tables)

    def _lower_bound(self, ranked: RankedTree, nodes: tuple[int, ...]) -> MappingBound | None:
        watts, feeds = self.idle_w(ranked.tree, nodes), ranked.tree.feeds
        if math.isfinite(self._problem.max_iteration_s(ranked.schedule)) and self._too_slow(
            ranked, [self._mean_time_table(ranked.tree, nodes)]
        ):
            return None
        return self._raise_prices_from(ranked, nodes, TimePrices(watts, dict.fromkeys(feeds, 1 / len(feeds))), 1)

    def _raise_prices_from(
        self, ranked: RankedTree, nodes: tuple[int, ...], prices: TimePrices, rounds: int
    ) -> MappingBound | None:
        """The best bound of a few rounds, each with higher prices on paths that were too long."""
        tree, many = ranked.tree, ranked.schedule.iterations
        max_s, idle_w = self._problem.max_iteration_s(ranked.schedule), self.idle_w(tree, nodes)
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
    """Higher prices on paths that are too long, lower ones on others; their sum is at least idle power."""
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
    if max_s >= critical_path:  # in time: at most one step back towards idle power
        total_after = max(idle_w, total * math.exp(step * max(-1.0, critical_path / max_s - 1)))
    else:
        total_after = max(idle_w, total)
    return TimePrices(total_after, {feed: each / total for feed, each in watts.items()})
