"""A primal-dual interior-point method for the geometric program of CPU shares.

It stops when the value is at most ``GAP`` of it above the optimum, so that value × (1 − GAP) is a lower bound.

Why not a library: SciPy's trust-constr is ten times slower and fails at times; its SLSQP is about as fast but gives no
duality gap; CVXPY with Clarabel is four times slower (docs/decisions.md has the figures).

    S. Boyd, L. Vandenberghe: Convex Optimization, 2004, chapter 11.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.geometric_program import GAP, LEAST_SHARE, CriticalPath, EnergyCap, GeometricProgram
from palmette.plan.righttrain.problem import Floats

_MIN_CENTRING = 0.05
_MAX_STEPS = 400  # from a start at the boundary of shares and limits more than a hundred
_MAX_LOG_SHARE = 100.0


class _Constraints(NamedTuple):
    """Constraints f ≤ 0 at a point: values, Jacobian, and Hessians, which are all diagonal."""

    values: Floats
    jacobian: Floats
    curvature: Floats


@dataclass(frozen=True, slots=True)
class _Iterate:
    """A point, its multipliers, and the derivatives for the next step."""

    point: Floats
    multipliers: Floats
    constraints: _Constraints
    gradient: Floats
    curvature: Floats
    dual_residual: Floats
    """The gradient of the Lagrangian."""

    def residual_norm(self, centre: float) -> float:
        """The norm of the residual of the KKT conditions, on the central path at ``centre``."""
        return float(
            np.linalg.norm(np.append(self.dual_residual, -self.multipliers * self.constraints.values - centre))
        )


class ScaledProgram:
    """A program with a fixed set of paths, in units of ``unit_s`` seconds and of its own energy."""

    def __init__(
        self,
        program: GeometricProgram,
        paths: list[CriticalPath],
        member: Floats,
        unit_s: float,
        max_s: float,
        *,
        time_only: bool,
    ) -> None:
        self.size = len(program.dynamic_j)
        self.fixed = np.array([path.fixed_s for path in paths]) / unit_s
        self.work = np.array([path.work_s for path in paths]) / unit_s
        self.member = member / program.limits[:, None]
        self.power = 1 - program.exponent
        idle, dynamic = (1.0, 0.0 * program.dynamic_j) if time_only else (program.idle_w * unit_s, program.dynamic_j)
        unit_j = idle + float(dynamic.sum()) or 1.0
        self.idle, self.dynamic = idle / unit_j, dynamic / unit_j
        max_time = float((self.fixed + self.work.sum(axis=1) / LEAST_SHARE).max()) * 2 + 1
        self.max_time = min(max_s / unit_s, max_time)
        self.caps = [] if time_only else [self._scaled_cap(cap, program, unit_s) for cap in program.caps]
        self.max_y = -np.log(LEAST_SHARE)

    def _scaled_cap(self, cap: EnergyCap, program: GeometricProgram, unit_s: float) -> tuple[float, Floats]:
        """A cap as (idle, dynamic), as fractions of the cap."""
        dynamic = np.zeros(self.size)
        dynamic[cap.instances] = program.dynamic_j[cap.instances]
        return cap.idle_w * unit_s / cap.max_j, dynamic / cap.max_j

    def start(self, shares: Floats) -> Floats:
        """A strictly feasible point: the shares, and a little more than their time."""
        y = -np.log(shares)
        time = float((self.fixed + self.work @ np.exp(y)).max())
        for margin in (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
            point = np.append(y, min(time * (1 + margin), (time + self.max_time) / 2))
            if (self.constraints(point).values < 0).all():
                break
        return point

    def solve(self, point: Floats) -> Floats:
        """Newton steps on the KKT conditions, for the point and its multipliers together."""
        at = self._evaluate(point, None)
        centring = 0.5
        for _ in range(_MAX_STEPS):
            gap = -float(at.constraints.values @ at.multipliers)
            if gap < GAP * self.value(at.point) and float(np.abs(at.dual_residual).max()) < GAP:
                break
            centre = centring * gap / len(at.multipliers)
            accepted, size = self._line_search(at, *self._newton_step(at, centre), centre)
            if accepted is None:
                break
            at, centring = accepted, max(_MIN_CENTRING, 1 - size)
        return at.point

    def _evaluate(self, point: Floats, multipliers: Floats | None) -> _Iterate:
        constraints = self.constraints(point)
        multipliers = -1 / constraints.values if multipliers is None else multipliers
        gradient, curvature = self.derivatives(point)
        return _Iterate(
            point, multipliers, constraints, gradient, curvature, gradient + constraints.jacobian.T @ multipliers
        )

    def _newton_step(self, at: _Iterate, centre: float) -> tuple[Floats, Floats]:
        """The Newton step of point and multipliers towards the central path at ``centre``."""
        values, jacobian = at.constraints.values, at.constraints.jacobian
        weights = -at.multipliers / values
        matrix = (jacobian.T * weights) @ jacobian
        matrix[np.diag_indices(self.size)] += at.curvature + at.multipliers @ at.constraints.curvature
        step = np.asarray(np.linalg.solve(matrix, jacobian.T @ (centre / values) - at.gradient), dtype=np.float64)
        return step, weights * (jacobian @ step) - at.multipliers - centre / values

    def _line_search(
        self, at: _Iterate, step: Floats, multiplier_step: Floats, centre: float
    ) -> tuple[_Iterate | None, float]:
        """Backtrack along a step until the point is feasible and the residual falls; None where it never does."""
        falling = multiplier_step < 0
        size = min(1.0, 0.99 * float((-at.multipliers[falling] / multiplier_step[falling]).min(initial=np.inf)))
        before = at.residual_norm(centre)
        while size > 1e-12:
            point = at.point + size * step
            if (np.abs(point[:-1]) < _MAX_LOG_SHARE).all():
                tried = self._evaluate(point, at.multipliers + size * multiplier_step)
                if (tried.constraints.values < 0).all() and tried.residual_norm(centre) <= (1 - 0.01 * size) * before:
                    return tried, size
            size *= 0.5
        return None, 0.0

    def value(self, point: Floats) -> float:
        """The objective."""
        return float(self.idle * point[-1] + self.dynamic @ np.exp(self.power * point[:-1]))

    def derivatives(self, point: Floats) -> tuple[Floats, Floats]:
        """The gradient of the objective, and the diagonal of its Hessian."""
        dynamic = self.dynamic * np.exp(self.power * point[:-1])
        return np.append(self.power * dynamic, self.idle), self.power**2 * dynamic

    def constraints(self, point: Floats) -> _Constraints:
        """All constraints: paths, CPUs, least shares, the deadline, energy caps."""
        y, time, size = point[:-1], float(point[-1]), self.size
        work, share = self.work * np.exp(y), self.member * np.exp(-y)
        used = np.array([dynamic * np.exp(self.power * y) for _, dynamic in self.caps]).reshape(-1, size)
        idle = np.array([idle for idle, _ in self.caps])
        values = np.concatenate(
            (
                self.fixed + work.sum(axis=1) - time,
                share.sum(axis=1) - 1,
                y - self.max_y,
                [time - self.max_time],
                idle * time + used.sum(axis=1) - 1,
            )
        )
        paths, nodes = len(work), len(share)
        jacobian, curvature = np.zeros((len(values), size + 1)), np.zeros((len(values), size))
        jacobian[:paths, :size], jacobian[:paths, size] = work, -1.0
        jacobian[paths : paths + nodes, :size] = -share
        at = paths + nodes
        jacobian[np.arange(at, at + size), np.arange(size)] = 1.0
        jacobian[at + size, size] = 1.0
        jacobian[at + size + 1 :, :size], jacobian[at + size + 1 :, size] = self.power * used, idle
        curvature[:paths], curvature[paths:at], curvature[at + size + 1 :] = work, share, self.power**2 * used
        return _Constraints(values, jacobian, curvature)
