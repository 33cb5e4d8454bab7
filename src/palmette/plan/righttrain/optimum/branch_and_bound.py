"""The optimum over trees, mappings, data and CPU shares, by branch and bound.

RightTrain's plan is the first incumbent. For each tree and each set of nodes, ``dual_ascent`` raises the bound until it
exceeds the incumbent or stalls, and drops states through which nothing can be better. The remaining states are branched
on by the node of one group, recursively. A single mapping is bounded once more by its geometric program, without
contention between transfers, and only then evaluated.

The bounds are valid and the programs are solved to the optimum. Where transfers share links or calls overlap on a
node, the shares are the best found for what the evaluator simulates; ``bound_j`` says how far from the optimum that can
be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import Value
from multiprocessing.sharedctypes import Synchronized
from typing import Any, NamedTuple, NoReturn

import numpy as np

from palmette.errors import Fault, InputError
from palmette.plan.core.parallel import parallel_jobs, run_parallel
from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan, MappedTree
from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bounds import MappingBound
from palmette.plan.righttrain.optimum.dual_ascent import DualBound, DualProblem, tighten
from palmette.plan.righttrain.optimum.states import StateSpace, is_empty, max_joint_states
from palmette.plan.righttrain.problem import Floats, RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.symmetry import Symmetry
from palmette.plan.righttrain.trees import RankedTree, all_trees_generated, ranked_trees

MAX_STATES = 400_000
"""Joint states of all groups of a layer."""
MAX_STEPS = 10_000
"""Branches and programs of a search before it gives up; those with many states count as more."""
_STATES_PER_STEP = 10_000
_INITIAL_EFFORT = 10_000
"""The effort budget of RightTrain's search for the first incumbent."""
_FIRST_ROUNDS = 20
_ROUNDS = 8
"""Rounds of dual ascent: at the root, and after each branching."""

_BoundedTree = tuple[MappingBound, RankedTree]


class _Relaxed(NamedTuple):
    """A dual problem, of time or of energy, and its bound so far."""

    dual: DualProblem
    bound: DualBound


@dataclass
class BranchAndBound:
    """One search for the optimum."""

    problem: RightTrainProblem
    search: RightTrainSearch = field(init=False)
    _best: EvaluatedPlan | None = None
    _open_j: float = math.inf
    """The least bound of mappings that the evaluator found to cost more than their bound."""
    _steps: Synchronized[int] = field(default_factory=lambda: Value("q"))
    """Shared by all processes."""

    def __post_init__(self) -> None:
        self.search = RightTrainSearch(self.problem, None, _INITIAL_EFFORT)

    def solve(self) -> SearchResult:
        """The optimum and its lower bound.

        Raises:
            InputError: the problem is too large to search.
        """
        if not all_trees_generated(self.problem) or not self.search.bounds.few_nodes:
            self._give_up()
        self._best = self.search.best().plan
        trees = sorted(self._candidate_trees(), key=lambda pair: pair[0].joules)
        self._search_trees([pair for pair in trees if pair[0].joules < self._incumbent_j()])
        return SearchResult(self._best, min(self._open_j, self._incumbent_j() * (1 - GAP)))

    def _search_trees(self, trees: list[_BoundedTree]) -> None:
        """Search all trees for a better plan, on all cores."""
        if parallel_jobs() > 1:
            found = [done.unwrap() for done in run_parallel([partial(self._search_tree, pair) for pair in trees])]
        else:
            found = [self._search_tree(pair) for pair in trees]
        better = [best for best, _ in found if best is not None]
        if better:
            self._best = min(better, key=lambda each: each.total_j)
        self._open_j = min([self._open_j, *(open_j for _, open_j in found)])

    def _search_tree(self, pair: _BoundedTree) -> tuple[EvaluatedPlan | None, float]:
        """The best plan of a tree on some nodes, if it beats the incumbent; and the least open bound.

        Trees do not share incumbents, so that the result is the same in any order and on any number of cores.
        """
        start, (bound, ranked) = self._best, pair
        self._search_node_set(ranked, bound.nodes)
        found, self._best = self._best, start
        return None if found is start else found, self._open_j

    def _candidate_trees(self) -> Iterator[_BoundedTree]:
        """Each tree on each set of nodes, one of those that differ only in the names of equal machines."""
        symmetry = Symmetry(self.problem)
        for ranked in symmetry.distinct(ranked_trees(self.problem)):
            found = {
                symmetry.node_set_key(ranked.tree, bound.nodes): bound
                for bound in self.search.bounds.lower_bounds(ranked)
            }
            yield from ((bound, ranked) for bound in found.values())

    def _incumbent_j(self) -> float:
        return math.inf if self._best is None else self._best.total_j

    def _search_node_set(self, ranked: RankedTree, nodes: tuple[int, ...]) -> None:
        """Search all mappings on some nodes that can still beat the incumbent and meet the deadline."""
        dual = self.search.dual_problem(ranked, nodes)
        remaining = dual.start().remaining
        if is_empty(remaining):
            return
        if max_joint_states(remaining) > MAX_STATES:
            self._give_up()
        duals = [dual] if math.isinf(dual.max_s) else [replace(dual, time_only=True), dual]
        self._branch_on_states([_Relaxed(each, each.start()) for each in duals], ranked, [_FIRST_ROUNDS] * len(duals))

    def _branch_on_states(self, relaxed: list[_Relaxed], ranked: RankedTree, rounds: list[int]) -> None:
        """Tighten the bounds; then branch on the node of a group, or evaluate the last mapping."""
        found: list[tuple[float, _Relaxed]] = []
        remaining = relaxed[0].bound.remaining
        self._count_steps(1 + max_joint_states(remaining) // _STATES_PER_STEP)
        nodes = relaxed[0].dual.instances.costs.nodes
        if _is_single_mapping(remaining, len(nodes)):
            self._evaluate_mapping(ranked, _mapping(remaining, nodes))
            return
        for each, many in zip(relaxed, rounds, strict=True):
            target = self._target(each.dual, ranked)
            bound = tighten(each.dual, replace(each.bound, remaining=remaining), target, many)
            if bound is None:
                return
            remaining = bound.remaining
            found.append((bound.value / target, _Relaxed(each.dual, bound)))
        own = {self.problem.feed_nodes[feed] for feed in ranked.tree.feeds}
        here = {nodes[k] for groups in remaining for states in groups for k in (states % len(nodes)).tolist()}
        if not set(nodes) - own <= here:  # some node of the set cannot be used any more
            return
        place = _branching_group(found[-1][1].bound, len(nodes))
        if place is None:
            self._evaluate_mapping(ranked, _mapping(remaining, nodes))
            return
        closest = [each for _, each in sorted(found, key=lambda each: -each[0])]
        for split in _branches(remaining, *place, len(nodes)):
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

    def _count_steps(self, steps: int) -> None:
        with self._steps.get_lock():
            self._steps.value += steps
        if self._steps.value > MAX_STEPS:
            self._give_up()

    def _give_up(self) -> NoReturn:
        problem = self.problem
        size = f"{len(problem.names)} nodes, {len(problem.feed_nodes)} sources, {problem.depth} layers"
        raise InputError(Fault("nodes", size, "too large to search for the optimum; try righttrain"))


def _is_single_mapping(remaining: StateSpace, nodes: int) -> bool:
    """Whether every group has only one node left."""
    return all(np.ptp(states % nodes) == 0 for groups in remaining for states in groups)


def _mapping(remaining: StateSpace, nodes: list[int]) -> Mapping:
    """The only remaining mapping."""
    return tuple(tuple(nodes[states[0] % len(nodes)] for states in groups) for groups in remaining)


def _branching_group(bound: DualBound, nodes: int) -> tuple[int, int] | None:
    """The layer and group whose branching raises the bound most; None where each has only one node left."""
    best, place = -math.inf, None
    for layer, groups in enumerate(bound.remaining):
        for k, states in enumerate(groups):
            rise = _mean_rise_j(bound.reduced_cost_j[layer][k], states % nodes)
            if rise is not None and rise > best:
                best, place = rise, (layer, k)
    return place


def _mean_rise_j(reduced_cost_j: Floats, nodes: Any) -> float | None:
    """How much the bound rises on average when branching on a group's node; None where it has only one."""
    distinct_nodes = np.unique(nodes)
    if len(distinct_nodes) < 2:
        return None
    return float(np.mean([reduced_cost_j[nodes == node].min() for node in distinct_nodes]))


def _branches(remaining: StateSpace, layer: int, k: int, nodes: int) -> list[StateSpace]:
    """The remaining states with a group fixed on each of its nodes."""
    groups = remaining[layer]
    return [
        (
            *remaining[:layer],
            (*groups[:k], groups[k][groups[k] % nodes == node], *groups[k + 1 :]),
            *remaining[layer + 1 :],
        )
        for node in np.unique(groups[k] % nodes)
    ]
