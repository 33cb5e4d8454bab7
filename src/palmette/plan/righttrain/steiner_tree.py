"""The mapping of Algorithm 1: a delay-aware Steiner tree on the expanded graph.

The expanded graph has a vertex for each source, for each pair of a layer instance and a node that it may run on, and Ω
behind the last layer. An edge carries the samples on and computes the next layer: its weight is the energy that this
takes, its delay the time there and back. The tree grows from Ω: of the sources that it does not reach yet, the one with
the lightest restricted path joins it. Where a path meets an instance that is mapped already, it ends there, so each
instance is mapped to exactly one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bound import Table
from palmette.plan.righttrain.restricted_shortest_path import Stage, Way

Search = Callable[[Sequence[Stage], float], Way | None]


@dataclass
class Steiner:
    """A delay-aware Steiner tree in the making, on the expanded graph of a table's costs."""

    table: Table
    most_s: float
    search: Search
    _chosen: dict[tuple[int, int], int] = field(default_factory=dict)
    _after_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Seconds from each mapped instance to Ω and back."""
    _known: dict[tuple[int, int, int], Way | None] = field(default_factory=dict)

    def mapping(self) -> Mapping | None:
        """The nodes of all instances; None where some source has no path in time."""
        waiting = list(self.table.tree.feeds)
        while waiting:
            found = {feed: way for feed in waiting if (way := self._way(feed)) is not None}
            if len(found) < len(waiting):
                return None
            lightest = min(found, key=lambda feed: found[feed].weight)
            self._join(lightest, found[lightest])
            waiting.remove(lightest)
        nodes, groupings = self.table.costs.nodes, self.table.tree.groupings
        return tuple(
            tuple(nodes[self._chosen[layer, k]] for k in range(len(groups))) for layer, groups in enumerate(groupings)
        )

    def _groups(self, feed: int) -> list[int]:
        """The group of a feed in each layer."""
        return [next(k for k, group in enumerate(groups) if feed in group) for groups in self.table.tree.groupings]

    def _meets(self, groups: list[int]) -> int:
        """The first layer whose instance is mapped already; the depth where none is."""
        return next((layer for layer, k in enumerate(groups) if (layer, k) in self._chosen), len(groups))

    def _way(self, feed: int) -> Way | None:
        """The lightest path of a feed to the tree that is in time."""
        groups = self._groups(feed)
        end = self._meets(groups)
        onto = self._chosen[end, groups[end]] if end < len(groups) else -1
        key = (feed, end, onto)
        if key not in self._known:
            rest_s = self._after_s[end, groups[end]] if end < len(groups) else 0.0
            self._known[key] = self.search(self._stages(feed, groups, end, onto), self.most_s - rest_s)
        return self._known[key]

    def _stages(self, feed: int, groups: list[int], end: int, onto: int) -> list[Stage]:
        """The expanded graph from a feed to where it meets the tree: a column of nodes a layer."""
        table, costs = self.table, self.table.costs
        stages = []
        for layer in range(end + (onto >= 0)):
            if layer == 0:
                weight, delay = table.data_j(feed)[None, :], costs.data(feed, table.samples_of(feed))[0][None, :]
            else:
                before = groups[layer - 1]
                weight = table.passing_j(layer - 1, before)
                delay = costs.way(layer - 1, table.samples(layer - 1, before))[0]
            if layer == end:
                stages.append(Stage(weight[:, [onto]], delay[:, [onto]]))
                continue
            own = table.layered(layer, groups[layer])
            stages.append(Stage(weight + own.cost_j, np.where(np.isfinite(weight), delay + own.time_s, math.inf)))
        return stages

    def _join(self, feed: int, way: Way) -> None:
        """Add a path to the tree."""
        groups = self._groups(feed)
        end = self._meets(groups)
        stages = self._stages(feed, groups, end, self._chosen[end, groups[end]] if end < len(groups) else -1)
        rest_s = self._after_s[end, groups[end]] if end < len(groups) else 0.0
        for layer in reversed(range(end)):
            node = way.vertices[layer + 1]
            self._chosen[layer, groups[layer]] = node
            if layer + 1 < len(stages):
                rest_s += float(stages[layer + 1].delay[node, way.vertices[layer + 2]])
            self._after_s[layer, groups[layer]] = rest_s
