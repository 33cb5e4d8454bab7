"""T_total for many rows at once. A row is an assignment with its cuts, and who takes part.

For given cuts, T_total is a constant plus four maxima of affine functions of (b_s, b_l), one for each of equations
(5) to (8): ten pieces in all. It is convex, and piecewise linear, as long as it is settled who has samples at all;
latencies and fixed parts of calls make it jump where a worker's samples come down to 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from palmette.plan.hiertrain.problem import Floats, Ground, Ints

Flags = NDArray[np.bool_]
MAXIMA = ((0, 1, 2), (3, 4, 5), (6, 7), (8, 9))  # the pieces of equations (5), (6), (7), (8)
BENDS = np.array(
    [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
).T  # pairs that may cross as b_s grows; the others ignore it


@dataclass(frozen=True, eq=False)
class Rows:
    """Assignments and cuts, one a row. A worker that is left out stands as worker_o, with m = 0."""

    o: Ints
    s: Ints
    l: Ints  # noqa: E741 -- the paper's name
    m_s: Ints
    m_l: Ints

    def __len__(self) -> int:
        return len(self.o)

    def take(self, which: Ints | Flags) -> Self:
        """Some of the rows."""
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Pieces:
    """The affine pieces ``at_0 + by_s·b_s + by_l·b_l`` of rows, [piece, row], and what does not depend on samples."""

    at_0: Floats
    by_s: Floats
    by_l: Floats
    constant: Floats

    def total_s(self, b_s: Floats, b_l: Floats) -> Floats:
        """T_total at b_s [point, choice, row] and b_l [choice, row].

        b_s matters to the pieces of O and S in equations (5) and (6) alone.
        """
        on_l = self.at_0[:, None] + self.by_l[:, None] * b_l
        part_2 = self.constant + np.maximum(on_l[6], on_l[7]) + np.maximum(on_l[8], on_l[9])
        total: Floats = part_2 + self._part_1(0, on_l, b_s) + self._part_1(3, on_l, b_s)
        return total

    def _part_1(self, k: int, on_l: Floats, b_s: Floats) -> Floats:
        """The maximum of equation (5) or (6), whose first piece is k."""
        on_o, on_s = on_l[k] + self.by_s[k] * b_s, on_l[k + 1] + self.by_s[k + 1] * b_s
        largest: Floats = np.maximum(np.maximum(on_o, on_s), on_l[k + 2])
        return largest

    def take(self, which: Ints | Flags) -> Pieces:
        """The pieces of some rows."""
        return Pieces(self.at_0[:, which], self.by_s[:, which], self.by_l[:, which], self.constant[which])


def pieces(ground: Ground, rows: Rows, taking: tuple[Flags, Flags, Flags] | None) -> Pieces:
    """The pieces of rows whose workers O, S, L have samples as ``taking`` says.

    Without ``taking`` what depends on it counts as 0, which makes T_total no larger than it is for any of them.
    """
    g, o, s, l = ground, rows.o, rows.s, rows.l  # noqa: E741
    m_s, m_l, batch = rows.m_s, rows.m_l, float(ground.batch)
    nothing = np.zeros(len(rows))
    t_o, t_s, t_l = (nothing,) * 3 if taking is None else (flags.astype(float) for flags in taking)
    t_os = np.maximum(t_o, t_s)
    out_s, out_l = g.byte_s[s, o] * g.output_bytes[m_s], g.byte_s[l, o] * g.output_bytes[m_l]
    way_s, way_l = t_s * g.latency_s[s, o], t_l * g.latency_s[l, o]
    at_0, by_s, by_l = (np.zeros((10, len(rows))) for _ in range(3))

    def to_o(k: int, sample_s: Floats, fixed_s: Floats) -> None:  # b_o = B - b_s - b_l
        at_0[k], by_s[k], by_l[k] = batch * sample_s + fixed_s, -sample_s, -sample_s

    to_o(0, g.input_s[o] + g.forward[o, m_s], t_o * (g.input_latency_s[o] + g.forward_call[o, m_s]))
    at_0[1] = t_s * (g.input_latency_s[s] + g.forward_call[s, m_s]) + way_s
    by_s[1] = g.input_s[s] + g.forward[s, m_s] + out_s
    at_0[2], by_l[2] = t_l * (g.input_latency_s[l] + g.forward_call[l, m_s]), g.input_s[l] + g.forward[l, m_s]
    to_o(3, g.backward[o, m_s], t_o * g.backward_call[o, m_s])
    at_0[4], by_s[4] = t_s * g.backward_call[s, m_s] + way_s, g.backward[s, m_s] + out_s
    at_0[5], by_l[5] = t_l * g.backward_call[l, m_s], g.backward[l, m_s]
    for k, sample_s, fixed_s in ((6, g.forward, g.forward_call), (8, g.backward, g.backward_call)):
        on_o = sample_s[o, m_l] - sample_s[o, m_s]
        at_0[k], by_l[k] = batch * on_o + t_os * (fixed_s[o, m_l] - fixed_s[o, m_s]), -on_o
        at_0[k + 1] = t_l * (fixed_s[l, m_l] - fixed_s[l, m_s]) + way_l
        by_l[k + 1] = sample_s[l, m_l] - sample_s[l, m_s] + out_l
    return Pieces(at_0, by_s, by_l, constant_s(g, rows))


def constant_s(ground: Ground, rows: Rows) -> Floats:
    """What does not depend on the samples: equations (9), (10) and (11)."""
    g, o, m_l, last = ground, rows.o, rows.m_l, ground.depth
    sample_s = g.forward[o, last] - g.forward[o, m_l] + g.backward[o, last] - g.backward[o, m_l]
    fixed_s = g.forward_call[o, last] - g.forward_call[o, m_l] + g.backward_call[o, last] - g.backward_call[o, m_l]
    updating = np.maximum(np.maximum(g.update[o, last], g.update[rows.s, rows.m_s]), g.update[rows.l, m_l])
    exchange = np.maximum(_exchange_s(g, rows.s, o, rows.m_s), _exchange_s(g, rows.l, o, m_l))
    total: Floats = g.batch * sample_s + fixed_s + updating + exchange
    return total


def _exchange_s(ground: Ground, worker: Ints, o: Ints, m: Ints) -> Floats:
    size_bytes = ground.weight_bytes[m]
    seconds: Floats = 2 * (
        np.where(size_bytes > 0, ground.latency_s[worker, o], 0.0) + size_bytes * ground.byte_s[worker, o]
    )
    return seconds
