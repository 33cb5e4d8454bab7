"""Which batch splits (b_s, b_l) are feasible, given active workers, private data and memory: linear constraints.

    min_s ≤ b_s ≤ max_s,  min_l ≤ b_l ≤ max_l,  min_sum ≤ b_s + b_l ≤ max_sum,  saved_s·b_s + saved_l·b_l ≥ excess

The last is worker_o's memory: each sample whose first layers are computed elsewhere saves it their activations, and
``excess`` is what would not fit if it computed all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from palmette.plan.hiertrain.lower_bounds import max_samples
from palmette.plan.hiertrain.piecewise_linear import Flags, Placements
from palmette.plan.hiertrain.problem import Floats, HierTrainProblem, Ints


@dataclass(frozen=True, eq=False)
class FeasibleRegion:
    """The constraints of each placement; see above."""

    min_s: Floats
    max_s: Floats
    min_l: Floats
    max_l: Floats
    min_sum: Floats
    max_sum: Floats
    saved_s: Floats
    saved_l: Floats
    excess: Floats

    def take(self, which: Ints | Flags) -> FeasibleRegion:
        """Select rows."""
        return FeasibleRegion(*(getattr(self, field.name)[which] for field in fields(self)))

    def range_l(self) -> tuple[Floats, Floats]:
        """The smallest and largest integer b_l for which a real b_s exists; smallest > largest where there is none."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            from_max_s = np.where(self.saved_l > 0, (self.excess - self.saved_s * self.max_s) / self.saved_l, -np.inf)
            apart, short = self.saved_l - self.saved_s, self.excess - self.saved_s * self.max_sum
            from_max_sum = np.where(apart > 0, short / apart, np.where(short > 0, np.inf, -np.inf))
        none = (self.saved_l == 0) & (self.excess > 0) | (self.min_s > self.max_s) | (self.min_sum > self.max_sum)
        lows = [self.min_l, self.min_sum - self.max_s, from_max_s, from_max_sum, np.where(none, np.inf, -np.inf)]
        highs = np.minimum(self.max_l, self.max_sum - self.min_s)
        low = np.maximum.reduce(lows)
        return np.where(np.isfinite(low), np.ceil(low), self.max_sum + 1), np.floor(highs)

    def range_s(self, b_l: Floats) -> tuple[Floats, Floats]:
        """The smallest and largest real b_s for a b_l within ``range_l``, [..., row]."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            by_memory = np.where(self.saved_s > 0, (self.excess - self.saved_l * b_l) / self.saved_s, -np.inf)
        low = np.maximum(np.maximum(self.min_s, self.min_sum - b_l), by_memory)
        return low, np.minimum(self.max_s, self.max_sum - b_l)


def relaxed_region(problem: HierTrainProblem, placements: Placements) -> FeasibleRegion:
    """Constraints that hold whichever workers are active."""
    cap_o, cap_s, cap_l = max_samples(problem, placements)
    nothing, batch = np.zeros(len(placements)), np.full(len(placements), float(problem.batch))
    min_sum = np.maximum(0.0, batch - cap_o)
    return FeasibleRegion(nothing, cap_s, nothing, cap_l, min_sum, batch, nothing, nothing, nothing)


def feasible_region(
    problem: HierTrainProblem, placements: Placements, active: tuple[Flags, Flags, Flags]
) -> FeasibleRegion:
    """The constraints where exactly the ``active`` workers have samples."""
    g, (active_o, active_s, active_l) = problem, active
    cap_o, cap_s, cap_l = max_samples(problem, placements)
    batch, weights = float(g.batch), g.weight_bytes
    first = np.where(active_o, 0, np.where(active_s, placements.m_s, placements.m_l))
    free_bytes = g.memory_bytes[placements.o] - g.weight_copies * (weights[g.depth] - weights[first])
    return FeasibleRegion(
        min_s=np.where(active_s, 1.0, 0.0),
        max_s=np.where(active_s, cap_s, 0.0),
        min_l=np.where(active_l, 1.0, 0.0),
        max_l=np.where(active_l, cap_l, 0.0),
        min_sum=np.where(active_o, batch - cap_o, batch),
        max_sum=np.where(active_o, batch - 1.0, batch),
        saved_s=g.activation_bytes[placements.m_s],
        saved_l=g.activation_bytes[placements.m_l],
        excess=batch * g.activation_bytes[g.depth] - free_bytes,
    )
