"""What a sample of each feed takes at least on its way through all layers, alone: joules and seconds.

Each is that of its own best way, by dynamic programming over nodes, with whole CPUs and without idle power, calls,
gradients and exchange: lower bounds, and a measure of how dear a source is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats, RightTrainProblem


class SampleWays(NamedTuple):
    """The least joules and the least seconds of a sample, by feed; infinite where a feed reaches no node."""

    joules: Floats
    seconds: Floats


def sample_ways(problem: RightTrainProblem) -> SampleWays:
    """The best ways of all feeds."""
    nodes = problem.compute_nodes
    sample_s = (problem.forward_s + problem.backward_s)[nodes] / problem.limit[nodes][:, None]
    busy_w = (problem.dynamic_w * problem.limit**problem.exponent)[nodes][:, None]
    with np.errstate(invalid="ignore"):  # a node that neither can nor takes power
        sample_j = np.where(np.isfinite(sample_s), sample_s * busy_w, np.inf)
    reached = np.where(np.isfinite(problem.latency_s), 0.0, np.inf)
    return SampleWays(
        _least(problem, sample_j, problem.j_per_byte, reached),
        _least(problem, sample_s, problem.s_per_byte, problem.latency_s),
    )


def _least(problem: RightTrainProblem, cost: Floats, per_byte: Floats, fixed: Floats) -> Floats:
    """The least total for each feed, where computing, a byte and a transfer cost so much."""
    nodes, sizes = np.array(problem.compute_nodes), problem.output_bytes
    square = np.ix_(nodes, nodes)
    total = (fixed + sizes[0] * per_byte)[np.ix_(np.array(problem.feed_nodes), nodes)] + cost[:, 0]
    for feed, private in enumerate(problem.private):
        if private:
            total[feed, nodes != problem.feed_nodes[feed]] = np.inf
    for layer in range(1, problem.depth):
        step = (fixed + sizes[layer] * per_byte)[square]
        total = (total[:, :, None] + step).min(axis=1) + cost[:, layer]
    return np.asarray(total.min(axis=1))
