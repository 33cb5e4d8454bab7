"""The states that a group of a layer can be in during the search.

A state is the node of the group and the first layer of its instance. It is encoded as one integer: the node, plus the
number of nodes for every layer between the first layer of the group and that of its instance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from palmette.plan.righttrain.optimum.possible_instances import PossibleInstances
from palmette.plan.righttrain.trees import Group

Ints = np.ndarray[Any, np.dtype[np.int64]]
StateSpace = tuple[tuple[Ints, ...], ...]
"""The states that are still possible, by layer and group."""


def max_joint_states(states: StateSpace) -> int:
    """The most joint states of all groups of a layer."""
    return max(math.prod(map(len, groups)) for groups in states)


def is_empty(states: StateSpace) -> bool:
    """Whether some group has no state left."""
    return not all(len(own) for groups in states for own in groups)


def all_states(instances: PossibleInstances) -> StateSpace:
    """All states of a tree in which nodes can compute their layers, and private data stays in place."""
    return tuple(
        tuple(_feasible_states(instances, layer, group) for group in groups)
        for layer, groups in enumerate(instances.tree.groupings)
    )


def _feasible_states(instances: PossibleInstances, layer: int, group: Group) -> Ints:
    span, found = instances.spans[group], []
    for first in range(span.first_layer, layer + 1):
        able = instances.feasible[span.row(first, layer)].copy()
        for feed in group if first == 0 else ():
            able &= np.isfinite(instances.input_transfers[feed][0])
        found.append(able)
    return np.flatnonzero(np.concatenate(found))
