"""The CPU shares of a mapped tree as a geometric program.

The data is fixed by the schedule, a common fraction of every source. The variables are the CPU shares ρ. In
y = −log ρ everything is convex:

    minimise    P·T + Σ D_i e^((1−γ_i) y_i)           idle power × time, and dynamic energy of computing
    such that   c_p + Σ a_pi e^(y_i) ≤ T               for each path p through the iteration
                T ≤ T_max
                Σ e^(−y_i) ≤ R_n                       the instances on node n: equation (1)
                P_n T + Σ D_i e^((1−γ_i) y_i) ≤ E_n    the energy limit of node n, if it has one

    S. Boyd, L. Vandenberghe: Convex Optimization, 2004, chapter 4.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats

GAP = 1e-6
LEAST_SHARE = 1e-6
ROUNDING = 1e-12
NO_ENERGY_J = 1e-300
"""What is left of an energy limit where nothing is, so that it can be divided by."""


class CriticalPath(NamedTuple):
    """A path through an iteration: seconds that no share changes, and the work of each instance on it."""

    fixed_s: float
    work_s: Floats


@dataclass(frozen=True)
class EnergyCap:
    """A node's energy limit: its idle power, its instances, and the joules per iteration that they may use."""

    idle_w: float
    instances: list[int]
    max_j: float

    def is_out_of_reach(self, least_s: float) -> bool:
        """Whether no shares meet it: what is sent takes it all, or idle power in the least time."""
        return self.max_j <= NO_ENERGY_J or self.idle_w * least_s >= self.max_j


@dataclass(frozen=True)
class GeometricProgram:
    """The program; see the module."""

    idle_w: float
    dynamic_j: Floats
    exponent: Floats
    nodes: Sequence[Sequence[int]]
    """The instances on each node."""
    limits: Floats
    """The CPU share of each node in ``nodes``."""
    critical_path: Callable[[Floats], CriticalPath]
    """The longest path for 1/ρ of each instance."""
    max_s: float = float("inf")
    caps: list[EnergyCap] = field(default_factory=list)

    def even_shares(self) -> Floats:
        """Each node's CPU in equal shares."""
        shares = np.empty(len(self.dynamic_j))
        for members, limit in zip(self.nodes, self.limits, strict=True):
            shares[list(members)] = limit / len(members)
        return shares

    def full_shares(self) -> Floats:
        """Each instance with its node's whole CPU: an upper bound of its share."""
        shares = np.empty(len(self.dynamic_j))
        for members, limit in zip(self.nodes, self.limits, strict=True):
            shares[list(members)] = limit
        return shares

    def value_j(self, shares: Floats) -> float:
        """The objective, in joules."""
        return self.idle_w * self.time_s(shares) + float((self.dynamic_j * shares ** (self.exponent - 1)).sum())

    def time_s(self, shares: Floats) -> float:
        """The length of the longest path."""
        path = self.critical_path(1 / shares)
        return path.fixed_s + float(path.work_s @ (1 / shares))


def quick_bound_j(program: GeometricProgram, prices_w: Sequence[float]) -> float:
    """A quick lower bound of the objective: one path at a price of time, each instance at its own best share.

    For a path c + Σ a_i s_i and any price Λ ≥ P: Λ c − (Λ − P) T_max + Σ min over s_i of Λ a_i s_i + D_i s_i^(1−γ_i).
    """
    full = program.full_shares()
    path = program.critical_path(1 / full)
    if path.fixed_s + float(path.work_s @ (1 / full)) > program.max_s * (1 + ROUNDING):
        return float("inf")
    best = 0.0
    for price_w in prices_w:
        watts = max(price_w, program.idle_w) if program.max_s < float("inf") else program.idle_w
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (watts * path.work_s / ((program.exponent - 1) * program.dynamic_j)) ** (1 / program.exponent)
        share = np.where(np.isfinite(share), np.clip(share, LEAST_SHARE, full), full)
        over_j = (watts - program.idle_w) * program.max_s if watts > program.idle_w else 0.0
        dynamic_j = float((program.dynamic_j * share ** (program.exponent - 1)).sum())
        best = max(best, watts * (path.fixed_s + float(path.work_s @ (1 / share))) + dynamic_j - over_j)
    return best
