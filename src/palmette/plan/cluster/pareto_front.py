"""The front of time and energy: the clusters that no other beats in both.

Up to 16 devices all clusters are looked at. Beyond, these are: every device alone, the best for time and for energy,
and for many times the devices that do all steps by then with the least power (``relaxed.cover``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from palmette.plan.cluster import subsets
from palmette.plan.cluster.fleet import Figures, Fleet, Indices, Mask
from palmette.plan.cluster.lower_bound import cover
from palmette.plan.cluster.objective import Worth, quantity, rounded
from palmette.plan.cluster.search import Choice, choice, choices, least
from palmette.plan.cluster.single_quantity import mask

TIMES = 64


def front(fleet: Fleet, deadline_s: float | None) -> list[Choice]:
    """The clusters of the front that are in time, by rising time; of equals that with the fewest devices."""
    energy = Worth({"energy": 1.0}, np.inf if deadline_s is None else deadline_s)
    if len(fleet) <= subsets.MOST_DEVICES:
        members = subsets.clusters(len(fleet))
        figures = subsets.figures(fleet, members)
        values = energy.of(figures)
        found = [choice(members[k], figures.at(k), values[k]) for k in unbeaten(figures)]
        return [each for each in found if np.isfinite(each.worth)]
    looked_at = choices(fleet, energy, _likely(fleet))
    figures = Figures(np.array([each.time_s for each in looked_at]), np.array([each.power_w for each in looked_at]))
    return [looked_at[k] for k in unbeaten(figures)]


def unbeaten(figures: Figures) -> Indices:
    """What nothing beats in both time and energy, by rising time; of equals the first."""
    time_s, energy_j = rounded(figures.time_s), rounded(quantity("energy", figures))
    order = np.lexsort((energy_j, time_s))
    least_j = np.minimum.accumulate(energy_j[order])
    found: Indices = order[np.concatenate(([True], energy_j[order][1:] < least_j[:-1]))]
    return found


def _likely(fleet: Fleet) -> Iterator[Mask]:
    for device in unbeaten(fleet.alone):
        yield mask(fleet, [device])
    yield least(fleet, "time")
    yield least(fleet, "energy")
    everyone: Mask = np.ones(len(fleet), dtype=bool)
    for time_s in np.geomspace(fleet.cluster_time_s(everyone), fleet.alone.time_s.max(), TIMES):
        yield cover(fleet, float(time_s)).members
