"""A lower bound of the objective over all clusters of two or more, and clusters that come close to it.

A cluster with time T takes all steps by T: Σ max(0, T − b_i)/c_i ≥ steps over its members. For a given T the least
power of such members is a knapsack; its relaxation, where a fraction of a device may be taken, takes the devices with
the least power for the steps that they take by T in turn, the last one in part. That costs K(T), at most the power of
any real cluster. K falls as T grows, and the objective grows with time and power, so every cluster with a time in
[T1, T2] has an objective of at least objective(T1, K(T2)). Intervals are halved, the one with the least bound first,
until that bound is as good as the best cluster found, or ``HALVINGS`` are used up; the least of all bounds is one for
the whole.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from palmette.plan.cluster.fleet import Fleet, Mask, single_cluster
from palmette.plan.cluster.local_search import objective_value
from palmette.plan.cluster.objective import ClusterObjective
from palmette.plan.cluster.single_quantity import fastest_cluster, mask

HALVINGS = 200
CLOSE = 1e-6
KEPT = 4
_ROUNDING = 1e-12


class FractionalCover(NamedTuple):
    """The least power that does all steps in time if fractions of devices may be taken, and whole devices that do."""

    power_w: float
    members: Mask


class RelaxedBound(NamedTuple):
    """A lower bound, and the best clusters found with upper bounds of their objectives, best first."""

    bound: float
    starts: list[tuple[float, Mask]]


def lower_bound(fleet: Fleet, objective: ClusterObjective) -> RelaxedBound:
    """The bound for clusters of two or more; infinite if none meets the deadline."""
    fastest = fastest_cluster(fleet)
    first_s = fleet.cluster_time_s(fastest)
    last_s = min(float(np.sort(fleet.build_s + fleet.steps / fleet.rate)[-2]), objective.deadline_s)
    if first_s > last_s:
        return RelaxedBound(np.inf, [])
    least_w = float(np.partition(fleet.power_w, 1)[:2].sum())
    starts = {fastest.tobytes(): (objective_value(fleet, objective, fastest), fastest)}

    def bound(from_s: float, to_s: float) -> float:
        found = cover(fleet, to_s)
        whole_w = fleet.power_w[found.members].sum()
        at_most = float(objective.value(single_cluster(to_s, whole_w)))  # it is done by then, or before
        starts[found.members.tobytes()] = (at_most, found.members)
        return float(objective.value(single_cluster(from_s, max(found.power_w, least_w))))

    def best() -> float:
        return min(value for value, _ in starts.values())

    intervals = [(bound(first_s, last_s), first_s, last_s)]
    for _ in range(HALVINGS):
        low, from_s, to_s = intervals[0]
        if low >= best() * (1 - CLOSE):
            break
        middle_s = (from_s * to_s) ** 0.5
        heapq.heapreplace(intervals, (max(low, bound(from_s, middle_s)), from_s, middle_s))
        heapq.heappush(intervals, (max(low, bound(middle_s, to_s)), middle_s, to_s))
    kept = sorted(starts.values(), key=lambda start: start[0])[:KEPT]
    return RelaxedBound(intervals[0][0] * (1 - _ROUNDING), [start for start in kept if np.isfinite(start[0])])


def cover(fleet: Fleet, time_s: float) -> FractionalCover:
    """The devices with the least power for the steps that they take by ``time_s``, until all steps are taken."""
    work = np.maximum(0.0, time_s - fleet.build_s) * fleet.rate
    useful = np.flatnonzero(work > 0)
    order = useful[np.argsort(fleet.power_w[useful] / work[useful])]
    done = np.cumsum(work[order])
    last = min(int(np.searchsorted(done, fleet.steps * (1 - _ROUNDING))), len(order) - 1)
    left = fleet.steps - (done[last - 1] if last else 0.0)
    part = min(1.0, left / work[order[last]])
    power_w = fleet.power_w[order[:last]].sum() + part * fleet.power_w[order[last]]
    whole = order[: max(2, last + 1)]
    return FractionalCover(
        float(power_w), mask(fleet, whole if len(whole) > 1 else [whole[0], (whole[0] + 1) % len(fleet)])
    )
