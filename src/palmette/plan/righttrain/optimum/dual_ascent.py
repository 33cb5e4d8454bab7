"""Dual ascent: the multipliers with the highest Lagrangian bound, by mirror ascent with Polyak's step size.

For a tree and a set of nodes in use, with idle power P, limits R_n of CPUs and E_n of energy:

    E ≥ min over mappings of costs(Λ, κ, ν) − τ T_max − Σ κ_n R_n − Σ ν_n E_n        Λ = P + τ + Σ ν_n P_n

for any non-negative multipliers τ of the deadline, κ_n of CPUs and ν_n of energy limits, and any split of Λ over the
paths through an iteration. The constraints that the cheapest mapping violates give a subgradient. States through which
no mapping is below the target are dropped on the way. With a price on time only, the same bounds the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.optimum.joint_mapping import JointMappingTable, Multipliers
from palmette.plan.righttrain.optimum.path_weights import mirror_step, moments
from palmette.plan.righttrain.optimum.possible_instances import PossibleInstances
from palmette.plan.righttrain.optimum.states import StateSpace, all_states, is_empty, max_joint_states
from palmette.plan.righttrain.problem import Floats

_PATIENCE = 2


@dataclass(frozen=True)
class DualProblem:
    """What is bounded: a tree on nodes with ``idle_w`` of idle power in all, within ``max_s`` per iteration."""

    instances: PossibleInstances
    idle_w: float
    max_s: float
    max_j: Floats
    """The joules per iteration that each node may use, infinite where it has no limit."""
    time_only: bool = False
    """Whether the bound is of time, instead of energy."""

    def start(self) -> DualBound:
        """All states; time at the price of idle power, split evenly over the paths."""
        many = len(self.instances.costs.nodes)
        multipliers = Multipliers(
            1.0 if self.time_only else self.idle_w, self.instances.ends.uniform(), np.zeros(many), np.zeros(many)
        )
        return DualBound(all_states(self.instances), multipliers, -math.inf)

    def deadline_w(self, multipliers: Multipliers) -> float:
        """τ: the multiplier of the deadline; 0 without one, where rounding would leave a little."""
        if self.time_only or math.isinf(self.max_s):
            return 0.0
        return max(0.0, multipliers.time_w - self.idle_w - float(multipliers.energy @ self.node_w))

    @cached_property
    def node_w(self) -> Floats:
        """The idle power of each node."""
        return self.instances.costs.problem.idle_w[self.instances.costs.nodes]

    def constant_j(self, multipliers: Multipliers) -> float:
        """The constant that the Lagrangian subtracts: multipliers × limits."""
        deadline_w, limited = self.deadline_w(multipliers), multipliers.energy > 0
        over = float(multipliers.cpu_j @ self.instances.costs.limit) + float(
            multipliers.energy[limited] @ self.max_j[limited]
        )
        return over + (deadline_w * self.max_s if deadline_w > 0 else 0.0)


@dataclass(frozen=True)
class DualBound:
    """The remaining states, the multipliers with the highest bound, and that bound of an iteration."""

    remaining: StateSpace
    multipliers: Multipliers
    value: float
    reduced_cost_j: tuple[tuple[Floats, ...], ...] = ()
    """How far the least cost of a mapping through each state is above the cheapest, at the last multipliers."""


def tighten(dual: DualProblem, start: DualBound, target: float, rounds: int) -> DualBound | None:
    """Raise the bound and drop states through which no mapping is below ``target``; None where none is left."""
    best, multipliers, remaining = replace(start, value=-math.inf), start.multipliers, start.remaining
    step_scale, stalled = 1.0, 0
    for _ in range(rounds):
        table = JointMappingTable(dual.instances, multipliers, remaining, time_only=dual.time_only)
        constant_j = dual.constant_j(multipliers)
        bound = table.total_j() - constant_j
        if not bound < target:
            return None
        through_j = tuple(table.min_cost_through_j())[::-1]
        kept = [[cost < target + constant_j for cost in costs] for costs in through_j]
        remaining = _select(remaining, kept)
        if is_empty(remaining):
            return None
        reduced_cost_j = tuple(tuple(cost - constant_j - bound for cost in costs) for costs in _select(through_j, kept))
        stalled = 0 if bound > best.value + 0.02 * (target - best.value) else stalled + 1
        best = (
            DualBound(remaining, multipliers, bound, reduced_cost_j)
            if bound > best.value
            else replace(best, remaining=remaining, reduced_cost_j=reduced_cost_j)
        )
        if stalled > _PATIENCE:
            step_scale, stalled = step_scale / 2, 0
        stepped = _ascent_step(dual, table, step_scale * (min(target, 2 * abs(best.value)) - bound))
        if stepped is None:
            break
        multipliers = stepped
    return best


def cheapest_mappings(dual: DualProblem, target: float, rounds: int, max_states: int) -> Iterator[Mapping]:
    """The cheapest mappings at the multipliers of a few ascent steps; node numbers are the cluster's.

    Yields nothing where a layer has more joint states than ``max_states``.
    """
    start = dual.start()
    if is_empty(start.remaining) or max_joint_states(start.remaining) > max_states:
        return
    multipliers, nodes = start.multipliers, dual.instances.costs.nodes
    for _ in range(rounds):
        table = JointMappingTable(dual.instances, multipliers, start.remaining)
        bound = table.total_j() - dual.constant_j(multipliers)
        if not math.isfinite(bound):
            return
        yield tuple(tuple(nodes[state % len(nodes)] for state in states) for states in table.cheapest())
        stepped = _ascent_step(dual, table, max(min(target, 2 * abs(bound)) - bound, 0.05 * abs(bound)))
        if stepped is None:
            return
        multipliers = stepped


def _select(values: Any, kept: list[list[Any]]) -> Any:
    """The values that are kept, by layer, group and state."""
    return tuple(
        tuple(each[own] for each, own in zip(groups, owns, strict=True))
        for groups, owns in zip(values, kept, strict=True)
    )


def _ascent_step(dual: DualProblem, table: JointMappingTable, rise: float) -> Multipliers | None:
    """The next multipliers, with a step after which a linear bound would rise by ``rise``; None at the optimum."""
    multipliers, usage, ends, limit = table.multipliers, table.usage(), dual.instances.ends, dual.instances.costs.limit
    mean_s, spread = moments(ends, multipliers.weights, usage.lengths)
    share_unit = multipliers.time_w * max(mean_s, 1e-300) / limit
    share_slope = _projected(multipliers.cpu_j, usage.share - limit)
    energy_slope = _projected(multipliers.energy, _excess_j(dual, usage.dynamic_j + dual.node_w * mean_s))
    deadline_w = dual.deadline_w(multipliers)
    late_s = 0.0 if dual.time_only or math.isinf(dual.max_s) else mean_s - dual.max_s
    late_slope = late_s if deadline_w > 0 or late_s > 0 else 0.0
    norm = multipliers.time_w**2 * (spread + late_slope**2)
    norm += float(((share_unit * share_slope) ** 2).sum()) + float((energy_slope**2).sum())
    if norm <= 0:
        return None
    step = rise / norm
    cpu_j = np.maximum(0.0, multipliers.cpu_j + np.clip(step * share_unit**2 * share_slope, -share_unit, share_unit))
    energy = np.maximum(0.0, multipliers.energy + np.clip(step * energy_slope, -1.0, 1.0))
    deadline_w = max(
        0.0, deadline_w + max(-multipliers.time_w, min(multipliers.time_w, step * multipliers.time_w**2 * late_slope))
    )
    time_w = multipliers.time_w if dual.time_only else dual.idle_w + deadline_w + float(energy @ dual.node_w)
    return Multipliers(
        time_w, mirror_step(ends, multipliers.weights, usage.lengths, step * multipliers.time_w), cpu_j, energy
    )


def _excess_j(dual: DualProblem, used_j: Floats) -> Floats:
    """The joules above each node's limit, 0 where it has none."""
    limited = np.isfinite(dual.max_j) & (not dual.time_only)
    return np.where(limited, used_j - np.where(limited, dual.max_j, 0.0), 0.0)


def _projected(multiplier: Floats, slope: Floats) -> Floats:
    """A slope, 0 where it would make a multiplier negative."""
    return np.where((multiplier <= 0) & (slope < 0), 0.0, slope)
