"""The true optimum over trees, mappings, data and CPU, by branch and bound.

RightTrain's plan is the first to beat. For each tree and each set of nodes in use, prices are raised until the bound of
``dual`` is above the best plan, or stays below; states through which nothing can be better are dropped meanwhile. What
is left is split by the nodes of a group, and again, with prices of its own. A single mapping is bounded once more by
its geometric program, with each transfer alone on its way, and only then played on the clock.

The bounds are valid and the programs are solved to the optimum. Where transfers share links or calls overlap on a
node, shares are the best that were found for what the clock plays; ``bound_j`` then says how far that can be from the
least.
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
from palmette.plan.core.parallel import helpers, side_by_side
from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan, MappedTree
from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bounds import MappingBound
from palmette.plan.righttrain.optimum.dual_ascent import DualBound, DualProblem, tighten
from palmette.plan.righttrain.optimum.joint_mapping import StateSpace, is_empty, max_joint_states
from palmette.plan.righttrain.problem import Floats, RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.symmetry import Symmetry
from palmette.plan.righttrain.trees import RankedTree, all_trees_generated, ranked_trees

MAX_STATES = 400_000
"""Of all groups of a layer together."""
MAX_STEPS = 10_000
"""Splits and programs that a search may look at before it gives up; those of large tables count as more."""
_STATES_PER_STEP = 10_000
_INITIAL_EFFORT = 10_000
"""What RightTrain may spend on a plan to beat."""
_FIRST_ROUNDS = 20
_ROUNDS = 8
"""Rounds of raising prices: at first, and after each split."""


_Pair = tuple[MappingBound, RankedTree]


class _Relaxed(NamedTuple):
    """One bound of what is left, of its time or of its energy."""

    dual: DualProblem
    left: DualBound


@dataclass
class BranchAndBound:
    """One search for the optimum."""

    problem: RightTrainProblem
    search: RightTrainSearch = field(init=False)
    _best: EvaluatedPlan | None = None
    _open_j: float = math.inf
    """The least bound of what was played on the clock and came out above it."""
    _steps: Synchronized[int] = field(default_factory=lambda: Value("q"))
    """Of all processes."""

    def __post_init__(self) -> None:
        self.search = RightTrainSearch(self.problem, None, _INITIAL_EFFORT)

    def solve(self) -> SearchResult:
        """The optimum, and what bounds it from below.

        Raises:
            InputError: there is more to search than can be finished.
        """
        if not all_trees_generated(self.problem) or not self.search.bounds.few_nodes:
            self._give_up()
        self._best = self.search.best().plan
        trees = sorted(self._candidate_trees(), key=lambda pair: pair[0].joules)
        self._search_trees([pair for pair in trees if pair[0].joules < self._incumbent_j()])
        return SearchResult(self._best, min(self._open_j, self._incumbent_j() * (1 - GAP)))

    def _search_trees(self, trees: list[_Pair]) -> None:
        """Look for a better plan in all trees, on all cores."""
        if helpers() > 1:
            found = [done.taken() for done in side_by_side([partial(self._search_tree, pair) for pair in trees])]
        else:
            found = [self._search_tree(pair) for pair in trees]
        better = [best for best, _ in found if best is not None]
        if better:
            self._best = min(better, key=lambda each: each.total_j)
        self._open_j = min([self._open_j, *(open_j for _, open_j in found)])

    def _search_tree(self, pair: _Pair) -> tuple[EvaluatedPlan | None, float]:
        """The best plan of a tree among some nodes, if it beats the best so far; and the least open bound.

        It does not learn from others, so that it is the same whoever is first, and on however many cores.
        """
        start, (bound, ranked) = self._best, pair
        self._search_node_set(ranked, bound.nodes)
        found, self._best = self._best, start
        return None if found is start else found, self._open_j

    def _candidate_trees(self) -> Iterator[_Pair]:
        """The trees among each set of nodes, one of each that differ in the names of equal machines only."""
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
        """Try all mappings among some nodes that can still beat the best and be in time."""
        dual = self.search.dual_problem(ranked, nodes)
        remaining = dual.start().remaining
        if is_empty(remaining):
            return
        if max_joint_states(remaining) > MAX_STATES:
            self._give_up()
        frames = [dual] if math.isinf(dual.max_s) else [replace(dual, time_only=True), dual]
        self._branch_on_states([_Relaxed(each, each.start()) for each in frames], ranked, [_FIRST_ROUNDS] * len(frames))

    def _branch_on_states(self, sides: list[_Relaxed], ranked: RankedTree, rounds: list[int]) -> None:
        """Squeeze what is left; then split it by the nodes of a group, or try the last mapping."""
        found: list[tuple[float, _Relaxed]] = []
        remaining = sides[0].left.remaining
        self._count_steps(1 + max_joint_states(remaining) // _STATES_PER_STEP)
        nodes = sides[0].dual.instances.costs.nodes
        if _is_single_mapping(remaining, len(nodes)):
            self._evaluate_mapping(ranked, _mapping(remaining, nodes))
            return
        for side, many in zip(sides, rounds, strict=True):
            target = self._target(side.dual, ranked)
            left = tighten(side.dual, replace(side.left, remaining=remaining), target, many)
            if left is None:
                return
            remaining = left.remaining
            found.append((left.bound / target, _Relaxed(side.dual, left)))
        own = {self.problem.feed_nodes[feed] for feed in ranked.tree.feeds}
        here = {nodes[k] for groups in remaining for states in groups for k in (states % len(nodes)).tolist()}
        if not set(nodes) - own <= here:  # a node of the set is not in use any more
            return
        place = _branching_group(found[-1][1].left, len(nodes))
        if place is None:
            self._evaluate_mapping(ranked, _mapping(remaining, nodes))
            return
        closest = [side for _, side in sorted(found, key=lambda each: -each[0])]
        for split in _branches(remaining, *place, len(nodes)):
            first = _Relaxed(closest[0].dual, replace(closest[0].left, remaining=split))
            self._branch_on_states([first, *closest[1:]], ranked, [_ROUNDS, *[1] * len(closest[1:])])

    def _target(self, dual: DualProblem, ranked: RankedTree) -> float:
        """What the bound of an iteration has to reach: its seconds, or its joules."""
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
        if found is None or found.total_j > bound_j * (1 + 2 * GAP):  # what its program believes and the clock denies
            self._open_j = min(self._open_j, bound_j)

    def _count_steps(self, steps: int) -> None:
        with self._steps.get_lock():
            self._steps.value += steps
        if self._steps.value > MAX_STEPS:
            self._give_up()

    def _give_up(self) -> NoReturn:
        problem = self.problem
        size = f"{len(problem.names)} nodes, {len(problem.feed_nodes)} sources, {problem.depth} layers"
        raise InputError(Fault("nodes", size, "more than the search for the optimum can finish; try righttrain"))


def _is_single_mapping(remaining: StateSpace, nodes: int) -> bool:
    """Whether every group has one node left."""
    return all(np.ptp(states % nodes) == 0 for groups in remaining for states in groups)


def _mapping(remaining: StateSpace, nodes: list[int]) -> Mapping:
    """The only mapping that is left."""
    return tuple(tuple(nodes[states[0] % len(nodes)] for states in groups) for groups in remaining)


def _branching_group(left: DualBound, nodes: int) -> tuple[int, int] | None:
    """The layer and the group whose nodes raise the bound most; None where each has one node only."""
    best, place = -math.inf, None
    for layer, groups in enumerate(left.remaining):
        for k, states in enumerate(groups):
            rise = _mean_rise_j(left.reduced_cost_j[layer][k], states % nodes)
            if rise is not None and rise > best:
                best, place = rise, (layer, k)
    return place


def _mean_rise_j(reduced_cost_j: Floats, nodes: Any) -> float | None:
    """How much the bound rises on average where a group is split by its nodes; None where it has one."""
    distinct_nodes = np.unique(nodes)
    if len(distinct_nodes) < 2:
        return None
    return float(np.mean([reduced_cost_j[nodes == node].min() for node in distinct_nodes]))


def _branches(remaining: StateSpace, layer: int, k: int, nodes: int) -> list[StateSpace]:
    """What is left with a group on each of its nodes."""
    groups = remaining[layer]
    return [
        (
            *remaining[:layer],
            (*groups[:k], groups[k][groups[k] % nodes == node], *groups[k + 1 :]),
            *remaining[layer + 1 :],
        )
        for node in np.unique(groups[k] % nodes)
    ]
