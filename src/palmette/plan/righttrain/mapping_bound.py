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

import numpy as np

from palmette.plan.righttrain.layer_costs import Costs, Layered
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.problem import Floats, Ground
from palmette.plan.righttrain.trees import Ranked, Tree

_FEW_NODES = 7
_FEW_FEEDS = 8
_ROUNDS = 5
ONLY_TIME_W = 1e15
"""A price of time beside which no energy counts."""


@dataclass(frozen=True)
class Prices:
    """The price of a second: Λ, and the part of it on the path of each feed."""

    watts: float
    parts: dict[int, float]


@dataclass(frozen=True)
class Bound:
    """A lower bound of the joules of the whole training with some nodes in use, the prices, and their mapping."""

    joules: float
    nodes: tuple[int, ...]
    prices: Prices
    mapping: Mapping


class Table:
    """The cheapest way to map what feeds each group, for each node of the group: by layer and group."""

    def __init__(self, tree: Tree, costs: Costs, prices: Prices) -> None:
        self.tree, self.costs, self.prices = tree, costs, prices
        self._samples = costs.ground.batch_of(tree.feeds)
        self.below: list[list[Floats]] = []
        for layer in range(len(tree.groupings)):
            self.below.append([self._value(layer, k) for k in range(len(tree.groupings[layer]))])

    def samples(self, layer: int, k: int) -> int:
        """Samples of an iteration that reach a group."""
        return sum(self._samples[feed] for feed in self.tree.groupings[layer][k])

    def samples_of(self, feed: int) -> int:
        """Samples of an iteration from a feed."""
        return self._samples[feed]

    def price_w(self, layer: int, k: int) -> float:
        """The price of a second on the paths through a group."""
        return self.prices.watts * sum(self.prices.parts[feed] for feed in self.tree.groupings[layer][k])

    def passing_j(self, layer: int, k: int) -> Floats:
        """What a group's output and gradient cost between any two nodes."""
        time_s, joules = self.costs.way(layer, self.samples(layer, k))
        return self._priced(self.price_w(layer, k), time_s) + joules

    def data_j(self, feed: int) -> Floats:
        """What a feed's data costs to any node."""
        time_s, joules = self.costs.data(feed, self._samples[feed])
        return self._priced(self.prices.watts * self.prices.parts[feed], time_s) + joules

    @staticmethod
    def _priced(watts: float, time_s: Floats) -> Floats:
        return watts * time_s if watts else np.where(np.isfinite(time_s), 0.0, np.inf)

    def own_j(self, layer: int, k: int) -> Floats:
        """What a group's layer costs on each node."""
        return self.layered(layer, k).cost_j

    def layered(self, layer: int, k: int) -> Layered:
        """A group's layer on each node."""
        replicas = len(self.tree.groupings[layer])
        return self.costs.layer(layer, self.samples(layer, k), self.price_w(layer, k), replicas)

    def _value(self, layer: int, k: int) -> Floats:
        total = self.own_j(layer, k).copy()
        if layer == 0:
            for feed in self.tree.groupings[0][k]:
                total += self.data_j(feed)
            return total
        for child in self.tree.children[layer - 1][k]:
            total += (self.below[layer - 1][child][:, None] + self.passing_j(layer - 1, child)).min(axis=0)
        return total

    def total_j(self) -> float:
        """The cost of the cheapest mapping."""
        return float(sum(values.min() for values in self.below[-1]))

    def mapping(self) -> Mapping:
        """The cheapest mapping, as numbers of the cluster's nodes."""
        chosen = [[0] * len(groups) for groups in self.tree.groupings]
        chosen[-1] = [int(values.argmin()) for values in self.below[-1]]
        for layer in reversed(range(len(chosen) - 1)):
            for k, into in enumerate(self.tree.parents[layer]):
                onto = chosen[layer + 1][into]
                chosen[layer][k] = int((self.below[layer][k] + self.passing_j(layer, k)[:, onto]).argmin())
        return tuple(tuple(self.costs.nodes[node] for node in nodes) for nodes in chosen)

    def feed_times_s(self, mapping: Mapping) -> dict[int, float]:
        """How long each feed's path is in a mapping, with the shares of these prices."""
        index = {node: k for k, node in enumerate(self.costs.nodes)}
        times = {}
        for feed in self.tree.feeds:
            total, before = 0.0, None
            for layer, groups in enumerate(self.tree.groupings):
                k = next(k for k, group in enumerate(groups) if feed in group)
                node = index[mapping[layer][k]]
                if before is None:
                    total += float(self.costs.data(feed, self._samples[feed])[0][node])
                else:
                    total += float(self.costs.way(layer - 1, self.samples(layer - 1, before[0]))[0][before[1], node])
                total += float(self.layered(layer, k).time_s[node])
                before = (k, node)
            times[feed] = total
        return times


class Bounds:
    """Lower bounds of trees of one ground."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.settled = len(ground.computing) <= _FEW_NODES
        self._costs: dict[tuple[int, ...], Costs] = {}

    def of(self, ranked: Ranked) -> list[Bound]:
        """For each set of nodes in use a bound of the tree, the lowest first; sets that cannot be in time left out.

        Where there are too many sets, one bound for all of them.
        """
        found = [self._bound(ranked, nodes) for nodes in self._sets(ranked.tree)]
        return sorted((bound for bound in found if bound is not None), key=lambda bound: bound.joules)

    def costs(self, nodes: tuple[int, ...]) -> Costs:
        """The costs among some nodes."""
        if nodes not in self._costs:
            self._costs[nodes] = Costs(self._ground, list(nodes), watts_when_busy=not self.settled)
        return self._costs[nodes]

    def _sets(self, tree: Tree) -> Iterator[tuple[int, ...]]:
        """The sets of nodes that may be in use: those of the sources, and any others."""
        ground = self._ground
        own = {ground.feed_nodes[feed] for feed in tree.feeds}
        others = [node for node in ground.computing if node not in own]
        inner = [node for node in ground.computing if node in own]
        if not self.settled:
            yield tuple(ground.computing)
            return
        for many in range(len(others) + 1):
            for chosen in combinations(others, many):
                if inner or chosen:
                    yield tuple(sorted((*inner, *chosen)))

    def idle_w(self, tree: Tree, nodes: Sequence[int]) -> float:
        """The idle power of the sources in use, and of the other nodes where their set is settled."""
        own = {self._ground.feed_nodes[feed] for feed in tree.feeds}
        return float(sum(self._ground.idle_w[node] for node in (own | set(nodes) if self.settled else own)))

    def refined(self, ranked: Ranked, bound: Bound) -> Bound | None:
        """The same with better prices, which takes longer; None where it turns out that it cannot be in time."""
        if not self.settled or self._too_slow(ranked, self.timed(ranked.tree, bound.nodes)):
            return bound if not self.settled else None
        return self._raised(ranked, bound.nodes, bound.prices, _ROUNDS)

    def timed(self, tree: Tree, nodes: tuple[int, ...]) -> list[Table]:
        """Tables with nothing but time at a price: the mean of all paths, and each feed's where there are few."""
        feeds = tree.feeds
        parts = [{feed: float(feed == slow) for feed in feeds} for slow in feeds if 1 < len(feeds) <= _FEW_FEEDS]
        return [
            self._timed(tree, nodes),
            *(Table(tree, self.costs(nodes), Prices(ONLY_TIME_W, each)) for each in parts),
        ]

    def _timed(self, tree: Tree, nodes: tuple[int, ...]) -> Table:
        parts = dict.fromkeys(tree.feeds, 1 / len(tree.feeds))
        return Table(tree, self.costs(nodes), Prices(ONLY_TIME_W, parts))

    def _too_slow(self, ranked: Ranked, tables: Iterable[Table]) -> bool:
        most_s = self._ground.most_s(ranked.schedule) * (1 + 1e-9)
        return most_s < math.inf and any(table.total_j() / ONLY_TIME_W > most_s for table in tables)

    def _bound(self, ranked: Ranked, nodes: tuple[int, ...]) -> Bound | None:
        watts, feeds = self.idle_w(ranked.tree, nodes), ranked.tree.feeds
        if math.isfinite(self._ground.most_s(ranked.schedule)) and self._too_slow(
            ranked, [self._timed(ranked.tree, nodes)]
        ):
            return None
        return self._raised(ranked, nodes, Prices(watts, dict.fromkeys(feeds, 1 / len(feeds))), 1)

    def _raised(self, ranked: Ranked, nodes: tuple[int, ...], prices: Prices, rounds: int) -> Bound | None:
        """The best bound of a few rounds, each with more of a price on the paths that were too long."""
        tree, many = ranked.tree, ranked.schedule.iterations
        most_s, idle_w = self._ground.most_s(ranked.schedule), self.idle_w(tree, nodes)
        best: Bound | None = None
        for turn in range(rounds):
            table = Table(tree, self.costs(nodes), prices)
            total_j = table.total_j()
            if not math.isfinite(total_j):
                return None
            over_j = (prices.watts - idle_w) * most_s if prices.watts > idle_w else 0.0
            mapping = table.mapping()
            if best is None or many * (total_j - over_j) > best.joules:
                best = Bound(many * (total_j - over_j), nodes, prices, mapping)
            prices = _raised_prices(prices, table.feed_times_s(mapping), idle_w, most_s, 2.0 / (1 + 0.3 * turn))
        return best


def _raised_prices(prices: Prices, times: dict[int, float], idle_w: float, most_s: float, step: float) -> Prices:
    """Higher prices on paths that are too long, lower ones on those that are not; in all never below idling."""
    longest = max(times.values())
    aim_s = min(most_s, longest)
    if aim_s <= 0:
        return prices
    watts = {
        feed: prices.watts * part * math.exp(step * max(-1.0, min(1.0, times[feed] / aim_s - 1)))
        for feed, part in prices.parts.items()
    }
    total = sum(watts.values())
    if total <= 0:
        return Prices(max(idle_w, 1e-9), prices.parts)
    if most_s >= longest:  # in time: no more than a step back towards the price of idling
        total_after = max(idle_w, total * math.exp(step * max(-1.0, longest / most_s - 1)))
    else:
        total_after = max(idle_w, total)
    return Prices(total_after, {feed: each / total for feed, each in watts.items()})
