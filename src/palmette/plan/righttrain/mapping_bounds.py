"""A lower bound of a tree's energy, whatever its mapping, shares and contention; and a mapping close to it.

Idle power P of the nodes in use counts for the whole iteration, which lasts at least as long as any weighted mean of
the paths of the feeds: T ≥ Σ π_d t_d. Time beyond the deadline is priced too, at Λ − P. At these prices layers cost
what ``layer_costs`` says, independently of one another, and the cheapest mapping follows by dynamic programming:

    E ≥ min over mappings of Σ costs(Λ π) − (Λ − P) T_max           for any Λ ≥ P and any weights π

Prices are raised on paths that are too long. Where the cheapest mapping has groups side by side on a node whose power
rises faster than its load, the bound is worked out with that node's power at a mean load, too (``layer_costs``), and
the higher one counts. The exchange of gradients is ignored. For a box of splits of the batch, the least of all corners
and the fewest iterations of any split are a bound of them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from palmette.plan.righttrain.data_amounts import Split, SplitBox
from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.layer_costs import LayerCosts
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_table import MappingTable, TimePrices
from palmette.plan.righttrain.mean_loads import mean_loads, within_idle_power
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.split_costs import cheapest_in_box
from palmette.plan.righttrain.trees import GroupingTree, RankedTree

_FEW_NODES = 7
_FEW_FEEDS = 8
_ROUNDS = 5
_LOAD_ROUNDS = 3
"""Tries of other mean loads."""
_KEPT_COSTS = 2000
TIME_ONLY_W = 1e15
"""A price of time at which energy is negligible."""


@dataclass(frozen=True)
class BoxedTree:
    """A tree with a box of splits of the batch, and a schedule with at most the iterations of any of them."""

    tree: GroupingTree
    box: SplitBox
    schedule: Schedule

    @classmethod
    def of(cls, ranked: RankedTree) -> BoxedTree:
        """A tree with one split."""
        return cls(ranked.tree, SplitBox.of_split(ranked.schedule.split), ranked.schedule)


@dataclass(frozen=True)
class MappingBound:
    """A lower bound of the joules of the whole training on some nodes, its prices, and the cheapest mapping."""

    joules: float
    nodes: tuple[int, ...]
    prices: TimePrices
    mapping: Mapping
    split: Split
    """The split that the bound comes from."""
    loads: tuple[float, ...] = ()
    """The mean loads of nodes whose calls count together (``LayerCosts.loads``)."""


class MappingBounds:
    """Lower bounds of the trees of one problem."""

    def __init__(self, problem: RightTrainProblem) -> None:
        self._problem = problem
        self.few_nodes = len(problem.compute_nodes) <= _FEW_NODES
        self._costs: dict[tuple[tuple[int, ...], tuple[float, ...]], LayerCosts] = {}

    def boxed(self, tree: GroupingTree, box: SplitBox) -> BoxedTree | None:
        """A tree with a box of splits; None where no split of the box reaches the loss."""
        schedule = self._problem.fewest_iterations(tree.feeds, tree.replicas, box)
        return None if schedule is None else BoxedTree(tree, box, schedule)

    def lower_bounds(self, boxed: BoxedTree) -> list[MappingBound]:
        """A bound of the tree for each set of nodes, lowest first, without sets that are too slow.

        Where there are too many sets, one bound for all of them.
        """
        found = [self.lower_bound(boxed, nodes) for nodes in self._node_sets(boxed.tree)]
        return sorted((bound for bound in found if bound is not None), key=lambda bound: bound.joules)

    def costs(self, nodes: tuple[int, ...], loads: tuple[float, ...] = ()) -> LayerCosts:
        """The costs among some nodes, with the calls of some of them together."""
        if (nodes, loads) not in self._costs:
            if len(self._costs) > _KEPT_COSTS:
                self._costs.clear()
            self._costs[nodes, loads] = LayerCosts(self._problem, list(nodes), not self.few_nodes, loads)
        return self._costs[nodes, loads]

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

    def idle_w(self, tree: GroupingTree, nodes: tuple[int, ...], loads: tuple[float, ...] = ()) -> float:
        """The idle power of the sources in use, and of the other nodes where their set is fixed.

        With mean loads, less what their tangents take off the price of time.
        """
        own = {self._problem.feed_nodes[feed] for feed in tree.feeds}
        used = own | set(nodes) if self.few_nodes else own
        idle_w = float(sum(self._problem.idle_w[node] for node in used))
        return idle_w + float((self.costs(nodes, loads).idle_w - self._problem.idle_w[list(nodes)]).sum())

    def refined(self, boxed: BoxedTree, bound: MappingBound, rounds: int = _ROUNDS) -> MappingBound | None:
        """A tighter bound, with better prices; None where it shows that the tree is too slow."""
        if not self.few_nodes:
            return bound
        raised, late = self._raise_prices_from(boxed, bound.nodes, bound.prices, rounds, bound.loads)
        each = late if 1 < len(boxed.tree.feeds) <= _FEW_FEEDS else ()
        if any(self._too_slow(boxed, bound.nodes, _on_one_path(boxed.tree, feed)) for feed in each):
            return None
        return None if raised is None else self._with_mean_loads(boxed, raised, rounds)

    def repriced(self, boxed: BoxedTree, bound: MappingBound) -> MappingBound | None:
        """A tighter bound by better prices alone, whatever the number of nodes; None where there is no mapping."""
        return self._raise_prices_from(boxed, bound.nodes, bound.prices, _ROUNDS)[0]

    def _with_mean_loads(self, boxed: BoxedTree, bound: MappingBound, rounds: int) -> MappingBound:
        """The same where calls side by side on a node count together, if that is higher."""
        best, found = bound, bound
        for _ in range(_LOAD_ROUNDS if rounds >= _ROUNDS else 1):
            loads = self._loads_of(boxed, found)
            if not any(loads):
                break
            watts = max(found.prices.watts, self.idle_w(boxed.tree, found.nodes, loads))
            prices = TimePrices(watts, found.prices.fractions)
            if math.isinf(self._problem.max_iteration_s(boxed.schedule)):
                prices = TimePrices(self.idle_w(boxed.tree, found.nodes, loads), found.prices.fractions)
            raised, _ = self._raise_prices_from(boxed, bound.nodes, prices, max(2, rounds - 2), loads)
            if raised is None:
                break
            best, found = max(best, raised, key=lambda each: each.joules), raised
        return best

    def _loads_of(self, boxed: BoxedTree, bound: MappingBound) -> tuple[float, ...]:
        """The mean loads of nodes with groups side by side in the bound's mapping."""
        table = MappingTable(boxed.tree, bound.split, self.costs(bound.nodes, bound.loads), bound.prices)
        max_s = self._problem.max_iteration_s(boxed.schedule)
        loads = mean_loads(table, bound.mapping, max_s, bound.loads)
        if not any(loads) or math.isfinite(max_s):
            return loads
        return within_idle_power(self.costs(bound.nodes), loads, self.idle_w(boxed.tree, bound.nodes))

    def time_tables(self, tree: GroupingTree, split: Split, nodes: tuple[int, ...]) -> list[MappingTable]:
        """Tables with a price on time only: on the mean of all paths, and on each feed's path where there are few."""
        alone = tree.feeds if 1 < len(tree.feeds) <= _FEW_FEEDS else ()
        weighings = [_on_all_paths(tree), *(_on_one_path(tree, feed) for feed in alone)]
        return [MappingTable(tree, split, self.costs(nodes), TimePrices(TIME_ONLY_W, each)) for each in weighings]

    def _too_slow(self, boxed: BoxedTree, nodes: tuple[int, ...], fractions: dict[int, float]) -> bool:
        max_s = self._problem.max_iteration_s(boxed.schedule) * (1 + 1e-9)
        if math.isinf(max_s):
            return False
        least_j, _ = cheapest_in_box(boxed.tree, boxed.box, self.costs(nodes), TimePrices(TIME_ONLY_W, fractions))
        return least_j / TIME_ONLY_W > max_s

    def lower_bound(self, boxed: BoxedTree, nodes: tuple[int, ...]) -> MappingBound | None:
        """A quick bound of the tree on some nodes; None where it is too slow."""
        watts, fractions = self.idle_w(boxed.tree, nodes), _on_all_paths(boxed.tree)
        if self._too_slow(boxed, nodes, fractions):
            return None
        return self._raise_prices_from(boxed, nodes, TimePrices(watts, fractions), 1)[0]

    def _cheapest(self, boxed: BoxedTree, costs: LayerCosts, prices: TimePrices) -> tuple[float, MappingTable]:
        """A lower bound of the cost of every split of a box, and the table of the split that it comes from."""
        if boxed.box.is_single:
            table = MappingTable(boxed.tree, boxed.box.least, costs, prices)
            return table.total_j(), table
        total_j, split = cheapest_in_box(boxed.tree, boxed.box, costs, prices)
        return total_j, MappingTable(boxed.tree, split, costs, prices)

    def _raise_prices_from(
        self,
        boxed: BoxedTree,
        nodes: tuple[int, ...],
        prices: TimePrices,
        rounds: int,
        loads: tuple[float, ...] = (),
    ) -> tuple[MappingBound | None, set[int]]:
        """The best bound of a few rounds, each with higher prices on paths that were too long.

        Also the feeds that were late in each of them: only these may be too slow whatever the mapping.
        """
        tree, many = boxed.tree, boxed.schedule.iterations
        max_s, idle_w = self._problem.max_iteration_s(boxed.schedule), self.idle_w(tree, nodes, loads)
        best: MappingBound | None = None
        late = set(tree.feeds)
        for turn in range(rounds):
            total_j, table = self._cheapest(boxed, self.costs(nodes, loads), prices)
            if not math.isfinite(total_j):
                return None, late
            over_j = (prices.watts - idle_w) * max_s if prices.watts > idle_w else 0.0
            mapping = table.mapping()
            if best is None or many * (total_j - over_j) > best.joules:
                best = MappingBound(many * (total_j - over_j), nodes, prices, mapping, table.split, loads)
            times = table.feed_times_s(mapping)
            late -= {feed for feed, time_s in times.items() if time_s <= max_s}
            prices = _raise_prices(prices, times, idle_w, max_s, 2.0 / (1 + 0.3 * turn))
        return best, late


def _on_all_paths(tree: GroupingTree) -> dict[int, float]:
    return dict.fromkeys(tree.feeds, 1 / len(tree.feeds))


def _on_one_path(tree: GroupingTree, slow: int) -> dict[int, float]:
    return {feed: float(feed == slow) for feed in tree.feeds}


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
