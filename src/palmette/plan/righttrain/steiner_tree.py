"""The mapping of Algorithm 1: a delay-aware Steiner tree on the expanded graph.

The expanded graph has a vertex for each source, for each pair of a layer instance and a node that it may run on, and Ω
after the last layer. An edge sends the samples and computes the next layer: its weight is the energy, its delay the
time forward and backward. The tree grows from Ω: of the sources not connected yet, the one with the lightest restricted
path is added. A path ends where it reaches an instance that is mapped already, so that each instance is mapped to
exactly one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_table import MappingTable
from palmette.plan.righttrain.restricted_shortest_path import PathStage, RestrictedPath

PathSearch = Callable[[Sequence[PathStage], float], RestrictedPath | None]


@dataclass
class SteinerTree:
    """Builds a delay-aware Steiner tree on the expanded graph of a table's costs."""

    table: MappingTable
    max_s: float
    search: PathSearch
    _mapped: dict[tuple[int, int], int] = field(default_factory=dict)
    _remaining_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Seconds from each mapped instance to Ω and back."""
    _cache: dict[tuple[int, int, int], RestrictedPath | None] = field(default_factory=dict)

    def mapping(self) -> Mapping | None:
        """The nodes of all instances; None where some source has no path within the time."""
        unreached = list(self.table.tree.feeds)
        while unreached:
            found = {feed: path for feed in unreached if (path := self._best_path(feed)) is not None}
            if len(found) < len(unreached):
                return None
            lightest = min(found, key=lambda feed: found[feed].weight)
            self._add_path(lightest, found[lightest])
            unreached.remove(lightest)
        nodes, groupings = self.table.costs.nodes, self.table.tree.groupings
        return tuple(
            tuple(nodes[self._mapped[layer, k]] for k in range(len(groups))) for layer, groups in enumerate(groupings)
        )

    def _groups(self, feed: int) -> list[int]:
        """The group of a feed in each layer."""
        return [next(k for k, group in enumerate(groups) if feed in group) for groups in self.table.tree.groupings]

    def _join_layer(self, groups: list[int]) -> int:
        """The first layer whose instance is mapped already; the depth where none is."""
        return next((layer for layer, k in enumerate(groups) if (layer, k) in self._mapped), len(groups))

    def _best_path(self, feed: int) -> RestrictedPath | None:
        """The lightest path of a feed to the tree within the time."""
        groups = self._groups(feed)
        end = self._join_layer(groups)
        target = self._mapped[end, groups[end]] if end < len(groups) else -1
        key = (feed, end, target)
        if key not in self._cache:
            remaining_s = self._remaining_s[end, groups[end]] if end < len(groups) else 0.0
            self._cache[key] = self.search(self._stages(feed, groups, end, target), self.max_s - remaining_s)
        return self._cache[key]

    def _stages(self, feed: int, groups: list[int], end: int, target: int) -> list[PathStage]:
        """The expanded graph from a feed to where it joins the tree: one column of nodes per layer."""
        table, costs = self.table, self.table.costs
        stages = []
        for layer in range(end + (target >= 0)):
            if layer == 0:
                weight, delay = (
                    table.input_j(feed)[None, :],
                    costs.input_transfer(feed, table.samples_of(feed))[0][None, :],
                )
            else:
                before = groups[layer - 1]
                weight = table.transfer_j(layer - 1, before)
                delay = costs.transfer(layer - 1, table.samples(layer - 1, before)).time_s
            if layer == end:
                stages.append(PathStage(weight[:, [target]], delay[:, [target]]))
                continue
            own = table.layer_cost(layer, groups[layer])
            stages.append(PathStage(weight + own.cost_j, np.where(np.isfinite(weight), delay + own.time_s, math.inf)))
        return stages

    def _add_path(self, feed: int, path: RestrictedPath) -> None:
        """Add a path to the tree."""
        groups = self._groups(feed)
        end = self._join_layer(groups)
        stages = self._stages(feed, groups, end, self._mapped[end, groups[end]] if end < len(groups) else -1)
        remaining_s = self._remaining_s[end, groups[end]] if end < len(groups) else 0.0
        for layer in reversed(range(end)):
            node = path.vertices[layer + 1]
            self._mapped[layer, groups[layer]] = node
            if layer + 1 < len(stages):
                remaining_s += float(stages[layer + 1].delay[node, path.vertices[layer + 2]])
            self._remaining_s[layer, groups[layer]] = remaining_s
