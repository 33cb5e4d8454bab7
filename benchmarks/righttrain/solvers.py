"""Solvers for the CPU shares, on geometric programs that RightTrain's searches really solve.

Each takes the place of the interior-point method inside ``cpu_shares``, with the same starting points, scaling and
generation of paths. Seconds are CPU time, since the machine may be busy. CVXPY is compared where it is installed.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

import palmette as pt
from benchmarks.righttrain.cases import CURVE, fleet
from palmette.plan.righttrain import cpu_allocation
from palmette.plan.righttrain.cpu_shares import optimal_shares
from palmette.plan.righttrain.geometric_program import GeometricProgram
from palmette.plan.righttrain.interior_point import ScaledProgram
from palmette.plan.righttrain.problem import Floats
from palmette.spec.goal import Goal
from tests.plan.righttrain.problems import least_s, planned, random_problem, task

FEASIBLE = 1e-5
"""The relative violation of a constraint that counts as a failure."""
LOOSE = (1.02, 1.3, 2.5, None)
FLEETS = ((10, 5, 20), (20, 10, 20))
_PER_SEARCH = 5
_PER_FLEET = 10

Solver = Callable[[ScaledProgram, Floats], Floats]
"""Takes the place of ``ScaledProgram.solve``: from a strictly feasible point to the optimum."""
compiling_s = [0.0]
"""What CVXPY spends before it calls its solver."""


def trust_constr(scaled: ScaledProgram, start: Floats) -> Floats:
    """SciPy's interior-point method, with exact gradients and Hessians."""

    def hessian(point: Floats, multipliers: Floats) -> Floats:
        return np.diag(np.append(multipliers @ scaled.constraints(point).curvature, 0.0))

    limits = NonlinearConstraint(
        lambda z: scaled.constraints(z).values,
        -np.inf,
        0.0,
        jac=lambda z: scaled.constraints(z).jacobian,
        hess=hessian,
        keep_feasible=True,
    )
    found = minimize(
        scaled.value,
        start,
        jac=lambda z: scaled.derivatives(z)[0],
        hess=lambda z: np.diag(np.append(scaled.derivatives(z)[1], 0.0)),
        method="trust-constr",
        constraints=[limits],
        options={"gtol": 1e-8, "xtol": 1e-12, "barrier_tol": 1e-9, "maxiter": 2000},
    )
    return np.asarray(found.x)


def slsqp(scaled: ScaledProgram, start: Floats) -> Floats:
    """SciPy's sequential quadratic programming, with exact gradients."""
    limits = {
        "type": "ineq",
        "fun": lambda z: -scaled.constraints(z).values,
        "jac": lambda z: -scaled.constraints(z).jacobian,
    }
    found = minimize(
        scaled.value,
        start,
        jac=lambda z: scaled.derivatives(z)[0],
        method="SLSQP",
        constraints=[limits],
        options={"ftol": 1e-9, "maxiter": 500},
    )
    return np.asarray(found.x)


def clarabel(scaled: ScaledProgram, _: Floats) -> Floats:
    """CVXPY with Clarabel, an interior-point method for exponential cones."""
    import cvxpy as cp

    began = time.process_time()
    y, total = cp.Variable(scaled.size), cp.Variable()
    dynamic = cp.exp(cp.multiply(scaled.power, y))
    limits = [scaled.fixed + scaled.work @ cp.exp(y) <= total, scaled.member @ cp.exp(-y) <= 1]
    limits += [y <= scaled.max_y, total <= scaled.max_time]
    limits += [idle * total + own @ dynamic <= 1 for idle, own in scaled.caps]
    problem = cp.Problem(cp.Minimize(scaled.idle * total + scaled.dynamic @ dynamic), limits)
    data, chain, inverse = problem.get_problem_data("CLARABEL", solver_opts={})
    compiling_s[0] += time.process_time() - began
    problem.unpack_results(chain.solve_via_data(problem, data), chain, inverse)
    return np.append(y.value, total.value)


def collect(count: int) -> list[GeometricProgram]:
    """Programs from searches on random problems, a few of each search."""
    programs: list[GeometricProgram] = []
    seed = 0
    while len(programs) < count:
        draw = random.Random(seed)
        profile, cluster, curve = random_problem(draw)
        loose = LOOSE[seed % len(LOOSE)]
        limit_s = None if loose is None else loose * least_s(profile, cluster, curve)
        with recorded() as seen, suppress(pt.Infeasible):
            planned("righttrain", task(profile, cluster, limit_s), curve)
        programs += draw.sample(seen, min(len(seen), _PER_SEARCH))
        seed += 1
    return programs[:count]


def collect_fleets() -> list[GeometricProgram]:
    """Larger programs, from the fleets that growth is measured on."""
    programs = []
    for size in FLEETS:
        profile, cluster = fleet(*size)
        goal = Goal(weights={"energy": 1.0}, loss=0.3)
        with recorded() as seen:
            pt.plan("righttrain", profile=profile, cluster=cluster, batch=128, goal=goal, learning=CURVE)
        programs += random.Random(0).sample(seen, min(len(seen), _PER_FLEET))
    return programs


@contextmanager
def recorded() -> Iterator[list[GeometricProgram]]:
    """The programs that a search solves, without those whose answer is full CPUs."""
    seen: list[GeometricProgram] = []

    def record(program: GeometricProgram) -> Floats | None:
        shares = optimal_shares(program)
        separate = len(program.nodes) == len(program.dynamic_j) and (program.exponent <= 1).all()
        if shares is not None and not (separate and not program.caps):
            seen.append(program)
        return shares

    cpu_allocation.optimal_shares = record
    try:
        yield seen
    finally:
        cpu_allocation.optimal_shares = optimal_shares


def compare(count: int) -> dict[str, Any]:
    """Time, value and feasibility of each solver, divided by ours."""
    return {"random": _compare_all(collect(count)), "fleets": _compare_all(collect_fleets())}


def _compare_all(programs: list[GeometricProgram]) -> dict[str, Any]:
    solvers: list[Solver] = [trust_constr, slsqp]
    if importlib.util.find_spec("cvxpy") is not None:
        solvers.append(clarabel)
    ours = [_solved(ScaledProgram.solve, program) for program in programs]
    assert all(each is not None for each in ours)
    sizes = [len(program.dynamic_j) for program in programs]
    return {
        "programs": len(programs),
        "instances": [min(sizes), statistics.median(sizes), max(sizes)],
        "ours_ms": _spread([1e3 * each[1] for each in ours if each]),
        "ours_violation": max(_violation(program, each[0]) for program, each in zip(programs, ours, strict=True)),
        **{solver.__name__: _compared(solver, programs, ours) for solver in solvers},
    }


def _compared(solver: Solver, programs: list[GeometricProgram], ours: list[Any]) -> dict[str, Any]:
    _solved(solver, programs[0])  # imports
    ratios, alone, excess, failures = [], [], [], 0
    for program, (our_shares, our_s) in zip(programs, ours, strict=True):
        compiling_s[0] = 0.0
        found = _solved(solver, program)
        if found is None or not _violation(program, found[0]) < FEASIBLE:
            failures += 1
            continue
        ratios.append(found[1] / our_s)
        alone.append((found[1] - compiling_s[0]) / our_s)
        excess.append(program.value_j(found[0]) / program.value_j(our_shares) - 1)
    result = {"failures": failures, "time_ratio": _spread(ratios), "excess": [min(excess), max(excess)]}
    return result | ({"time_ratio_without_cvxpy": _spread(alone)} if compiling_s[0] else {})


def _solved(solver: Solver, program: GeometricProgram) -> tuple[Floats, float] | None:
    """Shares and seconds; None where the solver fails."""
    ours = ScaledProgram.solve
    ScaledProgram.solve = solver  # type: ignore[method-assign]
    start = time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            shares = optimal_shares(program)
    except (ArithmeticError, ValueError, TypeError, np.linalg.LinAlgError):
        return None
    finally:
        ScaledProgram.solve = ours  # type: ignore[method-assign]
    return None if shares is None else (shares, time.process_time() - start)


def _violation(program: GeometricProgram, shares: Floats) -> float:
    """The largest relative violation of the deadline, a CPU limit or an energy cap."""
    time_s = program.time_s(shares)
    over = [time_s / program.max_s - 1]
    over += [shares[list(own)].sum() / limit - 1 for own, limit in zip(program.nodes, program.limits, strict=True)]
    for cap in program.caps:
        own = cap.instances
        dynamic_j = program.dynamic_j[own] * shares[own] ** (program.exponent[own] - 1)
        over.append((cap.idle_w * time_s + float(dynamic_j.sum())) / cap.max_j - 1)
    return float(np.max([0.0, *over]))


def _spread(values: list[float]) -> list[float]:
    """The least, the median and the most."""
    return [round(each, 2) for each in (min(values), statistics.median(values), max(values))]
