"""The closest that can be had where the fastest plan breaks a node's energy limit.

With smaller CPU shares energy falls as time grows, so the least time within the limits lies between that of the fastest
plan and that of the best one without a deadline. It is halved until it is known to a hundredth; a time that is told is
one by which a plan was found, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import replace

from palmette.errors import not_below
from palmette.plan.righttrain.cpu_allocation import CpuAllocator, EvaluatedPlan
from palmette.plan.righttrain.deadlines import DeadlineSearch
from palmette.plan.righttrain.plan_pool import plan_pool, with_deadline
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch

_CLOSE = 1.01


def soonest_allowed(search: RightTrainSearch, least_s: float) -> EvaluatedPlan | None:
    """A plan within all limits by about the tightest deadline above ``least_s``, taken to last until then.

    None where none is found without a deadline either.
    """
    free = plan_pool(search.problem, search.epsilon).free.plan
    best = None if free is None else _by(search, free.total_s)
    while best is not None and best.total_s > least_s * _CLOSE:
        middle_s = math.sqrt(least_s * best.total_s)
        found = _by(search, middle_s)
        if found is None:
            least_s = middle_s
        else:
            best = found
    return best


def _by(search: RightTrainSearch, deadline_s: float) -> EvaluatedPlan | None:
    """A plan of the pool by a deadline, as a message rounds it."""
    deadline_s = float(not_below(deadline_s))
    found = DeadlineSearch(with_deadline(search.problem, deadline_s), search.epsilon).known_in_time()
    return None if found is None else replace(found, total_s=deadline_s)


def nearest_to_limits(search: RightTrainSearch, fastest: EvaluatedPlan) -> EvaluatedPlan:
    """Of the fastest plan and simple ones, the one that exceeds energy limits by the smallest factor."""
    unlimited = CpuAllocator(_without_energy_limits(with_deadline(search.problem, None)))
    plans = [fastest]
    for candidate in plan_pool(search.problem, search.epsilon).candidates:
        tried = (unlimited.min_time_plan(candidate), unlimited.best_plan(candidate))
        plans += [plan for plan in tried if plan is not None and not unlimited.misses_deadline(plan)]
    return min(plans, key=search.allocator.part_of_limits)


def _without_energy_limits(problem: RightTrainProblem) -> RightTrainProblem:
    cluster = problem.task.cluster
    nodes = {
        name: node.model_copy(update={"limits": node.limits.model_copy(update={"energy_j": None})})
        for name, node in cluster.nodes.items()
    }
    return replace(problem, task=replace(problem.task, cluster=cluster.model_copy(update={"nodes": nodes})))
