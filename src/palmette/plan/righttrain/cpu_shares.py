"""The optimal CPU shares of a geometric program, by constraint generation.

An iteration has many paths. The program is solved with a few of them; the path that the solution makes longer than it
assumed is added, until there is none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palmette.plan.righttrain.geometric_program import ROUNDING, CriticalPath, EnergyCap, GeometricProgram
from palmette.plan.righttrain.interior_point import ScaledProgram
from palmette.plan.righttrain.problem import Floats

_MAX_ROUNDS = 40
_CLOSE = 1e-6
_CAP_ROUNDS = 5
"""Rounds of other weights, where several nodes have energy limits."""
_MARGIN = 1e-4
"""The part of the deadline that a starting point stays away from it."""


def optimal_shares(program: GeometricProgram) -> Floats | None:
    """The shares with the least energy; None where none meet the deadline and the energy limits."""
    full = program.even_shares()
    if len(program.nodes) == len(full) and not program.caps and (program.exponent <= 1).all():
        return (
            full if program.time_s(full) <= program.max_s * (1 + ROUNDING) else None
        )  # power is linear in the share: slower saves nothing
    if program.time_s(program.full_shares()) > program.max_s * (1 + ROUNDING):
        return None  # too slow even with a whole CPU per instance
    return _ShareSolver(program).optimal()


def fastest_shares(program: GeometricProgram) -> Floats:
    """The shares with the least time."""
    full = program.even_shares()
    return full if len(program.nodes) == len(full) else _ShareSolver(program).fastest()


class _ShareSolver:
    """Solves one program, starting from even shares."""

    def __init__(self, program: GeometricProgram) -> None:
        self._program = program
        many = len(program.dynamic_j)
        self._start = program.even_shares() * 0.98
        self._member = np.zeros((len(program.nodes), many))
        for k, members in enumerate(program.nodes):
            self._member[k, list(members)] = 1.0
        self._unit_s = program.time_s(self._start) or 1.0
        self._paths: list[CriticalPath] = []
        for k in range(-1, many):  # the critical path as it is, and with one instance much slower
            slow = 1 / self._start
            if k >= 0:
                slow[k] *= 4
            self._add_path(program.critical_path(slow))

    def _add_path(self, path: CriticalPath) -> None:
        if not any(
            path.fixed_s == known.fixed_s and np.array_equal(path.work_s, known.work_s) for known in self._paths
        ):
            self._paths.append(path)

    def fastest(self) -> Floats:
        """The shares with the least time."""
        return self._add_paths_until_exact(self._start, np.inf, time_only=True)

    def optimal(self) -> Floats | None:
        """The shares with the least energy."""
        program, shares = self._program, self._start
        if not self._is_strictly_feasible(shares):
            fastest = self.fastest()
            found = fastest if self._is_strictly_feasible(fastest) else self._within_caps(fastest)
            if found is None:
                return self._boundary_solution(fastest)
            shares = found
        return self._add_paths_until_exact(shares, program.max_s, time_only=False)

    def _within_caps(self, fastest: Floats) -> Floats | None:
        """Slower shares with which no node exceeds its energy limit; None where none are found.

        The energy of the limited nodes is minimised, each in parts of its limit, with more weight on those that still
        exceed it.
        """
        program, max_s = self._program, self._program.max_s * (1 - _MARGIN)
        least_s = program.time_s(fastest) * (1 - _CLOSE)
        if not program.caps or least_s >= max_s or any(cap.is_out_of_reach(least_s) for cap in program.caps):
            return None
        weights, inside = np.ones(len(program.caps)), fastest * max(0.5, (least_s / max_s) ** 0.5)
        for _ in range(_CAP_ROUNDS):  # the fastest shares fill the CPUs: so near the boundary, Newton steps get stuck
            frugal = _ShareSolver(_of_capped_nodes(program, weights.tolist(), max_s))
            shares = frugal._add_paths_until_exact(inside, max_s, time_only=False)
            if self._is_strictly_feasible(shares):
                return shares
            time_s = program.time_s(shares)
            weights *= [self._used_j(cap, shares, time_s) / cap.max_j for cap in program.caps]
        return None

    def _is_strictly_feasible(self, shares: Floats) -> bool:
        time_s = self._program.time_s(shares) * (1 + _CLOSE)
        return time_s < self._program.max_s and all(
            self._used_j(cap, shares, time_s) < cap.max_j for cap in self._program.caps
        )

    def _boundary_solution(self, shares: Floats) -> Floats | None:
        """The fastest shares, where only they are fast enough; None where not even they are."""
        program, full = self._program, self._fill_cpus(shares)
        time_s = program.time_s(full)
        within_caps = all(self._used_j(cap, full, time_s) <= cap.max_j for cap in program.caps)
        return full if time_s <= program.max_s * (1 + ROUNDING) and within_caps else None

    def _fill_cpus(self, shares: Floats) -> Floats:
        used = self._member @ shares
        return shares * (self._member.T @ (self._program.limits / used))

    def _used_j(self, cap: EnergyCap, shares: Floats, time_s: float) -> float:
        own = cap.instances
        dynamic_j = self._program.dynamic_j[own] * shares[own] ** (self._program.exponent[own] - 1)
        return cap.idle_w * time_s + float(dynamic_j.sum())

    def _add_paths_until_exact(self, shares: Floats, max_s: float, *, time_only: bool) -> Floats:
        """Solve with the paths known so far, until no other path is longer than the solution's time."""
        for _ in range(_MAX_ROUNDS):
            found, time_s = self._solve_with_paths(shares, max_s, time_only=time_only)
            path = self._program.critical_path(1 / found)
            true_s = path.fixed_s + float(path.work_s @ (1 / found))
            if true_s <= time_s * (1 + _CLOSE):
                break
            self._add_path(path)
        return found

    def _solve_with_paths(self, shares: Floats, max_s: float, *, time_only: bool) -> tuple[Floats, float]:
        """Solve from feasible shares with the paths known so far; returns shares and time."""
        scaled = ScaledProgram(self._program, self._paths, self._member, self._unit_s, max_s, time_only=time_only)
        point = scaled.solve(scaled.start(shares))
        return np.exp(-point[:-1]), float(point[-1]) * self._unit_s


def _of_capped_nodes(program: GeometricProgram, weights: list[float], max_s: float) -> GeometricProgram:
    """The program that minimises the weighted energy of the nodes with limits, each in parts of its limit."""
    idle_w, dynamic_j = 0.0, np.zeros_like(program.dynamic_j)
    for cap, weight in zip(program.caps, weights, strict=True):
        idle_w += weight * cap.idle_w / cap.max_j
        dynamic_j[cap.instances] += weight * program.dynamic_j[cap.instances] / cap.max_j
    return replace(program, idle_w=idle_w, dynamic_j=dynamic_j, max_s=max_s, caps=[])
