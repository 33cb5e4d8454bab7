"""A lower bound of what any cluster of two or more is worth, and clusters that come close to it.

A cluster with time T takes all steps by T: Σ max(0, T − b_i)/c_i ≥ steps over its members. For a given T the least
power of such members is a knapsack; if a fraction of a device could be had, the devices with the least power for the
steps that they take by T would be taken in turn, the last one in part. That costs K(T), at most what any real cluster
costs. K falls as T grows, and the worth grows with time and power, so every cluster with a time in [T1, T2] is worth at
least worth(T1, K(T2)). Intervals are halved, the one with the least bound first, until that bound is as good as the
best cluster found, or patience ends; the least of all bounds is one for the whole.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from palmette.plan.cluster.fleet import Fleet, Mask, point
from palmette.plan.cluster.local_search import value_of
from palmette.plan.cluster.objective import Worth
from palmette.plan.cluster.single_quantity import least_time, mask

HALVINGS = 200
CLOSE = 1e-6
KEPT = 4
_ROUNDING = 1e-12


class Cover(NamedTuple):
    """The least power that could do all steps in time, a fraction of a device counting as such, and whole devices."""

    power_w: float
    members: Mask


class Relaxed(NamedTuple):
    """A lower bound, and the best clusters met on the way with what they are worth at most, best first."""

    bound: float
    starts: list[tuple[float, Mask]]


def relaxed(fleet: Fleet, worth: Worth) -> Relaxed:
    """The bound for clusters of two or more; infinite if none is in time."""
    fastest = least_time(fleet)
    first_s = fleet.cluster_time_s(fastest)
    last_s = min(float(np.sort(fleet.build_s + fleet.steps / fleet.rate)[-2]), worth.deadline_s)
    if first_s > last_s:
        return Relaxed(np.inf, [])
    least_w = float(np.partition(fleet.power_w, 1)[:2].sum())
    starts = {fastest.tobytes(): (value_of(fleet, worth, fastest), fastest)}

    def bound(from_s: float, to_s: float) -> float:
        found = cover(fleet, to_s)
        enough = float(worth.of(point(to_s, fleet.power_w[found.members].sum())))  # it is done by then, or before
        starts[found.members.tobytes()] = (enough, found.members)
        return float(worth.of(point(from_s, max(found.power_w, least_w))))

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
    return Relaxed(intervals[0][0] * (1 - _ROUNDING), [start for start in kept if np.isfinite(start[0])])


def cover(fleet: Fleet, time_s: float) -> Cover:
    """The devices with the least power for the steps that they take by ``time_s``, until all steps are taken."""
    work = np.maximum(0.0, time_s - fleet.build_s) * fleet.rate
    able = np.flatnonzero(work > 0)
    order = able[np.argsort(fleet.power_w[able] / work[able])]
    done = np.cumsum(work[order])
    last = min(int(np.searchsorted(done, fleet.steps * (1 - _ROUNDING))), len(order) - 1)
    left = fleet.steps - (done[last - 1] if last else 0.0)
    part = min(1.0, left / work[order[last]])
    power_w = fleet.power_w[order[:last]].sum() + part * fleet.power_w[order[last]]
    whole = order[: max(2, last + 1)]
    return Cover(float(power_w), mask(fleet, whole if len(whole) > 1 else [whole[0], (whole[0] + 1) % len(fleet)]))
