"""The best prices for the joint table: those that make its bound highest, by mirror steps with Polyak's length.

For a tree and a set of nodes in use, with idle power P, limits R_n of CPUs and E_n of energy:

    E ≥ min over mappings of costs(Λ, κ, ν) − τ T_most − Σ κ_n R_n − Σ ν_n E_n        Λ = P + τ + Σ ν_n P_n

for any prices τ of the deadline, κ_n of CPUs and ν_n of energy limits that are not negative, and any split of Λ over
the ways through an iteration. The cheapest mapping at some prices says which constraints it breaks; their prices are
raised. States through which no mapping is below what is aimed at are dropped on the way. With nothing but time at a
price the same bounds the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.optimum.instances import Instances
from palmette.plan.righttrain.optimum.joint_mapping import (
    Alive,
    JointTable,
    Multipliers,
    everywhere,
    is_empty,
    most_states,
)
from palmette.plan.righttrain.optimum.path_weights import moments, moved
from palmette.plan.righttrain.problem import Floats

_PATIENCE = 2


@dataclass(frozen=True)
class Frame:
    """What is bounded: a tree among nodes that idle at ``idle_w`` in all, within ``most_s`` an iteration."""

    instances: Instances
    idle_w: float
    most_s: float
    most_j: Floats
    """The joules an iteration that each node may use, infinite where it has no limit."""
    timed: bool = False
    """Whether time is bounded, instead of energy."""

    def start(self) -> Squeezed:
        """All states, a second at the price of idling, evenly over the ways."""
        many = len(self.instances.costs.nodes)
        worth = Multipliers(
            1.0 if self.timed else self.idle_w, self.instances.ends.even(), np.zeros(many), np.zeros(many)
        )
        return Squeezed(everywhere(self.instances), worth, -math.inf)

    def late_w(self, worth: Multipliers) -> float:
        """τ: the price of the deadline."""
        if self.timed:
            return 0.0
        return max(0.0, worth.time_w - self.idle_w - float(worth.energy @ self.node_w))

    @cached_property
    def node_w(self) -> Floats:
        """The idle power of each node."""
        return self.instances.costs.ground.idle_w[self.instances.costs.nodes]

    def credit_j(self, worth: Multipliers) -> float:
        """What constraints that are just met are credited with."""
        late_w, limited = self.late_w(worth), worth.energy > 0
        over = float(worth.share_j @ self.instances.costs.limit) + float(worth.energy[limited] @ self.most_j[limited])
        return over + (late_w * self.most_s if late_w > 0 else 0.0)


@dataclass(frozen=True)
class Squeezed:
    """The states that are left, the prices with the highest bound, and that bound of an iteration."""

    alive: Alive
    worth: Multipliers
    bound: float
    above_j: tuple[tuple[Floats, ...], ...] = ()
    """How far the least cost of a mapping through each state is above the cheapest, at the last prices."""


def squeezed(frame: Frame, start: Squeezed, aim: float, rounds: int) -> Squeezed | None:
    """Raise the bound, and drop states through which no mapping is below ``aim``; None once none is at all."""
    best, at, alive = replace(start, bound=-math.inf), start.worth, start.alive
    boldness, waited = 1.0, 0
    for _ in range(rounds):
        table = JointTable(frame.instances, at, alive, timed=frame.timed)
        credit_j = frame.credit_j(at)
        bound = table.total_j() - credit_j
        if not bound < aim:
            return None
        through_j = tuple(table.through_j())[::-1]
        kept = [[cost < aim + credit_j for cost in costs] for costs in through_j]
        alive = _of(alive, kept)
        if is_empty(alive):
            return None
        above_j = tuple(tuple(cost - credit_j - bound for cost in costs) for costs in _of(through_j, kept))
        waited = 0 if bound > best.bound + 0.02 * (aim - best.bound) else waited + 1
        best = (
            Squeezed(alive, at, bound, above_j) if bound > best.bound else replace(best, alive=alive, above_j=above_j)
        )
        if waited > _PATIENCE:
            boldness, waited = boldness / 2, 0
        raised = _raised(frame, table, boldness * (min(aim, 2 * abs(best.bound)) - bound))
        if raised is None:
            break
        at = raised
    return best


def cheapest(frame: Frame, aim: float, rounds: int, most: int) -> Iterator[Mapping]:
    """The cheapest mappings, as numbers of the cluster's nodes, at prices that are raised towards a bound of ``aim``.

    None where a layer has more states than ``most``.
    """
    start = frame.start()
    if is_empty(start.alive) or most_states(start.alive) > most:
        return
    worth, nodes = start.worth, frame.instances.costs.nodes
    for _ in range(rounds):
        table = JointTable(frame.instances, worth, start.alive)
        bound = table.total_j() - frame.credit_j(worth)
        if not math.isfinite(bound):
            return
        yield tuple(tuple(nodes[state % len(nodes)] for state in states) for states in table.cheapest())
        raised = _raised(frame, table, max(min(aim, 2 * abs(bound)) - bound, 0.05 * abs(bound)))
        if raised is None:
            return
        worth = raised


def _of(values: Any, kept: list[list[Any]]) -> Any:
    """Those values by layer, group and state that are kept."""
    return tuple(
        tuple(each[own] for each, own in zip(groups, owns, strict=True))
        for groups, owns in zip(values, kept, strict=True)
    )


def _raised(frame: Frame, table: JointTable, ahead: float) -> Multipliers | None:
    """Prices a step further, so long that the bound would rise by ``ahead`` if it were a plane."""
    worth, used, ends, limit = table.worth, table.usage(), frame.instances.ends, frame.instances.costs.limit
    mean_s, spread = moments(ends, worth.split, used.lengths)
    share_unit = worth.time_w * max(mean_s, 1e-300) / limit
    share_slope = _upwards(worth.share_j, used.share - limit)
    energy_slope = _upwards(worth.energy, _over_j(frame, used.effort_j + frame.node_w * mean_s))
    late_w, late_s = frame.late_w(worth), 0.0 if frame.timed or math.isinf(frame.most_s) else mean_s - frame.most_s
    late_slope = late_s if late_w > 0 or late_s > 0 else 0.0
    norm = worth.time_w**2 * (spread + late_slope**2)
    norm += float(((share_unit * share_slope) ** 2).sum()) + float((energy_slope**2).sum())
    if norm <= 0:
        return None
    step = ahead / norm
    share_j = np.maximum(0.0, worth.share_j + np.clip(step * share_unit**2 * share_slope, -share_unit, share_unit))
    energy = np.maximum(0.0, worth.energy + np.clip(step * energy_slope, -1.0, 1.0))
    late_w = max(0.0, late_w + max(-worth.time_w, min(worth.time_w, step * worth.time_w**2 * late_slope)))
    time_w = worth.time_w if frame.timed else frame.idle_w + late_w + float(energy @ frame.node_w)
    return Multipliers(time_w, moved(ends, worth.split, used.lengths, step * worth.time_w), share_j, energy)


def _over_j(frame: Frame, used_j: Floats) -> Floats:
    """The joules above each node's limit, 0 where it has none."""
    limited = np.isfinite(frame.most_j) & (not frame.timed)
    return np.where(limited, used_j - np.where(limited, frame.most_j, 0.0), 0.0)


def _upwards(price: Floats, slope: Floats) -> Floats:
    """A slope without what would make a price of 0 negative."""
    return np.where((price <= 0) & (slope < 0), 0.0, slope)
