"""The cheapest mapping of a tree at given prices of time, for many splits of the batch at once.

For one mapping the cost is concave in the split: layers at their best share and transfers are at most linear in the
samples that reach them. So is the least over all mappings, and over a box of splits it is least at a corner of the box.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.righttrain.data_amounts import SplitBox, Splits
from palmette.plan.righttrain.layer_costs import LayerCosts, time_cost_j
from palmette.plan.righttrain.mapping_table import TimePrices
from palmette.plan.righttrain.problem import Floats
from palmette.plan.righttrain.trees import GroupingTree

MAX_CORNER_FEEDS = 5
"""Above these, a box has too many corners."""


class SplitCosts:
    """``total_j``: the cost of the cheapest mapping for each of some splits."""

    def __init__(self, tree: GroupingTree, splits: Splits, costs: LayerCosts, prices: TimePrices) -> None:
        self._tree, self._costs, self._prices = tree, costs, prices
        self._column = {feed: splits[:, k] for k, feed in enumerate(tree.feeds)}
        below: list[Floats] = []
        for layer in range(len(tree.groupings)):
            below = [self._subtree_j(layer, k, below) for k in range(len(tree.groupings[layer]))]
        self.total_j: Floats = np.sum([values.min(axis=1) for values in below], axis=0)

    def _samples(self, layer: int, k: int) -> Splits:
        columns = [self._column[feed] for feed in self._tree.groupings[layer][k]]
        return np.asarray(np.sum(columns, axis=0), dtype=np.int64)

    def _price_w(self, layer: int, k: int) -> float:
        return self._prices.watts * sum(self._prices.fractions[feed] for feed in self._tree.groupings[layer][k])

    def _subtree_j(self, layer: int, k: int, below: list[Floats]) -> Floats:
        """The least cost of a group and all below it, by split and node."""
        replicas = len(self._tree.groupings[layer])
        total = self._costs.layer_each(layer, self._samples(layer, k), self._price_w(layer, k), replicas)
        if layer == 0:
            for feed in self._tree.groupings[0][k]:
                time_s, joules = self._costs.input_transfer(feed, self._column[feed][:, None])
                total = total + time_cost_j(self._prices.watts * self._prices.fractions[feed], time_s) + joules
            return total
        for child in self._tree.children[layer - 1][k]:
            sent_j = self._costs.transfer_each(
                layer - 1, self._samples(layer - 1, child), self._price_w(layer - 1, child)
            )
            total = total + (below[child][:, :, None] + sent_j).min(axis=1)
        return total


def cheapest_in_box(
    tree: GroupingTree, box: SplitBox, costs: LayerCosts, prices: TimePrices
) -> tuple[float, tuple[int, ...]]:
    """A lower bound of the cost of every split of a box, and the split that it comes from."""
    if len(tree.feeds) > MAX_CORNER_FEEDS and not box.is_single:
        return _by_sample(tree, box, costs, prices)
    corners = np.array([box.least]) if box.is_single else box.corners()
    total_j = SplitCosts(tree, corners, costs, prices).total_j
    at = int(total_j.argmin())
    return float(total_j[at]), tuple(corners[at].tolist())


def _by_sample(
    tree: GroupingTree, box: SplitBox, costs: LayerCosts, prices: TimePrices
) -> tuple[float, tuple[int, ...]]:
    """A weaker bound for many feeds: each sample at what it costs in a batch that takes its feed's path as a whole.

    A concave cost that is not negative at 0 is at least its chord from there to the whole batch.
    """
    whole = np.array([[box.batch]])
    sample_j = []
    for feed in tree.feeds:
        groups = [next(k for k, group in enumerate(each) if feed in group) for each in tree.groupings]
        watts = [
            prices.watts * sum(prices.fractions[other] for other in tree.groupings[layer][k])
            for layer, k in enumerate(groups)
        ]
        time_s, joules = costs.input_transfer(feed, box.batch)
        path_j = time_cost_j(prices.watts * prices.fractions[feed], time_s) + joules
        for layer, price_w in enumerate(watts):
            if layer:
                sent = costs.transfer(layer - 1, box.batch)
                path_j = (path_j[:, None] + time_cost_j(watts[layer - 1], sent.time_s) + sent.joules).min(axis=0)
            path_j = path_j + costs.layer_each(layer, whole[0], price_w, len(tree.groupings[layer]))[0]
        sample_j.append(float(path_j.min()) / box.batch)
    split = box.cheapest(sample_j)
    return sum(each * many for each, many in zip(sample_j, split, strict=True)), split
