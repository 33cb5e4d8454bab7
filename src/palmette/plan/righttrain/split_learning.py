"""Split learning with the best of all splits: three parts on device, edge server and cloud.

Each source's own device runs the first part, one edge server the second, one cloud server the third; all splits and
servers are tried. All data and whole CPUs are used.

    Praneeth Vepakomma, Otkrist Gupta, Tristan Swedish, Ramesh Raskar: Split learning for health: Distributed deep
    learning without sharing raw patient data, 2018.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from palmette.errors import ArgumentFault, Fault, Infeasible, InputError
from palmette.plan.core.strategy import Decision, Task
from palmette.plan.righttrain.epoch_planner import EpochPlanner
from palmette.spec.learning import Factor

if TYPE_CHECKING:
    from palmette.plan.righttrain.cpu_allocation import CpuAllocator, EvaluatedPlan, MappedTree
    from palmette.plan.righttrain.problem import RightTrainProblem


@dataclass(frozen=True, kw_only=True)
class SplitLearning(EpochPlanner):
    """The three-way split with the least energy."""

    name: ClassVar[str] = "split-learning"
    summary: ClassVar[str] = "three parts on device, edge and cloud, all data and full CPUs; the best of all splits"

    def _fixed(self, task: Task) -> Mapping[Factor, float]:
        """All data, and the first layers at every source."""
        return {"data": 1.0, "replicas": len(task.cluster.sources())}

    def _decide(self, problem: RightTrainProblem) -> Decision:
        """Try all splits."""
        from palmette.plan.righttrain.cpu_allocation import CpuAllocator
        from palmette.plan.righttrain.decision import plan_decision

        allocator = CpuAllocator(problem)
        return plan_decision(allocator, _best(allocator, list(_splits(problem))))


def _splits(problem: RightTrainProblem) -> Iterator[MappedTree]:
    """Every three-way split on every edge and cloud server.

    Raises:
        InputError: a tier has no node, or the network has fewer than three layers.
    """
    from palmette.plan.righttrain.cpu_allocation import MappedTree
    from palmette.plan.righttrain.trees import GroupingTree

    cluster, depth = problem.task.cluster, problem.depth
    servers = {tier: [problem.names.index(name) for name in cluster.tier(tier)] for tier in ("edge", "cloud")}
    missing = [
        Fault("nodes", f"no node of tier {tier}", "expected at least one") for tier in servers if not servers[tier]
    ]
    if missing:
        raise InputError(missing)
    if depth < 3:
        raise InputError(Fault("layers", depth, "expected at least 3, to split the network in three"))
    feeds = tuple(range(len(problem.feed_nodes)))
    if len(feeds) > problem.task.batch:
        expected = f"expected at least {len(feeds)}, one sample per source"
        raise InputError(ArgumentFault("batch", problem.task.batch, expected))
    apart, together = tuple((feed,) for feed in feeds), (feeds,)
    schedule = problem.schedule_with_all_data(len(feeds))
    if schedule is None:
        reason = f"cannot be met by {len(feeds)} replicas of the first layer"
        raise Infeasible(ArgumentFault("loss", f"{problem.target.loss:g}", reason))
    for first in range(1, depth - 1):
        tree = GroupingTree(tuple(apart if layer < first else together for layer in range(depth)))
        for second in range(first + 1, depth):
            for edge in servers["edge"]:
                for cloud in servers["cloud"]:
                    own = tuple(problem.feed_nodes)
                    nodes = tuple(
                        own if layer < first else (edge if layer < second else cloud,) for layer in range(depth)
                    )
                    yield MappedTree(tree, nodes, schedule)


def _best(allocator: CpuAllocator, candidates: list[MappedTree]) -> EvaluatedPlan:
    """The split with the least energy that meets the deadline.

    Raises:
        Infeasible: no split is allowed, or none meets the deadline; states the least time.
    """
    from palmette.plan.righttrain.decision import explain_late

    tried = [found for candidate in candidates if (found := allocator.with_full_cpus(candidate)) is not None]
    if not tried:
        raise Infeasible("no three-way split is feasible: missing paths or profiles, or too little memory")
    allowed = [found for found in tried if not allocator.over_limits(found)]
    if not allowed:
        nearest = min(tried, key=allocator.part_of_limits)
        raise Infeasible(f"no three-way split satisfies all limits; the closest: {allocator.over_limits(nearest)[0]}")
    in_time = [found for found in allowed if not allocator.misses_deadline(found)]
    if not in_time:
        raise explain_late(allocator.problem, min(allowed, key=lambda found: found.total_s))
    return min(in_time, key=lambda found: found.total_j)
