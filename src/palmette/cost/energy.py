"""The energy of a node, from when it computed and with which share of its CPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from palmette.spec.cluster import Power


class Load(NamedTuple):
    """How busy a node was: seconds with any call, and the integral of (sum of shares) ** exponent."""

    busy_s: float
    effort_s: float


def load(calls: Iterable[tuple[float, float, float]], exponent: float) -> Load:
    """The load that calls (start_s, end_s, share) put on a node, in parallel or one after the other."""
    calls = list(calls)
    if all(share > 0.5 for _, _, share in calls):  # no two can run in parallel
        lengths = [end - start for start, end, _ in calls]
        efforts = [(end - start) * share**exponent for start, end, share in calls]
        return Load(sum(lengths), sum(efforts))
    changes = sorted(change for start, end, share in calls if end > start for change in ((start, share), (end, -share)))
    busy = effort = share = last = 0.0
    running = 0
    for at, delta in changes:
        if running:
            busy += at - last
            effort += (at - last) * min(share, 1.0) ** exponent
        running += 1 if delta > 0 else -1
        share = share + delta if running else 0.0
        last = at
    return Load(busy, effort)


def node_energy_j(power: Power, time_s: float, effort_s: float) -> float:
    """Joules that a node draws over ``time_s``: idle power all the time, and the rest in proportion to its effort."""
    return power.idle_w * time_s + (power.busy_w - power.idle_w) * effort_s
