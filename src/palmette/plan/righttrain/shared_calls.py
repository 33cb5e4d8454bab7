"""A lower bound of a mapped tree's energy that counts calls side by side on a node together.

The geometric program counts each instance by its own share, while power grows with the sum of the shares that compute
at a moment. Over T seconds with W of work on a node, its dynamic energy is at least D·T·(W/T)^γ, whatever overlaps. The
tangent of that (``layer_costs``) stands in for the node's instances, and the program is solved again for all others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from palmette.plan.righttrain.cpu_shares import optimal_shares
from palmette.plan.righttrain.geometric_program import GAP, GeometricProgram
from palmette.plan.righttrain.problem import Floats

_LONGEST = 1e3
"""The most time that is tried, as a multiple of the least."""
_CLOSE = 1e-6
_LONGER = 1e-4
"""Tangents are taken a little later than at the best time, so that time keeps a price that is not negative."""


class _SharedNode(NamedTuple):
    """A node with several instances: those, its dynamic energy if all its work took one second, and its exponent."""

    instances: list[int]
    unit_j: float
    exponent: float

    def joules(self, time_s: float) -> float:
        """The least dynamic energy of its work in some time."""
        return float(self.unit_j * time_s ** (1 - self.exponent))

    def saved_w(self, time_s: float) -> float:
        """How much more time saves: the tangent's slope, negated."""
        return float((self.exponent - 1) * self.unit_j * time_s**-self.exponent)


def together_bound_j(program: GeometricProgram, work_s: Floats) -> float:
    """The bound, without what is sent; 0 where it says nothing. ``work_s`` is that of each instance on a whole CPU."""
    shared = [] if program.caps else list(_shared_nodes(program, work_s))
    if not shared:
        return 0.0
    least_s = program.time_s(program.full_shares())
    most_s = min(program.max_s, _LONGEST * least_s)
    if not 0 < least_s < most_s:
        return 0.0
    found = minimize_scalar(
        lambda time_s: program.idle_w * time_s + sum(node.joules(time_s) for node in shared),
        bounds=(least_s, most_s),
        method="bounded",
        options={"xatol": _CLOSE * least_s},
    )
    return _at_tangents(program, shared, float(found.x) * (1 + _LONGER))


def _shared_nodes(program: GeometricProgram, work_s: Floats) -> list[_SharedNode]:
    found = []
    for members in program.nodes:
        own = list(members)
        if len(own) > 1 and program.exponent[own[0]] > 1:
            exponent, total_s = float(program.exponent[own[0]]), float(work_s[own].sum())
            per_second_w = float(program.dynamic_j[own].sum()) / total_s
            found.append(_SharedNode(own, per_second_w * total_s**exponent, exponent))
    return found


def _at_tangents(program: GeometricProgram, shared: list[_SharedNode], time_s: float) -> float:
    """The least of the program with tangents at some time in the place of the energy of shared nodes."""
    saved_w = sum(node.saved_w(time_s) for node in shared)
    constant_j = sum(node.joules(time_s) + node.saved_w(time_s) * time_s for node in shared)
    idle_w, dynamic_j = program.idle_w - saved_w, program.dynamic_j.copy()
    for node in shared:
        dynamic_j[node.instances] = 0.0
    if idle_w < 0:  # then the longest time is the best
        if math.isinf(program.max_s):
            return 0.0
        constant_j += idle_w * program.max_s
    rest = replace(program, idle_w=max(idle_w, 0.0), dynamic_j=dynamic_j)
    if rest.idle_w <= 0 and not np.any(dynamic_j > 0):
        return constant_j
    shares = optimal_shares(rest)
    return math.inf if shares is None else constant_j + rest.value_j(shares) * (1 - GAP)
