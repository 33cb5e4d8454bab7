"""Downhill by adding and removing devices: no single device, added to the result or removed from it, improves it.

Of the devices whose flip improves the cluster, the best one, two, four and so on are flipped together, and the best of
these steps is taken. So a fleet of thousands needs a few steps instead of thousands, and the step with one device makes
sure that it goes on as long as there is one that improves.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.cluster.fleet import Fleet, Indices, Mask
from palmette.plan.cluster.objective import Worth, rounded


def descend(fleet: Fleet, worth: Worth, members: Mask) -> tuple[float, Mask]:
    """The worth at the end of the way down, and the members."""
    value = value_of(fleet, worth, members)
    while True:
        around = worth.of(fleet.neighbours(members))
        better = np.flatnonzero(around < value)
        better = better[np.argsort(around[better], kind="stable")]
        steps = [_flipped(members, better[: 1 << k]) for k in range(len(better).bit_length())]
        ends = [(value_of(fleet, worth, other), k) for k, other in enumerate(steps) if other.any()]
        lower, k = min(ends, default=(value, 0))
        if not rounded(lower) < rounded(value):
            return value, members
        value, members = lower, steps[k]


def value_of(fleet: Fleet, worth: Worth, members: Mask) -> float:
    """What a cluster is worth."""
    return float(worth.of(fleet.figures(members)))


def _flipped(members: Mask, devices: Indices) -> Mask:
    other = members.copy()
    other[devices] = ~other[devices]
    return other
