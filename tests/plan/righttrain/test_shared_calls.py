"""Bounds that count calls side by side on a node together: tighter, and still bounds."""

from __future__ import annotations

import random

import pytest

from palmette.plan.righttrain.cpu_allocation import CpuAllocator, MappedTree
from palmette.plan.righttrain.data_amounts import SplitBox
from palmette.plan.righttrain.mapping_bounds import BoxedTree, MappingBounds
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import GroupingTree
from palmette.spec.cluster import Cluster, Link, Node, Power, Source
from tests.plan.righttrain.problems import CURVE, problem_of, random_problem

APART = ((0,), (1,))


def two_sources(exponent: float, deadline_s: float | None = None) -> RightTrainProblem:
    """Two sources beside a server with steep power."""
    profile, _, _ = random_problem(random.Random(3), (2, 3, 3), 2)
    owner = Node(tier="device", power=Power(idle_w=1.0, busy_w=3.0), source=Source(samples=1000))
    server = Node(tier="device", power=Power(idle_w=0.5, busy_w=12.0, exponent=exponent))
    links = tuple(Link(between=(name, "n2"), bandwidth_bps=1e9) for name in ("n0", "n1"))
    times = next(iter(profile.nodes.values()))
    known = profile.model_copy(update={"nodes": dict.fromkeys(("n0", "n1", "n2"), times)})
    return problem_of(known, Cluster(nodes={"n0": owner, "n1": owner, "n2": server}, links=links), CURVE, deadline_s)


def side_by_side(problem: RightTrainProblem) -> MappedTree:
    """Two replicas of the whole network on the server."""
    tree = GroupingTree((APART,) * problem.depth)
    schedule = problem.schedule(tree.feeds, tree.replicas, problem.proportional_split(tree.feeds))
    assert schedule is not None
    return MappedTree(tree, ((2, 2),) * problem.depth, schedule)


@pytest.mark.parametrize("exponent", [2.0, 3.0])
@pytest.mark.parametrize("hurry", [None, 1.3, 3.0])
def test_calls_side_by_side_count_together(exponent: float, hurry: float | None) -> None:
    problem = two_sources(exponent)
    allocator = CpuAllocator(problem)
    if hurry is not None:
        fastest = allocator.min_time_plan(side_by_side(problem))
        assert fastest is not None
        allocator = CpuAllocator(two_sources(exponent, hurry * fastest.total_s))
    candidate = side_by_side(problem)
    found = allocator.best_plan(candidate)
    assert found is not None
    assert 1.2 * allocator.bound_j(candidate) < allocator.proven_j(candidate) <= found.total_j
    assert allocator.proven_j(candidate) > 0.9 * found.total_j


def test_with_linear_power_nothing_changes() -> None:
    allocator = CpuAllocator(two_sources(1.0))
    candidate = side_by_side(allocator.problem)
    assert allocator.proven_j(candidate) == allocator.bound_j(candidate)


@pytest.mark.parametrize("hurry", [None, 1.3, 3.0])
def test_bounds_of_boxes_count_them_together_and_stay_below_all_plans(hurry: float | None) -> None:
    problem = two_sources(3.0)
    if hurry is not None:
        fastest = CpuAllocator(problem).min_time_plan(side_by_side(problem))
        assert fastest is not None
        problem = two_sources(3.0, hurry * fastest.total_s)
    bounds, candidate = MappingBounds(problem), side_by_side(problem)
    split = candidate.schedule.split
    boxed = BoxedTree(candidate.tree, SplitBox.of_split(split), candidate.schedule)
    rough = bounds.lower_bound(boxed, (0, 1, 2))
    assert rough is not None
    raised = bounds.refined(boxed, rough)
    assert raised is not None
    plans = [
        found.total_j
        for nodes in ((2, 2), (0, 1), (0, 2), (2, 1), (0, 0), (1, 0))
        for found in [
            CpuAllocator(problem).best_plan(MappedTree(candidate.tree, (nodes,) * problem.depth, candidate.schedule))
        ]
        if found is not None and set(nodes) | {0, 1} == {0, 1, 2}
    ]
    assert raised.joules <= min(plans)
