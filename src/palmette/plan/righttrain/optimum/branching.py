"""Branching on the node of a group: which group, and the states that are left on each of its nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.optimum.dual_ascent import DualBound
from palmette.plan.righttrain.optimum.states import StateSpace
from palmette.plan.righttrain.problem import Floats


def is_single_mapping(remaining: StateSpace, nodes: int) -> bool:
    """Whether every group has only one node left."""
    return all(np.ptp(states % nodes) == 0 for groups in remaining for states in groups)


def only_mapping(remaining: StateSpace, nodes: list[int]) -> Mapping:
    """The only remaining mapping."""
    return tuple(tuple(nodes[states[0] % len(nodes)] for states in groups) for groups in remaining)


def uses_all_nodes(remaining: StateSpace, nodes: list[int], own: set[int]) -> bool:
    """Whether each node without data in use may still compute; otherwise a smaller set of nodes covers what is left."""
    here = {nodes[k] for groups in remaining for states in groups for k in (states % len(nodes)).tolist()}
    return set(nodes) - own <= here


def branching_group(bound: DualBound, nodes: int) -> tuple[int, int] | None:
    """The layer and group whose branching raises the bound most; None where each has only one node left."""
    best, place = -math.inf, None
    for layer, groups in enumerate(bound.remaining):
        for k, states in enumerate(groups):
            rise = _mean_rise_j(bound.reduced_cost_j[layer][k], states % nodes)
            if rise is not None and rise > best:
                best, place = rise, (layer, k)
    return place


def _mean_rise_j(reduced_cost_j: Floats, nodes: Any) -> float | None:
    """How much the bound rises on average when branching on a group's node; None where it has only one."""
    distinct_nodes = np.unique(nodes)
    if len(distinct_nodes) < 2:
        return None
    return float(np.mean([reduced_cost_j[nodes == node].min() for node in distinct_nodes]))


def branches(remaining: StateSpace, layer: int, k: int, nodes: int) -> list[StateSpace]:
    """The remaining states with a group fixed on each of its nodes."""
    groups = remaining[layer]
    return [
        (
            *remaining[:layer],
            (*groups[:k], groups[k][groups[k] % nodes == node], *groups[k + 1 :]),
            *remaining[layer + 1 :],
        )
        for node in np.unique(groups[k] % nodes)
    ]
