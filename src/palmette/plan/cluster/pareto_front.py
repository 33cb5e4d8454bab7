"""The Pareto front of time and energy: the clusters that no other dominates.

Up to 16 devices all clusters are compared. Beyond, these are: every device alone, the best for time and for energy,
and for many times the devices that do all steps by then with the least power (``lower_bound.cover``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from palmette.plan.cluster import subsets
from palmette.plan.cluster.fleet import Fleet, Indices, Mask, TimePower
from palmette.plan.cluster.lower_bound import cover
from palmette.plan.cluster.objective import ClusterObjective, quantity, rounded
from palmette.plan.cluster.search import ClusterCandidate, candidate, distinct_candidates, optimal_cluster
from palmette.plan.cluster.single_quantity import mask

TIMES = 64


def pareto_front(fleet: Fleet, deadline_s: float | None) -> list[ClusterCandidate]:
    """The clusters of the front that meet the deadline, by rising time; of equals that with the fewest devices."""
    energy = ClusterObjective({"energy": 1.0}, np.inf if deadline_s is None else deadline_s)
    if len(fleet) <= subsets.MAX_DEVICES:
        members = subsets.all_clusters(len(fleet))
        costs = subsets.time_power(fleet, members)
        values = energy.value(costs)
        found = [candidate(members[k], costs.at(k), values[k]) for k in nondominated(costs)]
        return [each for each in found if np.isfinite(each.objective)]
    compared = distinct_candidates(fleet, energy, _candidates(fleet))
    costs = TimePower(np.array([each.time_s for each in compared]), np.array([each.power_w for each in compared]))
    return [compared[k] for k in nondominated(costs)]


def nondominated(costs: TimePower) -> Indices:
    """The clusters that none dominates in time and energy, by rising time; of equals the first."""
    time_s, energy_j = rounded(costs.time_s), rounded(quantity("energy", costs))
    order = np.lexsort((energy_j, time_s))
    least_j = np.minimum.accumulate(energy_j[order])
    found: Indices = order[np.concatenate(([True], energy_j[order][1:] < least_j[:-1]))]
    return found


def _candidates(fleet: Fleet) -> Iterator[Mask]:
    for device in nondominated(fleet.alone):
        yield mask(fleet, [device])
    yield optimal_cluster(fleet, "time")
    yield optimal_cluster(fleet, "energy")
    everyone: Mask = np.ones(len(fleet), dtype=bool)
    for time_s in np.geomspace(fleet.cluster_time_s(everyone), fleet.alone.time_s.max(), TIMES):
        yield cover(fleet, float(time_s)).members
