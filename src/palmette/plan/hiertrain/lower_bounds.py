"""A closed-form lower bound of T_total for every placement, so that most need no search.

The sum of two maxima is at least the larger of the sums, so forward and backward of a part can be combined:

    T_total ≥ constant + max(A_o·b_o, A_s·b_s, A_l·b_l) + max(D_o·(b_o + b_s), D_l·b_l)

with A the seconds per sample of part 1 (input, forward, output, backward, gradient) and D those of part 2. However
O and S divide their B − b_l samples, a fraction x of them to S, they need at least K·(B − b_l):

    K = min over x of  max(F_o·(1 − x), F_s·x) + max(G_o·(1 − x), G_s·x)

with F and G the seconds of forward and backward in part 1; the minimum is at a breakpoint of one of the maxima. The
remaining function is convex in b_l alone, with its minimum at an end or at one of two breakpoints.
"""

from __future__ import annotations

import numpy as np

from palmette.plan.hiertrain.piecewise_linear import Placements, constant_s
from palmette.plan.hiertrain.problem import Floats, HierTrainProblem


def max_samples(problem: HierTrainProblem, placements: Placements) -> tuple[Floats, Floats, Floats]:
    """The most samples that O, S and L can have, by equations (14) and (15), private data and their memory."""
    weights, activation = problem.weight_bytes, problem.activation_bytes
    last, m_l = problem.depth, placements.m_l
    on_o = problem.weight_copies * (weights[last] - weights[m_l]) + problem.batch * (activation[last] - activation[m_l])
    fits = (on_o <= problem.memory_bytes[placements.o]).astype(float)
    caps = [np.full(len(placements), float(problem.batch)) * fits]
    for worker, m in ((placements.s, placements.m_s), (placements.l, placements.m_l)):
        free_bytes = problem.memory_bytes[worker] - problem.weight_copies * weights[m]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            most = np.where(activation[m] > 0, np.floor(free_bytes / activation[m]), np.inf)
        caps.append(np.where((m > 0) & (free_bytes >= 0), np.minimum(most, problem.batch), 0.0) * fits)
    if problem.private:
        caps = [
            cap * (node == problem.owner)
            for cap, node in zip(caps, (placements.o, placements.s, placements.l), strict=True)
        ]
    return caps[0], caps[1], caps[2]


def lower_bound_s(problem: HierTrainProblem, placements: Placements) -> Floats:
    """A lower bound of T_total for each placement, infinite where the batch does not fit in memory."""
    g, o, s = problem, placements.o, placements.s
    out_s, back_s = (each * g.output_bytes[placements.m_s] for each in (g.s_per_byte[s, o], g.s_per_byte[o, s]))
    on_s = g.input_s[s] + g.forward[s, placements.m_s] + out_s, g.backward[s, placements.m_s] + back_s
    return _bound_s(problem, placements, max_samples(problem, placements), on_s)


def lower_bound_any_s(problem: HierTrainProblem, placements: Placements) -> Floats:
    """The same for the best conceivable worker_s; the placements have none, that is, s = o."""
    g, nodes = problem, np.arange(len(problem.names))

    def ideal(alone: Floats, s_per_byte: Floats) -> Floats:  # [node, m]
        to_o = (alone + s_per_byte[:, [o]] * g.output_bytes for o in nodes)
        least = np.stack([seconds[nodes != o].min(axis=0, initial=np.inf) for o, seconds in enumerate(to_o)])
        return least[placements.o, placements.m_s]

    cap_o, _, cap_l = max_samples(problem, placements)
    caps = cap_o, np.where(placements.m_s > 0, float(g.batch), 0.0), cap_l
    on_s = ideal(g.input_s[:, None] + g.forward, g.s_per_byte), ideal(g.backward, g.s_per_byte.T)
    return _bound_s(problem, placements, caps, on_s)


def _bound_s(
    problem: HierTrainProblem, placements: Placements, caps: tuple[Floats, Floats, Floats], on_s: tuple[Floats, Floats]
) -> Floats:
    g, o, l, m_s, m_l = problem, placements.o, placements.l, placements.m_s, placements.m_l  # noqa: E741
    cap_o, cap_s, cap_l = caps
    both = g.forward + g.backward
    out_l = (g.s_per_byte[l, o] + g.s_per_byte[o, l]) * g.output_bytes[m_l]
    on_o, a_l = (g.input_s[o] + g.forward[o, m_s], g.backward[o, m_s]), g.input_s[l] + both[l, m_s]
    a_os = np.where(cap_s == 0, sum(on_o), np.where(cap_o == 0, sum(on_s), _shared_s(on_o, on_s)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        d_o, d_l = both[o, m_l] - both[o, m_s], both[l, m_l] - both[l, m_s] + out_l
        breakpoints = [np.nan_to_num(a_os / (a_os + a_l)), np.nan_to_num(d_o / (d_o + d_l))]
    batch = float(g.batch)
    least, most = np.maximum(0.0, batch - cap_o - cap_s), np.minimum(batch, cap_l)

    def at(b_l: Floats) -> Floats:
        value: Floats = np.maximum(a_l * b_l, a_os * (batch - b_l)) + np.maximum(d_o * (batch - b_l), d_l * b_l)
        return value

    ends = np.minimum(at(least), at(most))
    inner = [at(np.clip(batch * bend, least, most)) for bend in breakpoints]
    bound: Floats = constant_s(g, placements) + np.minimum(ends, np.minimum(inner[0], inner[1]))
    return np.where(least <= most, bound, np.inf)


def _shared_s(on_o: tuple[Floats, Floats], on_s: tuple[Floats, Floats]) -> Floats:
    """K: the least seconds per sample of O and S together, from their forward and backward seconds."""
    (f_o, g_o), (f_s, g_s) = on_o, on_s

    def at(x: Floats) -> Floats:
        seconds: Floats = np.maximum(f_o * (1 - x), f_s * x) + np.maximum(g_o * (1 - x), g_s * x)
        return seconds

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        breakpoints = [np.nan_to_num(f_o / (f_o + f_s)), np.nan_to_num(g_o / (g_o + g_s))]
        least = np.minimum(at(breakpoints[0]), at(breakpoints[1]))
    return np.nan_to_num(least, nan=0.0)
