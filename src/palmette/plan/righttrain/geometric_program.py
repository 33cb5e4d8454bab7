"""Data and CPU: the shares that cost least, as a geometric program, solved by an interior-point method.

The data is settled by the schedule, a common fraction of every source. What remains are the CPU shares ρ. In
y = −log ρ everything is convex:

    minimise    P·T + Σ D_i e^((1−γ_i) y_i)           idle power × time, and what computing costs above idling
    such that   c_p + Σ a_pi e^(y_i) ≤ T               for each path p through the iteration
                T ≤ T_most
                Σ e^(−y_i) ≤ R_n                       the instances on node n: equation (1)
                P_n T + Σ D_i e^((1−γ_i) y_i) ≤ E_n    the energy that node n may use, if it is limited

A primal-dual interior-point method ends when the value is at most ``GAP`` of it above the optimum, so that value ×
(1 − GAP) is a lower bound. Paths are many: those are added that the solution so far would break.

    S. Boyd, L. Vandenberghe: Convex Optimization, 2004, chapters 4.5 and 11.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats

GAP = 1e-6
LEAST_SHARE = 1e-6
_BOLDEST = 0.05
_MOST_STEPS = 80
_FARTHEST = 100.0
_ROUNDING = 1e-12


class Path(NamedTuple):
    """A path through an iteration: seconds that no share changes, and the work of each instance on it."""

    fixed_s: float
    work_s: Floats


@dataclass(frozen=True)
class Cap:
    """A node's energy limit: its idle power, its instances, and the joules that are left to them an iteration."""

    idle_w: float
    instances: list[int]
    most_j: float


@dataclass(frozen=True)
class Program:
    """The problem: see the module."""

    idle_w: float
    effort_j: Floats
    exponent: Floats
    nodes: Sequence[Sequence[int]]
    """The instances on each node."""
    limits: Floats
    """The CPU share of each node in ``nodes``."""
    longest: Callable[[Floats], Path]
    """The longest path for 1/ρ of each instance."""
    most_s: float = float("inf")
    caps: list[Cap] = field(default_factory=list)

    def even(self) -> Floats:
        """Each node's CPU in equal shares."""
        shares = np.empty(len(self.effort_j))
        for members, limit in zip(self.nodes, self.limits, strict=True):
            shares[list(members)] = limit / len(members)
        return shares

    def alone(self) -> Floats:
        """As if each instance had its node's CPU to itself."""
        shares = np.empty(len(self.effort_j))
        for members, limit in zip(self.nodes, self.limits, strict=True):
            shares[list(members)] = limit
        return shares

    def value_j(self, shares: Floats) -> float:
        """The objective."""
        return self.idle_w * self.time_s(shares) + float((self.effort_j * shares ** (self.exponent - 1)).sum())

    def time_s(self, shares: Floats) -> float:
        """The longest path."""
        path = self.longest(1 / shares)
        return path.fixed_s + float(path.work_s @ (1 / shares))


def glance_j(program: Program, prices_w: Sequence[float]) -> float:
    """A quick lower bound of the value: one path at a price of its time, each instance at its own best share.

    For a path c + Σ a_i s_i and any price Λ ≥ P: Λ c − (Λ − P) T_most + Σ min over s_i of Λ a_i s_i + D_i s_i^(1−γ_i).
    """
    full = program.alone()
    path = program.longest(1 / full)
    if path.fixed_s + float(path.work_s @ (1 / full)) > program.most_s * (1 + _ROUNDING):
        return float("inf")
    best = 0.0
    for price_w in prices_w:
        watts = max(price_w, program.idle_w) if program.most_s < float("inf") else program.idle_w
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (watts * path.work_s / ((program.exponent - 1) * program.effort_j)) ** (1 / program.exponent)
        share = np.where(np.isfinite(share), np.clip(share, LEAST_SHARE, full), full)
        over_j = (watts - program.idle_w) * program.most_s if watts > program.idle_w else 0.0
        effort_j = float((program.effort_j * share ** (program.exponent - 1)).sum())
        best = max(best, watts * (path.fixed_s + float(path.work_s @ (1 / share))) + effort_j - over_j)
    return best


def solved(program: Program) -> Floats | None:
    """The best shares; None where no shares are fast enough or frugal enough."""
    full = program.even()
    if len(program.nodes) == len(full) and not program.caps and (program.exponent <= 1).all():
        return full if program.time_s(full) <= program.most_s * (1 + _ROUNDING) else None  # slower never pays
    if program.time_s(program.alone()) > program.most_s * (1 + _ROUNDING):
        return None  # not even with a CPU for each instance
    return _Solver(program).best()


def fastest(program: Program) -> Floats:
    """The shares with the least time."""
    full = program.even()
    return full if len(program.nodes) == len(full) else _Solver(program).fastest()


class _Solver:
    """One solution: scales the problem, starts from even shares, adds paths as they are needed."""

    def __init__(self, program: Program) -> None:
        self._program = program
        many = len(program.effort_j)
        self._start = program.even() * 0.98
        self._member = np.zeros((len(program.nodes), many))
        for k, members in enumerate(program.nodes):
            self._member[k, list(members)] = 1.0
        self._unit_s = program.time_s(self._start) or 1.0
        self._rows: list[Path] = []
        for k in range(-1, many):  # the longest path as it is, and with one instance much slower
            slow = 1 / self._start
            if k >= 0:
                slow[k] *= 4
            self._add(program.longest(slow))

    def _add(self, path: Path) -> None:
        if not any(path.fixed_s == row.fixed_s and np.array_equal(path.work_s, row.work_s) for row in self._rows):
            self._rows.append(path)

    def fastest(self) -> Floats:
        """The shares with the least time."""
        return self._until_true(self._start, np.inf, timed=True)

    def best(self) -> Floats | None:
        """The best shares."""
        program, shares = self._program, self._start
        if not self._allowed(shares):
            shares = self.fastest()
            if not self._allowed(shares):
                return self._at_the_edge(shares)
        return self._until_true(shares, program.most_s, timed=False)

    def _allowed(self, shares: Floats) -> bool:
        time_s = self._program.time_s(shares) * (1 + 1e-6)
        return time_s < self._program.most_s and all(
            self._used_j(cap, shares, time_s) < cap.most_j for cap in self._program.caps
        )

    def _at_the_edge(self, shares: Floats) -> Floats | None:
        """The fastest shares, where they are just fast enough; nothing else is."""
        program, filled = self._program, self._filled(shares)
        time_s = program.time_s(filled)
        frugal = all(self._used_j(cap, filled, time_s) <= cap.most_j for cap in program.caps)
        return filled if time_s <= program.most_s * (1 + _ROUNDING) and frugal else None

    def _filled(self, shares: Floats) -> Floats:
        used = self._member @ shares
        return shares * (self._member.T @ (self._program.limits / used))

    def _used_j(self, cap: Cap, shares: Floats, time_s: float) -> float:
        own = cap.instances
        effort = self._program.effort_j[own] * shares[own] ** (self._program.exponent[own] - 1)
        return cap.idle_w * time_s + float(effort.sum())

    def _until_true(self, shares: Floats, most_s: float, *, timed: bool) -> Floats:
        """Solve with the paths known so far, until none is longer than the solution believes."""
        start = shares
        for _ in range(40):
            found, time_s = self._central(start, most_s, timed=timed)
            path = self._program.longest(1 / found)
            true_s = path.fixed_s + float(path.work_s @ (1 / found))
            if true_s <= time_s * (1 + 1e-6):
                break
            self._add(path)
        return found

    def _central(self, shares: Floats, most_s: float, *, timed: bool) -> tuple[Floats, float]:
        """Solve from shares that are allowed, with the paths so far; returns the shares and the time."""
        scaled = _Scaled(self._program, self._rows, self._member, self._unit_s, most_s, timed=timed)
        point = scaled.solve(scaled.start(shares))
        return np.exp(-point[:-1]), float(point[-1]) * self._unit_s


class _Parts(NamedTuple):
    """Constraints at a point, each f ≤ 0: values, slopes, and second derivatives, which are all along one axis."""

    values: Floats
    slopes: Floats
    bends: Floats


@dataclass(frozen=True, slots=True)
class _At:
    """A point with its multipliers, and all that the next step needs."""

    point: Floats
    prices: Floats
    parts: _Parts
    slope: Floats
    bend: Floats
    rest: Floats
    """The slope of the Lagrangian."""

    def distance(self, aim: float) -> float:
        """How far from the conditions of optimality, on the central path at ``aim``."""
        return float(np.linalg.norm(np.append(self.rest, -self.prices * self.parts.values - aim)))


class _Scaled:
    """The problem with its paths so far, in seconds of ``unit_s`` and joules of its own size."""

    def __init__(
        self, program: Program, rows: list[Path], member: Floats, unit_s: float, most_s: float, *, timed: bool
    ) -> None:
        self._many = len(program.effort_j)
        self._fixed = np.array([row.fixed_s for row in rows]) / unit_s
        self._work = np.array([row.work_s for row in rows]) / unit_s
        self._member, self._limits = member / program.limits[:, None], np.ones(len(member))
        self._power = 1 - program.exponent
        idle, effort = (1.0, 0.0 * program.effort_j) if timed else (program.idle_w * unit_s, program.effort_j)
        unit_j = idle + float(effort.sum()) or 1.0
        self._idle, self._effort = idle / unit_j, effort / unit_j
        slowest = float((self._fixed + self._work.sum(axis=1) / LEAST_SHARE).max()) * 2 + 1
        self._most = min(most_s / unit_s, slowest)
        self._caps = [] if timed else [self._cap(cap, program, unit_s) for cap in program.caps]
        self._slowest = -np.log(LEAST_SHARE)

    def _cap(self, cap: Cap, program: Program, unit_s: float) -> tuple[float, Floats]:
        """A cap as (idle, effort) in parts of what it allows."""
        effort = np.zeros(self._many)
        effort[cap.instances] = program.effort_j[cap.instances]
        return cap.idle_w * unit_s / cap.most_j, effort / cap.most_j

    def start(self, shares: Floats) -> Floats:
        """A point strictly inside: the shares, and a little more than their time."""
        y = -np.log(shares)
        time = float((self._fixed + self._work @ np.exp(y)).max())
        for room in (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
            point = np.append(y, min(time * (1 + room), (time + self._most) / 2))
            if (self._constraints(point).values < 0).all():
                break
        return point

    def solve(self, point: Floats) -> Floats:
        """Newton steps on the conditions of optimality, for the point and its multipliers together."""
        at = self._at(point, None)
        centring = 0.5
        for _ in range(_MOST_STEPS):
            gap = -float(at.parts.values @ at.prices)
            if gap < GAP * self._value(at.point) and float(np.abs(at.rest).max()) < GAP:
                break
            aim = centring * gap / len(at.prices)
            moved, size = self._moved(at, *self._step(at, aim), aim)
            if moved is None:
                break
            at, centring = moved, max(_BOLDEST, 1 - size)
        return at.point

    def _at(self, point: Floats, prices: Floats | None) -> _At:
        parts = self._constraints(point)
        prices = -1 / parts.values if prices is None else prices
        slope, bend = self._objective(point)
        return _At(point, prices, parts, slope, bend, slope + parts.slopes.T @ prices)

    def _step(self, at: _At, aim: float) -> tuple[Floats, Floats]:
        """The Newton step of point and multipliers towards the central path at ``aim``."""
        values, slopes = at.parts.values, at.parts.slopes
        weights = -at.prices / values
        matrix = (slopes.T * weights) @ slopes
        matrix[np.diag_indices(self._many)] += at.bend + at.prices @ at.parts.bends
        step = np.asarray(np.linalg.solve(matrix, slopes.T @ (aim / values) - at.slope), dtype=np.float64)
        return step, weights * (slopes @ step) - at.prices - aim / values

    def _moved(self, at: _At, step: Floats, prices_step: Floats, aim: float) -> tuple[_At | None, float]:
        """As far along a step as constraints hold and the conditions of optimality come closer."""
        falling = prices_step < 0
        size = min(1.0, 0.99 * float((-at.prices[falling] / prices_step[falling]).min(initial=np.inf)))
        before = at.distance(aim)
        while size > 1e-12:
            point = at.point + size * step
            if (np.abs(point[:-1]) < _FARTHEST).all():
                tried = self._at(point, at.prices + size * prices_step)
                if (tried.parts.values < 0).all() and tried.distance(aim) <= (1 - 0.01 * size) * before:
                    return tried, size
            size *= 0.5
        return None, 0.0

    def _value(self, point: Floats) -> float:
        return float(self._idle * point[-1] + self._effort @ np.exp(self._power * point[:-1]))

    def _objective(self, point: Floats) -> tuple[Floats, Floats]:
        """The slope of what is minimised, and its second derivatives by the shares."""
        effort = self._effort * np.exp(self._power * point[:-1])
        return np.append(self._power * effort, self._idle), self._power**2 * effort

    def _constraints(self, point: Floats) -> _Parts:
        y, time, many = point[:-1], float(point[-1]), self._many
        work, share = self._work * np.exp(y), self._member * np.exp(-y)
        used = np.array([effort * np.exp(self._power * y) for _, effort in self._caps]).reshape(-1, many)
        idle = np.array([idle for idle, _ in self._caps])
        values = np.concatenate(
            (
                self._fixed + work.sum(axis=1) - time,
                share.sum(axis=1) - self._limits,
                y - self._slowest,
                [time - self._most],
                idle * time + used.sum(axis=1) - 1,
            )
        )
        rows, nodes = len(work), len(share)
        slopes, bends = np.zeros((len(values), many + 1)), np.zeros((len(values), many))
        slopes[:rows, :many], slopes[:rows, many] = work, -1.0
        slopes[rows : rows + nodes, :many] = -share
        at = rows + nodes
        slopes[np.arange(at, at + many), np.arange(many)] = 1.0
        slopes[at + many, many] = 1.0
        slopes[at + many + 1 :, :many], slopes[at + many + 1 :, many] = self._power * used, idle
        bends[:rows], bends[rows:at], bends[at + many + 1 :] = work, share, self._power**2 * used
        return _Parts(values, slopes, bends)
