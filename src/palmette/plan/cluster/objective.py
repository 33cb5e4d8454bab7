"""What the goal minimises, as a function of a cluster's time and power: T, P, P·T, P·T², or a weighted sum of them.

It never falls when time or power grows, which is all that the lower bound needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from palmette.plan.cluster.fleet import Figures, Floats
from palmette.spec.goal import QUANTITIES

# Sums of the same numbers in another order differ in their last bits; what agrees in this many is a tie.
_BITS = 40


@dataclass(frozen=True)
class Worth:
    """The weight of each quantity, over its unit, and the time that must not be exceeded."""

    weights: dict[str, float] = field(default_factory=dict)
    deadline_s: float = inf

    @property
    def single(self) -> str | None:
        """The one quantity that counts; None for a weighted sum."""
        return next(iter(self.weights)) if len(self.weights) == 1 else None

    def of(self, figures: Figures) -> Floats:
        """What each cluster is worth: the less the better, infinite where it takes too long."""
        time_s, power_w = np.asarray(figures.time_s), np.asarray(figures.power_w)
        in_time = time_s <= min(self.deadline_s, np.finfo(float).max)
        finite = Figures(np.where(in_time, time_s, 0.0), np.where(in_time, power_w, 0.0))
        total = sum(weight * quantity(name, finite) for name, weight in self.weights.items())
        return np.where(in_time, total, np.inf)


def quantity(name: str, figures: Figures) -> Floats:
    """Seconds, watts, joules or joule-seconds."""
    assert name in QUANTITIES, name
    time_s, power_w = np.asarray(figures.time_s), np.asarray(figures.power_w)
    match name:
        case "time":
            return time_s
        case "power":
            return power_w
        case "energy":
            return power_w * time_s
        case _:
            return power_w * time_s * time_s


def rounded(values: ArrayLike) -> Floats:
    """Values without the bits that tell no difference."""
    mantissa, exponent = np.frexp(values)
    return np.where(np.isfinite(values), np.ldexp(np.round(np.ldexp(mantissa, _BITS)), exponent - _BITS), values)
