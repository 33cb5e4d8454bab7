"""The best cluster for a goal: by looking at all of them, by a theorem, or by a search that states its gap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from palmette.plan.cluster import subsets
from palmette.plan.cluster.fleet import Figures, Fleet, Floats, Indices, Mask
from palmette.plan.cluster.local_search import descend
from palmette.plan.cluster.lower_bound import relaxed
from palmette.plan.cluster.objective import Worth, quantity, rounded
from palmette.plan.cluster.single_quantity import LEAST, mask
from palmette.spec.goal import Goal

RANKED = 20


class Choice(NamedTuple):
    """A cluster: its devices in the order of the file, its seconds and watts, and what it is worth (less is better)."""

    devices: tuple[int, ...]
    time_s: float
    power_w: float
    worth: float


class Found(NamedTuple):
    """The best clusters, best first, and how far from the best of all the first may be (None: it is the best)."""

    ranking: list[Choice]
    gap: float | None


def search(fleet: Fleet, goal: Goal, ranked: int = RANKED) -> Found | float:
    """The ``ranked`` best clusters for a goal; if none meets the deadline, the least seconds that can be had."""
    deadline_s = np.inf if goal.deadline_s is None else goal.deadline_s
    if len(fleet) <= subsets.MOST_DEVICES:
        return _among_all(fleet, goal, deadline_s, ranked)
    return _among_many(fleet, goal, deadline_s, ranked)


def _among_all(fleet: Fleet, goal: Goal, deadline_s: float, ranked: int) -> Found | float:
    members = subsets.clusters(len(fleet))
    figures = subsets.figures(fleet, members)
    in_time = figures.time_s <= deadline_s
    if not in_time.any():
        return float(figures.time_s.min())
    members, figures = members[in_time], Figures(figures.time_s[in_time], figures.power_w[in_time])
    worth = _worth(goal, {name: float(quantity(name, figures).min()) for name in goal.weights}, deadline_s)
    values = worth.of(figures)
    return Found([choice(members[k], figures.at(k), values[k]) for k in best_first(values)[:ranked]], None)


def _among_many(fleet: Fleet, goal: Goal, deadline_s: float, ranked: int) -> Found | float:
    least_s = float(fleet.figures(least(fleet, "time")).time_s)
    if least_s > deadline_s:
        return least_s
    units = {} if goal.single else {name: _best_of_one(fleet, name, deadline_s) for name in goal.weights}
    worth = _worth(goal, units, deadline_s)
    best, gap = _best(fleet, worth)
    ranking = choices(fleet, worth, [best, *_near(fleet, worth, best)])
    return Found([ranking[k] for k in best_first(np.array([each.worth for each in ranking]))[:ranked]], gap)


def _best(fleet: Fleet, worth: Worth) -> tuple[Mask, float | None]:
    """The best cluster among any number of devices, and the gap where no theorem says that it is the best."""
    if worth.single in LEAST:
        best = least(fleet, worth.single)
        if np.isfinite(worth.of(fleet.figures(best))):
            return best, None
    low = relaxed(fleet, worth)
    alone = worth.of(fleet.alone)
    starts = [members for _, members in low.starts]
    if np.isfinite(alone.min()):
        starts.append(mask(fleet, [int(alone.argmin())]))
    value, best = min((descend(fleet, worth, start) for start in starts), key=lambda end: end[0])
    bound = min(low.bound, float(alone.min()))
    return best, max(0.0, 1 - bound / value) if value > 0 else 0.0


def least(fleet: Fleet, name: str) -> Mask:
    """The best for time, power or energy: a device alone, unless a cluster is better."""
    worth = Worth({name: 1.0})
    lone, cluster = mask(fleet, [int(rounded(worth.of(fleet.alone)).argmin())]), LEAST[name](fleet)
    values = rounded(np.array([float(worth.of(fleet.figures(each))) for each in (lone, cluster)]))
    return lone if values[0] <= values[1] else cluster


def _best_of_one(fleet: Fleet, name: str, deadline_s: float) -> float:
    """The best value of one quantity, as far as it is known."""
    worth = Worth({name: 1.0}, deadline_s)
    return float(worth.of(fleet.figures(_best(fleet, worth)[0])))


def _worth(goal: Goal, units: dict[str, float], deadline_s: float) -> Worth:
    """What to minimise: one quantity as it is, or each over its best value."""
    if goal.single:
        return Worth({goal.single: 1.0}, deadline_s)
    return Worth({name: weight / (units[name] or 1.0) for name, weight in goal.weights.items()}, deadline_s)


def _near(fleet: Fleet, worth: Worth, best: Mask) -> Iterable[Mask]:
    """The best devices alone, and the best clusters that are one device away."""
    for device in best_first(worth.of(fleet.alone))[:RANKED]:
        yield mask(fleet, [device])
    around = worth.of(fleet.neighbours(best))
    for device in best_first(around)[:RANKED]:
        if np.isfinite(around[device]):
            other = best.copy()
            other[device] = not other[device]
            yield other


def choices(fleet: Fleet, worth: Worth, clusters: Iterable[Mask]) -> list[Choice]:
    """Different clusters with their figures, the fewest devices first; without those that take too long."""
    found = {}
    for members in clusters:
        figures = fleet.figures(members)
        made = choice(members, figures, worth.of(figures))
        if np.isfinite(made.worth):
            found[made.devices] = made
    return sorted(found.values(), key=lambda each: (len(each.devices), each.devices))


def choice(members: Mask, figures: Figures, worth: Floats) -> Choice:
    """A cluster with its figures."""
    devices = tuple(np.flatnonzero(members).tolist())
    return Choice(devices, float(figures.time_s), float(figures.power_w), float(worth))


def best_first(values: Floats) -> Indices:
    """Best first; ties stay in their order."""
    return np.argsort(rounded(values), kind="stable")
