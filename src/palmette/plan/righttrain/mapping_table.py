"""The cheapest mapping of a tree at given prices of time, by dynamic programming from the leaves up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmette.plan.righttrain.data_amounts import Split
from palmette.plan.righttrain.layer_costs import Ints, LayerCost, LayerCosts, time_cost_j
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import GroupingTree


@dataclass(frozen=True)
class TimePrices:
    """The price of a second, Λ, and its fraction on the path of each feed."""

    watts: float
    fractions: dict[int, float]


class MappingTable:
    """``subtree_j``: by layer and group, for each node of the group, the least cost of the subtree up to it."""

    def __init__(self, tree: GroupingTree, split: Split, costs: LayerCosts, prices: TimePrices) -> None:
        self.tree, self.split, self.costs, self.prices = tree, split, costs, prices
        self._samples, self._every = dict(zip(tree.feeds, split, strict=True)), np.arange(len(costs.nodes))
        self.subtree_j: list[list[Floats]] = []
        self._sent_from: dict[tuple[int, int], Ints] = {}
        """By layer and group: where its output comes from at the least cost, for each node that it may go to."""
        for layer in range(len(tree.groupings)):
            self.subtree_j.append([self._subtree_cost_j(layer, k) for k in range(len(tree.groupings[layer]))])

    def samples(self, layer: int, k: int) -> int:
        """Samples of an iteration that reach a group."""
        return sum(self._samples[feed] for feed in self.tree.groupings[layer][k])

    def samples_of(self, feed: int) -> int:
        """Samples of an iteration from a feed."""
        return self._samples[feed]

    def price_w(self, layer: int, k: int) -> float:
        """The price of a second on the paths through a group."""
        return self.prices.watts * sum(self.prices.fractions[feed] for feed in self.tree.groupings[layer][k])

    def transfer_j(self, layer: int, k: int) -> Floats:
        """What sending a group's output and gradient costs between any two nodes."""
        return self.costs.transfer_j(layer, self.samples(layer, k), self.price_w(layer, k))

    def input_j(self, feed: int) -> Floats:
        """What sending a feed's data costs to each node."""
        time_s, joules = self.costs.input_transfer(feed, self._samples[feed])
        return time_cost_j(self.prices.watts * self.prices.fractions[feed], time_s) + joules

    def layer_j(self, layer: int, k: int) -> Floats:
        """What a group's layer costs on each node."""
        return self.layer_cost(layer, k).cost_j

    def layer_cost(self, layer: int, k: int) -> LayerCost:
        """Cost and time of a group's layer on each node."""
        replicas = len(self.tree.groupings[layer])
        return self.costs.layer(layer, self.samples(layer, k), self.price_w(layer, k), replicas)

    def _subtree_cost_j(self, layer: int, k: int) -> Floats:
        total = self.layer_j(layer, k).copy()
        if layer == 0:
            for feed in self.tree.groupings[0][k]:
                total += self.input_j(feed)
            return total
        for child in self.tree.children[layer - 1][k]:
            through_j = self.subtree_j[layer - 1][child][:, None] + self.transfer_j(layer - 1, child)
            sent_from = self._sent_from[layer - 1, child] = through_j.argmin(axis=0)
            total += through_j[sent_from, self._every]
        return total

    def total_j(self) -> float:
        """The cost of the cheapest mapping."""
        return float(sum(values.min() for values in self.subtree_j[-1]))

    def mapping(self) -> Mapping:
        """The cheapest mapping; node numbers are the cluster's."""
        chosen = [[0] * len(groups) for groups in self.tree.groupings]
        chosen[-1] = [int(values.argmin()) for values in self.subtree_j[-1]]
        for layer in reversed(range(len(chosen) - 1)):
            for k, into in enumerate(self.tree.parents[layer]):
                chosen[layer][k] = int(self._sent_from[layer, k][chosen[layer + 1][into]])
        return tuple(tuple(self.costs.nodes[node] for node in nodes) for nodes in chosen)

    def feed_times_s(self, mapping: Mapping) -> dict[int, float]:
        """The length of each feed's path in a mapping, with the optimal shares at these prices."""
        index = {node: k for k, node in enumerate(self.costs.nodes)}
        times = {}
        for feed in self.tree.feeds:
            total, before = 0.0, None
            for layer, groups in enumerate(self.tree.groupings):
                k = next(k for k, group in enumerate(groups) if feed in group)
                node = index[mapping[layer][k]]
                if before is None:
                    total += float(self.costs.input_transfer(feed, self._samples[feed])[0][node])
                else:
                    sent = self.costs.transfer(layer - 1, self.samples(layer - 1, before[0]))
                    total += float(sent.time_s[before[1], node])
                total += float(self.layer_cost(layer, k).time_s[node])
                before = (k, node)
            times[feed] = total
        return times
