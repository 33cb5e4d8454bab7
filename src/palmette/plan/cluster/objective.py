"""The goal's objective as a function of a cluster's time and power: T, P, P·T, P·T², or a weighted sum of them.

It never falls when time or power grows, which is all that the lower bound relies on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike

from palmette.plan.cluster.fleet import Floats, TimePower
from palmette.spec.goal import Quantity

KNOWN: frozenset[Quantity] = frozenset({"time", "power", "energy", "edp"})
"""The quantities that follow from time and power."""
# Sums of the same numbers in another order differ in their last bits; values that agree in this many are a tie.
_BITS = 40


@dataclass(frozen=True)
class ClusterObjective:
    """The weight of each quantity, over its unit, and the time that must not be exceeded."""

    weights: dict[Quantity, float] = field(default_factory=dict)
    deadline_s: float = inf

    @property
    def single(self) -> Quantity | None:
        """The one quantity that counts; None for a weighted sum."""
        return next(iter(self.weights)) if len(self.weights) == 1 else None

    def value(self, costs: TimePower) -> Floats:
        """The objective's value of each cluster: less is better, infinite where it misses the deadline."""
        time_s, power_w = np.asarray(costs.time_s), np.asarray(costs.power_w)
        in_time = time_s <= min(self.deadline_s, np.finfo(float).max)
        finite = TimePower(np.where(in_time, time_s, 0.0), np.where(in_time, power_w, 0.0))
        total = sum(weight * quantity(name, finite) for name, weight in self.weights.items())
        return np.where(in_time, total, np.inf)


def quantity(name: Quantity, costs: TimePower) -> Floats:
    """Seconds, watts, joules or joule-seconds."""
    time_s, power_w = np.asarray(costs.time_s), np.asarray(costs.power_w)
    match name:
        case "time":
            return time_s
        case "power":
            return power_w
        case "energy":
            return power_w * time_s
        case "edp":
            return power_w * time_s * time_s
        case "cost" | "carbon":
            raise AssertionError(f"{name}: not in measurements, and refused by the strategy")
    assert_never(name)


def rounded(values: ArrayLike) -> Floats:
    """Values rounded so that ties are equal."""
    mantissa, exponent = np.frexp(values)
    return np.where(np.isfinite(values), np.ldexp(np.round(np.ldexp(mantissa, _BITS)), exponent - _BITS), values)
