"""T_total for many placements at once. A placement assigns the three workers to nodes and fixes the cuts m_s and m_l.

For a placement, T_total is a constant plus four maxima of affine functions of (b_s, b_l), one for each of equations
(5) to (8): ten affine pieces in all. It is convex and piecewise linear once it is fixed which workers are *active*,
that is, have samples: latencies and fixed call times make it jump where a worker's samples become 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from palmette.plan.hiertrain.problem import Floats, HierTrainProblem, Ints

Flags = NDArray[np.bool_]
MAXIMA = ((0, 1, 2), (3, 4, 5), (6, 7), (8, 9))  # the pieces of equations (5), (6), (7), (8)
CROSSING_PAIRS = np.array(
    [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
).T  # pairs of pieces that may cross as b_s grows; the others do not depend on it


@dataclass(frozen=True, eq=False)
class Placements:
    """One placement per row. A worker that is not used has worker_o's node and m = 0."""

    o: Ints
    s: Ints
    l: Ints  # noqa: E741 -- the paper's name
    m_s: Ints
    m_l: Ints

    def __len__(self) -> int:
        return len(self.o)

    def take(self, which: Ints | Flags) -> Self:
        """Select rows."""
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """The affine pieces ``intercept + slope_s·b_s + slope_l·b_l``, [piece, row], and the constant of each row."""

    intercept: Floats
    slope_s: Floats
    slope_l: Floats
    constant: Floats

    def total_s(self, b_s: Floats, b_l: Floats) -> Floats:
        """T_total at b_s [point, choice, row] and b_l [choice, row].

        Only the pieces of O and S in equations (5) and (6) depend on b_s.
        """
        on_l = self.intercept[:, None] + self.slope_l[:, None] * b_l
        part_2 = self.constant + np.maximum(on_l[6], on_l[7]) + np.maximum(on_l[8], on_l[9])
        total: Floats = part_2 + self._part_1(0, on_l, b_s) + self._part_1(3, on_l, b_s)
        return total

    def _part_1(self, k: int, on_l: Floats, b_s: Floats) -> Floats:
        """The maximum of equation (5) or (6), whose first piece is k."""
        on_o, on_s = on_l[k] + self.slope_s[k] * b_s, on_l[k + 1] + self.slope_s[k + 1] * b_s
        largest: Floats = np.maximum(np.maximum(on_o, on_s), on_l[k + 2])
        return largest

    def take(self, which: Ints | Flags) -> PiecewiseLinear:
        """Select rows."""
        return PiecewiseLinear(
            self.intercept[:, which], self.slope_s[:, which], self.slope_l[:, which], self.constant[which]
        )


def piecewise_linear(
    problem: HierTrainProblem, placements: Placements, active: tuple[Flags, Flags, Flags] | None
) -> PiecewiseLinear:
    """T_total of placements whose workers O, S, L have samples as ``active`` says.

    Without ``active``, latencies and fixed call times count as 0: a lower bound for any set of active workers.
    """
    g, o, s, l = problem, placements.o, placements.s, placements.l  # noqa: E741
    m_s, m_l, batch = placements.m_s, placements.m_l, float(problem.batch)
    nothing = np.zeros(len(placements))
    active_o, active_s, active_l = (nothing,) * 3 if active is None else (flags.astype(float) for flags in active)
    active_os = np.maximum(active_o, active_s)
    out_s, out_l = g.s_per_byte[s, o] * g.output_bytes[m_s], g.s_per_byte[l, o] * g.output_bytes[m_l]
    back_s, back_l = g.s_per_byte[o, s] * g.output_bytes[m_s], g.s_per_byte[o, l] * g.output_bytes[m_l]
    delay_s, delay_l = active_s * g.latency_s[s, o], active_l * g.latency_s[l, o]
    intercept, slope_s, slope_l = (np.zeros((10, len(placements))) for _ in range(3))

    def set_o_piece(k: int, sample_s: Floats, fixed_s: Floats) -> None:  # b_o = B - b_s - b_l
        intercept[k], slope_s[k], slope_l[k] = batch * sample_s + fixed_s, -sample_s, -sample_s

    set_o_piece(0, g.input_s[o] + g.forward[o, m_s], active_o * (g.input_latency_s[o] + g.forward_call[o, m_s]))
    intercept[1] = active_s * (g.input_latency_s[s] + g.forward_call[s, m_s]) + delay_s
    slope_s[1] = g.input_s[s] + g.forward[s, m_s] + out_s
    intercept[2], slope_l[2] = (
        active_l * (g.input_latency_s[l] + g.forward_call[l, m_s]),
        g.input_s[l] + g.forward[l, m_s],
    )
    set_o_piece(3, g.backward[o, m_s], active_o * g.backward_call[o, m_s])
    intercept[4], slope_s[4] = active_s * g.backward_call[s, m_s] + delay_s, g.backward[s, m_s] + back_s
    intercept[5], slope_l[5] = active_l * g.backward_call[l, m_s], g.backward[l, m_s]
    for k, sample_s, fixed_s, sent_l in (
        (6, g.forward, g.forward_call, out_l),
        (8, g.backward, g.backward_call, back_l),
    ):
        on_o = sample_s[o, m_l] - sample_s[o, m_s]
        intercept[k], slope_l[k] = batch * on_o + active_os * (fixed_s[o, m_l] - fixed_s[o, m_s]), -on_o
        intercept[k + 1] = active_l * (fixed_s[l, m_l] - fixed_s[l, m_s]) + delay_l
        slope_l[k + 1] = sample_s[l, m_l] - sample_s[l, m_s] + sent_l
    return PiecewiseLinear(intercept, slope_s, slope_l, constant_s(g, placements))


def constant_s(problem: HierTrainProblem, placements: Placements) -> Floats:
    """The part that does not depend on the batch split: equations (9), (10) and (11)."""
    g, o, m_l, last = problem, placements.o, placements.m_l, problem.depth
    sample_s = g.forward[o, last] - g.forward[o, m_l] + g.backward[o, last] - g.backward[o, m_l]
    fixed_s = g.forward_call[o, last] - g.forward_call[o, m_l] + g.backward_call[o, last] - g.backward_call[o, m_l]
    updating = np.maximum(
        np.maximum(g.update[o, last], g.update[placements.s, placements.m_s]), g.update[placements.l, m_l]
    )
    exchange = np.maximum(_exchange_s(g, placements.s, o, placements.m_s), _exchange_s(g, placements.l, o, m_l))
    total: Floats = g.batch * sample_s + fixed_s + updating + exchange
    return total


def _exchange_s(problem: HierTrainProblem, worker: Ints, o: Ints, m: Ints) -> Floats:
    size_bytes = problem.trainable_bytes[m]
    both_s = problem.s_per_byte[worker, o] + problem.s_per_byte[o, worker]
    seconds: Floats = 2 * np.where(size_bytes > 0, problem.latency_s[worker, o], 0.0) + size_bytes * both_s
    return seconds
