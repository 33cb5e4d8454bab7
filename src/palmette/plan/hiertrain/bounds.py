"""A closed lower bound of T_total for every cut of every assignment, so that most need no search at all.

The sum of two maxima is at least the larger of the sums, so forward and backward of a part may be taken together:

    T_total ≥ constant + max(A_o·b_o, A_s·b_s, A_l·b_l) + max(D_o·(b_o + b_s), D_l·b_l)

with A the seconds a sample of part 1 (input, forward, output, backward, gradient) and D those of part 2. However
O and S share their B − b_l samples, a share x of them to S, they need at least K·(B − b_l):

    K = min over x of  max(F_o·(1 − x), F_s·x) + max(G_o·(1 − x), G_s·x)

with F and G the seconds of forward and backward in part 1; the least stands where one of the maxima bends. What is
left is convex in b_l alone and has its least value at an end or at one of two bends.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.hiertrain.pieces import Rows, constant_s
from palmette.plan.hiertrain.problem import Floats, Ground


def most_samples(ground: Ground, rows: Rows) -> tuple[Floats, Floats, Floats]:
    """Samples that O, S and L can take at most, by equations (14) and (15), a private source and their memory."""
    weights, kept = ground.weight_bytes, ground.kept_bytes
    rest = ground.depth, rows.m_l
    on_o = ground.copies * (weights[rest[0]] - weights[rest[1]]) + ground.batch * (kept[rest[0]] - kept[rest[1]])
    fits = (on_o <= ground.memory_bytes[rows.o]).astype(float)
    caps = [np.full(len(rows), float(ground.batch)) * fits]
    for worker, m in ((rows.s, rows.m_s), (rows.l, rows.m_l)):
        room = ground.memory_bytes[worker] - ground.copies * weights[m]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            most = np.where(kept[m] > 0, np.floor(room / kept[m]), np.inf)
        caps.append(np.where((m > 0) & (room >= 0), np.minimum(most, ground.batch), 0.0) * fits)
    if ground.private:
        caps = [cap * (node == ground.home) for cap, node in zip(caps, (rows.o, rows.s, rows.l), strict=True)]
    return caps[0], caps[1], caps[2]


def lower_bound_s(ground: Ground, rows: Rows) -> Floats:
    """A lower bound of T_total for each row, infinite where its samples find no place."""
    g, s = ground, rows.s
    out_s = g.byte_s[s, rows.o] * g.output_bytes[rows.m_s]
    on_s = g.input_s[s] + g.forward[s, rows.m_s] + out_s, g.backward[s, rows.m_s] + out_s
    return _bound_s(ground, rows, most_samples(ground, rows), on_s)


def lower_bound_whoever_is_s(ground: Ground, rows: Rows) -> Floats:
    """The same for the best conceivable worker_s; the rows have none, that is, it stands there as worker_o."""
    g, nodes = ground, np.arange(len(ground.names))

    def ideal(alone: Floats) -> Floats:  # [node, m]
        to_o = (alone + g.byte_s[:, [o]] * g.output_bytes for o in nodes)
        least = np.stack([seconds[nodes != o].min(axis=0, initial=np.inf) for o, seconds in enumerate(to_o)])
        return least[rows.o, rows.m_s]

    cap_o, _, cap_l = most_samples(ground, rows)
    caps = cap_o, np.where(rows.m_s > 0, float(g.batch), 0.0), cap_l
    return _bound_s(ground, rows, caps, (ideal(g.input_s[:, None] + g.forward), ideal(g.backward)))


def _bound_s(ground: Ground, rows: Rows, caps: tuple[Floats, Floats, Floats], on_s: tuple[Floats, Floats]) -> Floats:
    g, o, l, m_s, m_l = ground, rows.o, rows.l, rows.m_s, rows.m_l  # noqa: E741
    cap_o, cap_s, cap_l = caps
    both = g.forward + g.backward
    out_l = 2 * g.byte_s[l, o] * g.output_bytes[m_l]
    on_o, a_l = (g.input_s[o] + g.forward[o, m_s], g.backward[o, m_s]), g.input_s[l] + both[l, m_s]
    a_os = np.where(cap_s == 0, sum(on_o), np.where(cap_o == 0, sum(on_s), _shared_s(on_o, on_s)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        d_o, d_l = both[o, m_l] - both[o, m_s], both[l, m_l] - both[l, m_s] + out_l
        bends = [np.nan_to_num(a_os / (a_os + a_l)), np.nan_to_num(d_o / (d_o + d_l))]
    batch = float(g.batch)
    least, most = np.maximum(0.0, batch - cap_o - cap_s), np.minimum(batch, cap_l)

    def at(b_l: Floats) -> Floats:
        value: Floats = np.maximum(a_l * b_l, a_os * (batch - b_l)) + np.maximum(d_o * (batch - b_l), d_l * b_l)
        return value

    ends = np.minimum(at(least), at(most))
    inner = [at(np.clip(batch * bend, least, most)) for bend in bends]
    bound: Floats = constant_s(g, rows) + np.minimum(ends, np.minimum(inner[0], inner[1]))
    return np.where(least <= most, bound, np.inf)


def _shared_s(on_o: tuple[Floats, Floats], on_s: tuple[Floats, Floats]) -> Floats:
    """K: seconds a sample that O and S need at least however they share, from theirs forward and backward."""
    (f_o, g_o), (f_s, g_s) = on_o, on_s

    def at(x: Floats) -> Floats:
        seconds: Floats = np.maximum(f_o * (1 - x), f_s * x) + np.maximum(g_o * (1 - x), g_s * x)
        return seconds

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bends = [np.nan_to_num(f_o / (f_o + f_s)), np.nan_to_num(g_o / (g_o + g_s))]
        least = np.minimum(at(bends[0]), at(bends[1]))
    return np.nan_to_num(least, nan=0.0)
