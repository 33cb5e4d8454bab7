"""Local search by adding and removing devices: adding or removing any single device does not improve the result.

Of the devices whose flip improves the cluster, the best one, two, four and so on are flipped together, and the best of
these steps is taken. So a fleet of thousands needs a few steps instead of thousands, and the step with one device
guarantees that the search continues while any single flip improves.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.cluster.fleet import Fleet, Indices, Mask
from palmette.plan.cluster.objective import ClusterObjective, rounded


def local_search(fleet: Fleet, objective: ClusterObjective, members: Mask) -> tuple[float, Mask]:
    """The objective's value at the local minimum, and the members."""
    value = objective_value(fleet, objective, members)
    while True:
        around = objective.value(fleet.neighbours(members))
        better = np.flatnonzero(around < value)
        better = better[np.argsort(around[better], kind="stable")]
        steps = [_flip(members, better[: 1 << k]) for k in range(len(better).bit_length())]
        ends = [(objective_value(fleet, objective, other), k) for k, other in enumerate(steps) if other.any()]
        lower, k = min(ends, default=(value, 0))
        if not rounded(lower) < rounded(value):
            return value, members
        value, members = lower, steps[k]


def objective_value(fleet: Fleet, objective: ClusterObjective, members: Mask) -> float:
    """The objective's value for a cluster."""
    return float(objective.value(fleet.time_power(members)))


def _flip(members: Mask, devices: Indices) -> Mask:
    other = members.copy()
    other[devices] = ~other[devices]
    return other
