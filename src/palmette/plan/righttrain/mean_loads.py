"""The mean load of nodes on which calls run side by side, for bounds that count their power together.

Where groups that do not feed each other share a node whose power rises faster than its load, each by its own share
counts too little. ``LayerCosts`` bounds their power by a tangent at a mean load; the best one is work by time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from palmette.plan.righttrain.layer_costs import LayerCosts, min_update_fraction
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_table import MappingTable

_LEAST_PRICE = 0.02
"""The part of idle power that stays as a price of time."""


def mean_loads(table: MappingTable, mapping: Mapping, max_s: float, before: Sequence[float]) -> tuple[float, ...]:
    """Work by time of each node with groups side by side, 0 for others; half way from those before."""
    costs, tree = table.costs, table.tree
    problem, index = costs.problem, {node: k for k, node in enumerate(costs.nodes)}
    work_s, placed = np.zeros(len(index)), [set[tuple[int, ...]]() for _ in index]
    for layer, groups in enumerate(tree.groupings):
        for k, group in enumerate(groups):
            node = index[mapping[layer][k]]
            forward_s, backward_s, update_s = costs.calls_s(layer, layer, table.samples(layer, k))
            work_s[node] += (forward_s + backward_s + min_update_fraction(len(groups)) * update_s)[node]
            placed[node].add(group)
    time_s = min(max_s, max(table.feed_times_s(mapping).values()))
    found = []
    for k, node in enumerate(costs.nodes):
        limited = problem.task.cluster.nodes[problem.names[node]].limits.energy_j is not None
        shared = problem.exponent[node] > 1 and not limited and _side_by_side(placed[k]) and time_s > 0
        load = min(float(work_s[k]) / time_s, float(costs.limit[k])) if shared else 0.0
        known = before[k] if before else 0.0
        found.append(math.sqrt(load * known) if load > 0 and known > 0 else max(load, known))
    return tuple(found)


def within_idle_power(costs: LayerCosts, loads: Sequence[float], idle_w: float) -> tuple[float, ...]:
    """Loads that are low enough for time to keep a price: without a deadline it may not be negative."""
    each = np.array(loads)
    taken_w = float((costs.dynamic_w * (costs.exponent - 1) * each**costs.exponent).sum())
    most_w = (1 - _LEAST_PRICE) * idle_w
    if taken_w <= most_w:
        return tuple(loads)
    least = float(costs.exponent[each > 0].min())
    return tuple((each * (most_w / taken_w) ** (1 / least)).tolist())


def _side_by_side(groups: set[tuple[int, ...]]) -> bool:
    """Whether two groups have no source in common, so that neither waits for the other."""
    return any(not set(a) & set(b) for a in groups for b in groups)
