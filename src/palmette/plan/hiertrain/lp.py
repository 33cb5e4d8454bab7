"""Algorithm 1 of the paper: for each assignment and each pair of cuts a linear program, then its rounding.

The program has (b_o, b_s, b_l) and one variable for each maximum of equations (5) to (8). Kept as it is, to compare
with: the exact search is never worse and much faster.
"""

from __future__ import annotations

import math

import numpy as np

from palmette.plan.hiertrain.bounds import most_samples
from palmette.plan.hiertrain.exact import Accepts, Found, rows_of, trios
from palmette.plan.hiertrain.formula import Policy, allowed
from palmette.plan.hiertrain.pieces import MAXIMA, Pieces, pieces
from palmette.plan.hiertrain.problem import Floats, Ground


def algorithm_1(ground: Ground, *, accepts: Accepts = lambda _: True) -> Found:
    """The best of all rounded solutions, by T_total."""
    found = Found()
    for trio in trios(ground):
        rows = rows_of(ground, [trio], once=False)
        taking = np.ones(len(rows), dtype=bool), rows.m_s > 0, rows.m_l > 0
        terms, caps = pieces(ground, rows, taking), np.stack(most_samples(ground, rows))
        for k in range(len(rows)):
            solution = _solve(terms, caps[:, k], k, ground.batch)
            if solution is None:
                continue
            policy = Policy(*trio, int(rows.m_s[k]), int(rows.m_l[k]), *rounded(solution))
            if allowed(ground, policy):
                found.offer(ground, policy, accepts)
    return found


def _solve(terms: Pieces, caps: Floats, k: int, batch: int) -> Floats | None:
    """Real (b_o, b_s, b_l) with the least T_total for the cuts of row k; None where memory leaves no place."""
    from scipy.optimize import linprog

    above, limits = [], []
    for variable, group in enumerate(MAXIMA):
        for piece in group:  # a piece with b_o written as B − b_s − b_l is at most its maximum
            row = np.zeros(7)
            row[1], row[2], row[3 + variable] = terms.by_s[piece, k], terms.by_l[piece, k], -1.0
            above.append(row)
            limits.append(-terms.at_0[piece, k])
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


def rounded(samples: Floats) -> tuple[int, int, int]:
    """The paper's rounding: integer parts, and one more for those with the largest fractions until all are placed."""
    whole = [math.floor(each + 1e-9) for each in samples]
    left = round(float(sum(samples))) - sum(whole)
    by_fraction = sorted(range(3), key=lambda j: whole[j] - samples[j])
    for j in by_fraction[:left]:
        whole[j] += 1
    return whole[0], whole[1], whole[2]
