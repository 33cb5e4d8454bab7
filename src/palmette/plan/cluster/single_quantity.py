"""The optimal cluster for time, power or energy, of any number of devices, with proofs.

Notation of ``fleet``: b, c, p are a member's build time, step time and power with its factors. A device alone has
factors of 1, so every device alone is tried, and the proofs are about clusters of two or more.

Time. A device that is added never makes (4) slower: its term is at least 0. So no cluster beats that of all devices.
Members with b ≥ T add nothing to it and may go, the others may not (T would grow); so the least cluster that is as fast
consists of the devices with b < T, and, if that is only one, of any other in addition.

Power. It is a sum of numbers of at least 0, so no cluster beats the two devices with the least p.

Energy. Let a cluster of three or more have time T and power P; member i takes x_i = max(0, T − b_i)/c_i steps, which
add up to S. The shares x_i/S and p_i/P both add up to 1, so there is a member j with x_j/S ≤ p_j/P: the one with the
most power for the steps that it takes (if P = 0 every cluster's energy is 0, and any will do). Without it the others'
sum g(t) = Σ max(0, t − b_i)/c_i is S − x_j at T. It is convex with g(0) = 0, so g(λT) ≥ λ·g(T) for λ ≥ 1, and with
λ = S/(S − x_j) the others are done by λT. Hence

    E' ≤ (P − p_j) · T · S/(S − x_j) ≤ P·T = E,      the last because (P − p_j)/P ≤ (S − x_j)/S.

(If x_j = S, all others take no step, x = 0, and any of them may go instead: T stays and P does not grow.) So some
member can always go at no cost while three or more are left, and the best of all is a device alone or a pair.

The same step from two to one shows that a pair costs at least e_i = p_i · (b_i + S·c_i) of one of its two members.
Pairs are therefore tried by their lesser e, in rising order, until it exceeds the best pair found: all pairs at worst.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.cluster.fleet import Fleet, Floats, Mask
from palmette.plan.cluster.objective import rounded

_TIE = 1e-9  # energies that ``rounded`` makes equal are closer than that


def fastest_cluster(fleet: Fleet) -> Mask:
    """The fastest cluster of two or more, with the fewest devices."""
    order = fleet.by_build
    rate, build_s = fleet.rate[order], fleet.build_s[order]
    times_s = (fleet.steps + np.cumsum(build_s * rate)) / np.cumsum(rate)
    needed = order[: int(times_s.argmin()) + 1]
    if len(needed) == 1:
        return mask(fleet, (needed[0], 1 if needed[0] == 0 else 0))
    return mask(fleet, needed)


def least_power_pair(fleet: Fleet) -> Mask:
    """The two devices that draw the least."""
    return mask(fleet, np.argsort(fleet.power_w, kind="stable")[:2])


def least_energy_pair(fleet: Fleet) -> Mask:
    """The pair with the least energy; ties by the order of the file."""
    lone_s = fleet.build_s + fleet.steps / fleet.rate
    lone_j = fleet.power_w * lone_s
    order = np.argsort(lone_j, kind="stable")
    rate, power_w, lone_s = fleet.rate[order], fleet.power_w[order], lone_s[order]
    lost = fleet.build_s[order] * rate
    first_after = np.minimum.accumulate(order[::-1])[::-1]  # by the order of the file, of those from here on
    best_j, best = np.inf, (len(order), len(order))
    for k, floor_j in enumerate(rounded(lone_j[order])[:-1]):
        if floor_j > best_j:
            break
        rest = slice(k + 1, None)
        together_s = (fleet.steps + lost[k] + lost[rest]) / (rate[k] + rate[rest])
        energies: Floats = np.minimum(np.minimum(lone_s[k], lone_s[rest]), together_s) * (power_w[k] + power_w[rest])
        ties_count = _pair(order[k], first_after[k + 1]) < best
        if energies.min() > best_j * (1 + _TIE if ties_count else 1 - _TIE):
            continue  # no need to round, which is expensive
        energies = rounded(energies)
        least = energies.min()
        best_j, best = min((best_j, best), (least, _pair(order[k], order[rest][energies == least].min())))
    return mask(fleet, best)


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def mask(fleet: Fleet, members: object) -> Mask:
    """The devices of these numbers as a mask."""
    found: Mask = np.zeros(len(fleet), dtype=bool)
    found[np.asarray(members, dtype=np.intp)] = True
    return found


OPTIMAL_CLUSTERS = {"time": fastest_cluster, "power": least_power_pair, "energy": least_energy_pair}
