"""The best cluster for a goal: by enumeration, by a theorem, or by a search that states its optimality gap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import numpy as np

from palmette.plan.cluster import subsets
from palmette.plan.cluster.fleet import Fleet, Floats, Indices, Mask, TimePower
from palmette.plan.cluster.local_search import local_search
from palmette.plan.cluster.lower_bound import lower_bound
from palmette.plan.cluster.objective import ClusterObjective, quantity, rounded
from palmette.plan.cluster.single_quantity import OPTIMAL_CLUSTERS, mask
from palmette.spec.goal import Goal, Quantity

RANKED = 20
_CLOSE = 1e-9
Weights = dict[Quantity, float]


class ClusterCandidate(NamedTuple):
    """A cluster: its devices in the order of the file, its seconds and watts, and its objective (less is better)."""

    devices: tuple[int, ...]
    time_s: float
    power_w: float
    objective: float


class ClusterRanking(NamedTuple):
    """The best clusters, best first, and the optimality gap of the first (None: it is optimal)."""

    ranking: list[ClusterCandidate]
    gap: float | None


def search_clusters(fleet: Fleet, goal: Goal, ranked: int = RANKED) -> ClusterRanking | float:
    """The ``ranked`` best clusters for a goal; if none meets the deadline, the least seconds of any."""
    deadline_s = np.inf if goal.deadline_s is None else goal.deadline_s
    weights = cast(Weights, goal.weights)
    if len(fleet) <= subsets.MAX_DEVICES:
        return _search_all(fleet, weights, deadline_s, ranked)
    return _search_many(fleet, weights, deadline_s, ranked)


def _search_all(fleet: Fleet, weights: Weights, deadline_s: float, ranked: int) -> ClusterRanking | float:
    members = subsets.all_clusters(len(fleet))
    costs = subsets.time_power(fleet, members)
    in_time = costs.time_s <= deadline_s
    if not in_time.any():
        return float(costs.time_s.min())
    members, costs = members[in_time], TimePower(costs.time_s[in_time], costs.power_w[in_time])
    objective = _objective(weights, {name: float(quantity(name, costs).min()) for name in weights}, deadline_s)
    values = objective.value(costs)
    return ClusterRanking([candidate(members[k], costs.at(k), values[k]) for k in best_first(values)[:ranked]], None)


def _search_many(fleet: Fleet, weights: Weights, deadline_s: float, ranked: int) -> ClusterRanking | float:
    least_s = float(fleet.time_power(optimal_cluster(fleet, "time")).time_s)
    if least_s > deadline_s:
        return least_s
    units = {name: _best_value(fleet, name, deadline_s) for name in weights} if len(weights) > 1 else {}
    objective = _objective(weights, units, deadline_s)
    best, gap = _best(fleet, objective)
    candidates = distinct_candidates(fleet, objective, [best, *_neighbours(fleet, objective, best)])
    order = best_first(np.array([each.objective for each in candidates]))
    return ClusterRanking([candidates[k] for k in order[:ranked]], gap)


def _best(fleet: Fleet, objective: ClusterObjective) -> tuple[Mask, float | None]:
    """The best cluster of any number of devices, and the gap where no theorem proves it optimal."""
    if objective.single in OPTIMAL_CLUSTERS:
        best = optimal_cluster(fleet, objective.single)
        value = float(objective.value(fleet.time_power(best)))
        if np.isfinite(value):
            return best, _left_by_contention(fleet, objective, best, value)
    relaxed = lower_bound(fleet, objective)
    alone = objective.value(fleet.alone)
    starts = [members for _, members in relaxed.starts]
    if np.isfinite(alone.min()):
        starts.append(mask(fleet, [int(alone.argmin())]))
    value, best = min((local_search(fleet, objective, start) for start in starts), key=lambda end: end[0])
    bound = min(relaxed.bound, float(alone.min()))
    return best, max(0.0, 1 - bound / value) if value > 0 else 0.0


def _left_by_contention(fleet: Fleet, objective: ClusterObjective, best: Mask, value: float) -> float | None:
    """How far a cluster may be from the optimum where the proof leaves contention out; None where that is nothing.

    Without contention no cluster is better than this one, and contention makes none better. Nor do more steps pass than
    the widest way to any server lets through in a direction, beside those of the server itself.
    """
    if not fleet.contends or best.sum() < 3:
        return None
    least_s, narrowest_s = fleet.cluster_time_s(best), float(fleet.served_s.min())
    if narrowest_s:
        least_s = max(least_s, fleet.steps / (float(fleet.rate.max()) + 2 / narrowest_s))
    free = TimePower(np.asarray(least_s), fleet.power_w[best].sum())
    gap = 1 - float(objective.value(free)) / value if value else 0.0
    return gap if gap > _CLOSE else None


def optimal_cluster(fleet: Fleet, name: Quantity) -> Mask:
    """The optimum for time, power or energy: a device alone, unless a larger cluster is better."""
    objective = ClusterObjective({name: 1.0})
    lone, cluster = mask(fleet, [int(rounded(objective.value(fleet.alone)).argmin())]), OPTIMAL_CLUSTERS[name](fleet)
    values = rounded(np.array([float(objective.value(fleet.time_power(each))) for each in (lone, cluster)]))
    return lone if values[0] <= values[1] else cluster


def _best_value(fleet: Fleet, name: Quantity, deadline_s: float) -> float:
    """The best value found of one quantity."""
    objective = ClusterObjective({name: 1.0}, deadline_s)
    return float(objective.value(fleet.time_power(_best(fleet, objective)[0])))


def _objective(weights: Weights, units: Weights, deadline_s: float) -> ClusterObjective:
    """The objective: one quantity as it is, or the weighted sum of quantities over their best values."""
    if len(weights) == 1:
        return ClusterObjective(dict.fromkeys(weights, 1.0), deadline_s)
    return ClusterObjective({name: weight / (units[name] or 1.0) for name, weight in weights.items()}, deadline_s)


def _neighbours(fleet: Fleet, objective: ClusterObjective, best: Mask) -> Iterable[Mask]:
    """The best devices alone, and the best clusters that differ by one device."""
    for device in best_first(objective.value(fleet.alone))[:RANKED]:
        yield mask(fleet, [device])
    around = objective.value(fleet.neighbours(best))
    for device in best_first(around)[:RANKED]:
        if np.isfinite(around[device]):
            other = best.copy()
            other[device] = not other[device]
            yield other


def distinct_candidates(fleet: Fleet, objective: ClusterObjective, clusters: Iterable[Mask]) -> list[ClusterCandidate]:
    """The distinct clusters that meet the deadline, with their costs, the fewest devices first."""
    found = {}
    for members in clusters:
        costs = fleet.time_power(members)
        each = candidate(members, costs, objective.value(costs))
        if np.isfinite(each.objective):
            found[each.devices] = each
    return sorted(found.values(), key=lambda each: (len(each.devices), each.devices))


def candidate(members: Mask, costs: TimePower, objective: Floats) -> ClusterCandidate:
    """A cluster with its costs."""
    devices = tuple(np.flatnonzero(members).tolist())
    return ClusterCandidate(devices, float(costs.time_s), float(costs.power_w), float(objective))


def best_first(values: Floats) -> Indices:
    """Best first; ties stay in their order."""
    return np.argsort(rounded(values), kind="stable")
