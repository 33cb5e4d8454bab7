"""The optimum over trees, mappings, the data of each source and CPU shares, by branch and bound.

RightTrain's plan is the first incumbent. Trees on sets of nodes with boxes of splits of the batch are searched in the
order of their bounds (``open_bounds``), boxes cut in two until one split is left. There ``dual_ascent`` raises the
bound until it exceeds the incumbent or stalls, and drops states through which nothing can be better. The remaining
states are branched on by the node of one group, recursively. A single mapping is bounded once more by its geometric
program, without contention between transfers, and only then evaluated.

The bounds are valid and the programs are solved to the optimum. Where transfers share links or calls overlap on a
node, the shares are the best found for what the evaluator simulates; ``bound_j`` says how far from the optimum that can
be. It says so, too, where the effort ends before the proof does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from palmette.errors import Fault, InputError
from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan, MappedTree
from palmette.plan.righttrain.deadlines import DeadlineSearch
from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.open_bounds import OpenBounds
from palmette.plan.righttrain.optimum.branching import (
    branches,
    branching_group,
    is_single_mapping,
    only_mapping,
    uses_all_nodes,
)
from palmette.plan.righttrain.optimum.dual_ascent import DualBound, DualProblem, tighten
from palmette.plan.righttrain.optimum.states import is_empty, max_joint_states
from palmette.plan.righttrain.plan_pool import plan_pool
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.trees import RankedTree, all_trees_generated

MAX_STATES = 400_000
"""Joint states of all groups of a layer."""
MAX_STEPS = 300
"""Branches and programs of a search with the usual effort; those with many states count as more."""
_STATES_PER_STEP = 10_000
_FIRST_ROUNDS = 20
_ROUNDS = 8
"""Rounds of dual ascent: at the root, and after each branching."""


class _Unsettled(Exception):
    """A subproblem is too large, or the steps are spent."""


class _Relaxed(NamedTuple):
    """A dual problem, of time or of energy, and its bound so far."""

    dual: DualProblem
    bound: DualBound


@dataclass
class BranchAndBound:
    """One search for the optimum."""

    problem: RightTrainProblem
    effort: float = 1.0
    """As a multiple of the usual."""
    search: RightTrainSearch = field(init=False)
    _best: EvaluatedPlan | None = None
    _open_j: float = math.inf
    """The least bound of mappings that the evaluator found to cost more than their bound."""
    _steps: int = 0

    def __post_init__(self) -> None:
        self.search = RightTrainSearch(self.problem, None, known=plan_pool(self.problem, None).known)

    def solve(self) -> SearchResult:
        """The optimum and its lower bound.

        Raises:
            InputError: the problem is too large to search.
        """
        if not all_trees_generated(self.problem) or not self.search.bounds.few_nodes:
            raise self._too_large()
        self._best = DeadlineSearch(self.problem, None).best_plan()
        self.search.roots = plan_pool(self.problem, None).roots
        opened = OpenBounds(self.problem, self.search.bounds)
        for root in self.search.roots:
            opened.add(root)
        while (found := opened.next_single(self._incumbent_j() * (1 - GAP), self._spend)) is not None:
            try:
                self._search_node_set(found.ranked, found.bound.nodes)
            except _Unsettled:
                self._open_j = min(self._open_j, found.bound.joules)
        bound_j = min(self._open_j, opened.least_j, self._incumbent_j() * (1 - GAP))
        if self._best is None and math.isfinite(bound_j):
            raise self._too_large()
        return SearchResult(self._best, bound_j)

    def _incumbent_j(self) -> float:
        return math.inf if self._best is None else self._best.total_j

    def _search_node_set(self, ranked: RankedTree, nodes: tuple[int, ...]) -> None:
        """Search all mappings on some nodes that can still beat the incumbent and meet the deadline."""
        dual = self.search.dual_problem(ranked, nodes)
        remaining = dual.start().remaining
        if is_empty(remaining):
            return
        if max_joint_states(remaining) > MAX_STATES:
            raise _Unsettled
        duals = [dual] if math.isinf(dual.max_s) else [replace(dual, time_only=True), dual]
        self._branch_on_states([_Relaxed(each, each.start()) for each in duals], ranked, [_FIRST_ROUNDS] * len(duals))

    def _branch_on_states(self, relaxed: list[_Relaxed], ranked: RankedTree, rounds: list[int]) -> None:
        """Tighten the bounds; then branch on the node of a group, or evaluate the last mapping."""
        found: list[tuple[float, _Relaxed]] = []
        remaining = relaxed[0].bound.remaining
        self._count_steps(1 + max_joint_states(remaining) // _STATES_PER_STEP)
        nodes = relaxed[0].dual.instances.costs.nodes
        if is_single_mapping(remaining, len(nodes)):
            self._evaluate_mapping(ranked, only_mapping(remaining, nodes))
            return
        for each, many in zip(relaxed, rounds, strict=True):
            target = self._target(each.dual, ranked)
            bound = tighten(each.dual, replace(each.bound, remaining=remaining), target, many)
            if bound is None:
                return
            remaining = bound.remaining
            found.append((bound.value / target, _Relaxed(each.dual, bound)))
        own = {self.problem.feed_nodes[feed] for feed in ranked.tree.feeds}
        if not uses_all_nodes(remaining, nodes, own):
            return
        place = branching_group(found[-1][1].bound, len(nodes))
        if place is None:
            self._evaluate_mapping(ranked, only_mapping(remaining, nodes))
            return
        closest = [each for _, each in sorted(found, key=lambda each: -each[0])]
        for split in branches(remaining, *place, len(nodes)):
            first = _Relaxed(closest[0].dual, replace(closest[0].bound, remaining=split))
            self._branch_on_states([first, *closest[1:]], ranked, [_ROUNDS, *[1] * len(closest[1:])])

    def _target(self, dual: DualProblem, ranked: RankedTree) -> float:
        """The bound, in seconds or joules of an iteration, at which a branch is pruned."""
        if dual.time_only:
            return dual.max_s * (1 + 1e-9)
        return self._incumbent_j() / ranked.schedule.iterations * (1 - GAP)

    def _evaluate_mapping(self, ranked: RankedTree, mapping: Mapping) -> None:
        for candidate in self.search.root_choices(ranked, mapping):
            if self.search.allocator.quick_bound_j(candidate) < self._incumbent_j():
                self._evaluate(candidate)

    def _evaluate(self, candidate: MappedTree) -> None:
        self._count_steps(1)
        bound_j = self.search.allocator.bound_j(candidate)
        if bound_j >= self._incumbent_j():
            return
        found = self.search.allocator.best_plan(candidate)
        if found is not None and found.total_j < self._incumbent_j():
            self._best = found
        if found is None or found.total_j > bound_j * (1 + 2 * GAP):  # contention that its program ignores
            self._open_j = min(self._open_j, bound_j)

    def _spend(self, steps: int) -> bool:
        """Count steps; returns whether there are any left."""
        self._steps += steps
        return self._steps <= self.effort * MAX_STEPS

    def _count_steps(self, steps: int) -> None:
        if not self._spend(steps):
            raise _Unsettled

    def _too_large(self) -> InputError:
        problem = self.problem
        size = f"{len(problem.names)} nodes, {len(problem.feed_nodes)} sources, {problem.depth} layers"
        return InputError(Fault("nodes", size, "too large to search for the optimum; try righttrain"))
