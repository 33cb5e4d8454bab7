"""Algorithm 1 of the paper: a linear program for each assignment and pair of cuts, then rounding.

Its variables are (b_o, b_s, b_l) and one for each maximum of equations (5) to (8). Kept for comparison: the exact
search is never worse and much faster.
"""

from __future__ import annotations

import math

import numpy as np

from palmette.plan.hiertrain.exact_search import Accepts, Incumbent, assignments, placements_of
from palmette.plan.hiertrain.formula import Policy, is_feasible
from palmette.plan.hiertrain.lower_bounds import max_samples
from palmette.plan.hiertrain.piecewise_linear import MAXIMA, PiecewiseLinear, piecewise_linear
from palmette.plan.hiertrain.problem import Floats, HierTrainProblem


def algorithm_1(problem: HierTrainProblem, *, accepts: Accepts = lambda _: True) -> Incumbent:
    """The best of all rounded solutions, by T_total."""
    incumbent = Incumbent()
    for assignment in assignments(problem):
        placements = placements_of(problem, [assignment], skip_duplicates=False)
        active = np.ones(len(placements), dtype=bool), placements.m_s > 0, placements.m_l > 0
        terms, caps = piecewise_linear(problem, placements, active), np.stack(max_samples(problem, placements))
        for k in range(len(placements)):
            solution = _solve(terms, caps[:, k], k, problem.batch)
            if solution is None:
                continue
            policy = Policy(*assignment, int(placements.m_s[k]), int(placements.m_l[k]), *round_samples(solution))
            if is_feasible(problem, policy):
                incumbent.offer(problem, policy, accepts)
    return incumbent


def _solve(terms: PiecewiseLinear, caps: Floats, k: int, batch: int) -> Floats | None:
    """Real (b_o, b_s, b_l) with the least T_total for placement k; None where the batch does not fit in memory."""
    from scipy.optimize import linprog

    above, limits = [], []
    for variable, group in enumerate(MAXIMA):
        for piece in group:  # each piece, with b_o = B − b_s − b_l, is at most its maximum
            row = np.zeros(7)
            row[1], row[2], row[3 + variable] = terms.slope_s[piece, k], terms.slope_l[piece, k], -1.0
            above.append(row)
            limits.append(-terms.intercept[piece, k])
    bounds = [(0, cap) for cap in caps] + [(None, None)] * 4
    done = linprog(
        c=[0, 0, 0, 1, 1, 1, 1],
        A_ub=above,
        b_ub=limits,
        A_eq=[[1, 1, 1, 0, 0, 0, 0]],
        b_eq=[batch],
        bounds=bounds,
        method="highs",
    )
    return done.x[:3] if done.status == 0 else None


def round_samples(samples: Floats) -> tuple[int, int, int]:
    """The paper's rounding: round down, then add one to the largest fractions until the sum is the batch."""
    whole = [math.floor(each + 1e-9) for each in samples]
    left = round(float(sum(samples))) - sum(whole)
    by_fraction = sorted(range(3), key=lambda j: whole[j] - samples[j])
    for j in by_fraction[:left]:
        whole[j] += 1
    return whole[0], whole[1], whole[2]
