"""The paper's way to plan, for comparison: the whole expanded graph, and a shortest path to every feasible vertex.

Algorithm 1 makes every vertex (epoch, pair, loss, time) that the resolutions allow and every edge between them;
Algorithm 2 asks for a shortest path from the start to every feasible one. SciPy's Dijkstra, in C, finds all of them
in one call.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import build_graph
from palmette.spec.problem import Problem


def vertices(problem: Problem) -> int:
    """How many vertices Algorithm 1 makes."""
    graph = build_graph(problem, actions_of(problem), actions_of(problem).robust)
    return len(graph.actions.pairs) * graph.deadline * _losses(problem) * (graph.deadline + 1)


def _losses(problem: Problem) -> int:
    return math.ceil(problem.start.loss / problem.loss_step) + 1


def planned_j(problem: Problem) -> float:
    """Joules of the cheapest feasible path, after a shortest path to every feasible vertex."""
    actions = actions_of(problem)
    graph = build_graph(problem, actions, actions.robust)
    pairs, losses, times = len(actions.pairs), _losses(problem), graph.deadline + 1
    epochs = graph.deadline + 1
    shape = (epochs, pairs, losses, times)
    at = np.arange(pairs * losses * times).reshape(pairs, losses, times)
    tails, heads, weights = [], [], []
    for k in range(epochs - 1):
        row = min(k, len(graph.steps) - 1)
        for action in range(len(actions.from_pair)):
            here, there = at[actions.from_pair[action]], at[actions.to_pair[action]]
            step, late = int(graph.steps[row, action]), int(graph.time_steps[action])
            low, high = max(0, -step), min(losses, losses - step)
            if low >= high or late >= times:
                continue
            tail = here[low:high, : times - late].ravel()
            head = there[low + step : high + step, late:].ravel()
            tails.append(tail + k * at.size)
            heads.append(head + (k + 1) * at.size)
            weights.append(np.full(tail.size, actions.energy_j[action]))
    size = int(np.prod(shape))
    graph = coo_matrix((np.concatenate(weights), (np.concatenate(tails), np.concatenate(heads))), shape=(size, size))
    start = np.ravel_multi_index((0, 0, math.ceil(problem.start.loss / problem.loss_step - 1e-9), 0), shape)
    found = dijkstra(graph.tocsr(), indices=start).reshape(shape)
    target = math.floor(problem.target_loss / problem.loss_step + 1e-9)
    return float(found[:, :, : target + 1].min())
