"""RightTrain's search: trees by their lower bounds, each mapped by Algorithm 1, with the best CPU shares.

Plans are improved by a local search that moves instances or single layers to other nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from palmette.plan.righttrain.branch_bounds import BranchBounds, SplitTree
from palmette.plan.righttrain.cpu_allocation import (
    EFFORT_BUDGET,
    SMALL_EFFORT_BUDGET,
    CpuAllocator,
    EvaluatedPlan,
    KnownTrees,
    MappedTree,
)
from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bounds import BoxedTree, MappingBound, MappingBounds
from palmette.plan.righttrain.mapping_table import MappingTable, TimePrices
from palmette.plan.righttrain.min_time_search import MinTimeSearch, NeighboursOf
from palmette.plan.righttrain.near_limits import NearLimits
from palmette.plan.righttrain.neighbours import Neighbours, distinct_roots
from palmette.plan.righttrain.open_bounds import BoundedTree, OpenBounds, Subproblem, bounded_trees
from palmette.plan.righttrain.optimum.dual_ascent import DualProblem, cheapest_mappings, tighten
from palmette.plan.righttrain.optimum.possible_instances import PossibleInstances
from palmette.plan.righttrain.optimum.states import is_empty, max_joint_states
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.restricted_shortest_path import label_setting, lorenz_raz
from palmette.plan.righttrain.starts import OtherPlan
from palmette.plan.righttrain.steiner_tree import PathSearch, SteinerTree
from palmette.plan.righttrain.symmetry import distinct_trees
from palmette.plan.righttrain.trees import RankedTree

_NODE_SETS = 4
"""The sets of nodes per tree that are mapped: those with the lowest bounds."""
_LOCAL_SEARCH_RATIO = 1.25
"""Plans up to so many times the best energy are improved by local search."""
_MAX_COLUMN_NODES = 16
"""Nodes in a column of the expanded graph, where the set of nodes is not fixed."""
_MAX_STATES = 10_000
_ROUNDS = 5
"""Rounds of dual ascent for joint mappings."""
_LIMITED_ROUNDS = 40
"""The same as long as no plan keeps to energy limits, whose prices have to rise first."""
_TIGHTENING_ROUNDS = 12
"""Rounds of dual ascent for the lower bound of a tree with one split."""
_STEP_EFFORT, _ROUND_EFFORT = 150, 25
"""The effort that a step of raising bounds counts as, and a round of dual ascent."""
_PROOF_EFFORT = 400_000
"""The effort after which a lower bound is not raised any further."""
_REPRICED = 60
"""Trees whose bounds are raised by better prices, where many nodes compute."""
_PROMISING = 0.9
"""Trees whose bound is below this part of the best energy are worth looking for a plan that is in time."""
_CLOSE_ENOUGH = 5e-6
"""Bounds so close to the best plan are not searched."""


@dataclass
class SearchResult:
    """The best plan found, if any, and a lower bound of all plans."""

    plan: EvaluatedPlan | None
    bound_j: float
    other: OtherPlan | None = None
    """A plan of another strategy that is better."""


@dataclass
class RightTrainSearch:
    """One search; ``epsilon`` is the relative error of restricted shortest paths, None for exact ones."""

    problem: RightTrainProblem
    epsilon: float | None
    effort_part: float = 1.0
    """The part of the usual effort that it may spend."""
    known: KnownTrees = field(default_factory=KnownTrees)
    """What other searches of the problem have found out about mapped trees."""
    allocator: CpuAllocator = field(init=False)
    bounds: MappingBounds = field(init=False)
    neighbours: Neighbours = field(init=False)
    improvements: list[EvaluatedPlan] = field(default_factory=list)
    """The plans that were the best for some time, in order."""

    def __post_init__(self) -> None:
        self.bounds = MappingBounds(self.problem)
        self.neighbours = Neighbours(self.problem, self.bounds.few_nodes)
        effort = SMALL_EFFORT_BUDGET if self.bounds.few_nodes else EFFORT_BUDGET
        self.allocator = CpuAllocator(self.problem, round(self.effort_part * effort), self.known)

    def first_feasible(self) -> SearchResult:
        """As in the paper: trees by equation (5), the first whose mapping by Algorithm 1 is feasible; then Step 3."""
        for ranked in distinct_trees(self.problem):
            found = self.best_of(self._algorithm_1(ranked, None))
            if found is not None:
                return SearchResult(self._local_search(found, self.neighbours.with_other_amounts), 0.0)
        return SearchResult(None, 0.0)

    def best(self, starts: Iterable[MappedTree] = ()) -> SearchResult:
        """The simplest trees first, then all in the order of their lower bounds, while one can beat the best plan."""
        best = self.best_of(starts)
        self.allocator.effort = 0  # starts are what no plan may be behind, however many they are
        if best is None and self.bounds.few_nodes:
            best = self.meet_deadline()
        if self.bounds.few_nodes and self.problem.has_energy_limits:
            near = NearLimits(self.allocator, self.neighbours.of).better(self._cheapest_mappings(), best, _below(best))
            best = None if near is None else self._local_search(near)
        for root in _simplest_trees(self.roots):
            best = self._better_of_splits(root, best)
        opened = self._opened()
        if self.bounds.few_nodes:
            best, bound_j = self._search_open(opened, best)
        else:
            for root in sorted(self.roots, key=lambda root: root.bounds[0].joules):
                best = self._better_of_splits(root, best)
            bound_j = opened.least_j
        best = best or self.meet_deadline()
        if not self.bounds.few_nodes:
            self.allocator.effort = 0  # trees of many nodes take all there is; local search has as much again
        return SearchResult(None if best is None else self._local_search(best), bound_j)

    @cached_property
    def roots(self) -> list[BoundedTree]:
        """All trees with their bounds; those of a search without a deadline serve one with a deadline, too."""
        return bounded_trees(self.problem, self.bounds)

    def _opened(self) -> OpenBounds:
        opened = OpenBounds(self.problem, self.bounds)
        for root in self.roots:
            opened.add(root)
        return opened

    def raised_bound_j(self, best: EvaluatedPlan | None) -> float:
        """A lower bound of all plans, raised as far as the effort goes."""
        opened = self._opened()
        if not self.bounds.few_nodes:
            opened.reprice_lowest(_below(best), _REPRICED)
            return opened.least_j
        raised = BranchBounds(_below(best), self._mapping_bound_j, self._count_rounds)
        while min(opened.least_j, raised.least_j) < min(raised.below_j, raised.closed_j) and self._prove(1):
            if raised.least_j <= opened.least_j:
                raised.branch()
                continue
            found = opened.next_single(min(raised.below_j, raised.closed_j, raised.least_j), self._prove)
            if found is not None:
                raised.add(SplitTree(found.ranked, self._dual_problems(found), found.bound.joules))
        return min(raised.closed_j, raised.least_j, opened.least_j)

    def _dual_problems(self, found: Subproblem) -> list[DualProblem]:
        """Those that bound a tree with one split: of time, where there is a deadline, and of energy."""
        kinds = dict.fromkeys([(), found.bound.loads])
        energy = [self.dual_problem(found.ranked, found.bound.nodes, loads) for loads in kinds]
        timed = [replace(energy[0], time_only=True)] if math.isfinite(energy[0].max_s) else []
        return timed + energy

    def _prove(self, steps: int) -> bool:
        """Count steps of a proof; returns whether it may go on."""
        self.allocator.effort += steps * _STEP_EFFORT
        return self.allocator.effort <= _PROOF_EFFORT

    def _mapping_bound_j(self, ranked: RankedTree, mapping: Mapping) -> float:
        """A bound of a mapping, whatever its first root."""
        return min(self.allocator.proven_j(candidate) for candidate in self.root_choices(ranked, mapping))

    def _count_rounds(self, rounds: int) -> None:
        self.allocator.effort += _ROUND_EFFORT * rounds

    def _cheapest_mappings(self) -> Iterator[MappedTree]:
        """For each tree and set of nodes, the mapping that its bound comes from."""
        for root in self.roots:
            tree = root.ranked.tree
            for bound in root.bounds[:_NODE_SETS]:
                schedule = self.problem.schedule(tree.feeds, tree.replicas, bound.split) if min(bound.split) else None
                if schedule is not None:
                    yield MappedTree(tree, bound.mapping, schedule)

    def _search_open(self, opened: OpenBounds, best: EvaluatedPlan | None) -> tuple[EvaluatedPlan | None, float]:
        """Search where the bounds are lowest; returns the best plan and the lowest bound that is left."""
        closed_j = math.inf
        while (found := opened.next_single(_below(best), self._spend)) is not None:
            ranked, nodes = found.ranked, found.bound.nodes
            dual = self.dual_problem(ranked, nodes)
            bound_j = self._tightened_j(dual, ranked, found.bound.joules, _below(best))
            if bound_j < _below(best):
                best = self._better_of_tree(ranked, [found.bound], best)
                closed_j = min(closed_j, bound_j)
        return best, min(closed_j, opened.least_j)

    def _spend(self, steps: int) -> bool:
        """Count steps of raising bounds; returns whether there is effort left."""
        self.allocator.effort += steps * _STEP_EFFORT
        return not self.allocator.effort_spent()

    def _tightened_j(self, dual: DualProblem, ranked: RankedTree, bound_j: float, below_j: float) -> float:
        """A bound of a tree on some nodes, raised by the prices of all its constraints."""
        start, many = dual.start(), ranked.schedule.iterations
        if is_empty(start.remaining):
            return math.inf
        if max_joint_states(start.remaining) > _MAX_STATES:
            return bound_j
        self.allocator.effort += _ROUND_EFFORT * _TIGHTENING_ROUNDS
        target = below_j / many if math.isfinite(below_j) else 10 * bound_j / many
        found = tighten(dual, start, target, _TIGHTENING_ROUNDS)
        if found is None:  # without a plan to beat, it may yet be possible
            return math.inf if math.isfinite(below_j) else many * target * (1 - GAP)
        return max(bound_j, many * found.value * (1 - GAP))

    def _better_of_splits(self, root: BoundedTree, best: EvaluatedPlan | None) -> EvaluatedPlan | None:
        """The best plan of a tree with its batch in proportion to what the sources own, and as its bounds split it."""
        ranked, bounds, tree = root.ranked, root.bounds, root.ranked.tree
        for split in dict.fromkeys([ranked.schedule.split, *(bound.split for bound in bounds[:_NODE_SETS])]):
            schedule = self.problem.schedule(tree.feeds, tree.replicas, split)
            if schedule is None or bounds[0].joules >= _below(best):
                continue
            if best is not None and self.allocator.effort_spent():
                break
            variant = replace(ranked, schedule=schedule)
            best = self._better_of_tree(variant, self.bounds.lower_bounds(BoxedTree.of(variant)), best)
        return best

    def _better_of_tree(
        self, ranked: RankedTree, bounds: list[MappingBound], best: EvaluatedPlan | None
    ) -> EvaluatedPlan | None:
        """The best plan found for a tree and its split, where it is better than the best so far."""
        candidates = list(self._candidates(ranked, bounds, best))
        found = self.best_of(candidates)
        if found is None and bounds and (best is None or bounds[0].joules < best.total_j * _PROMISING):
            found = self._speed_up(candidates)
        if found is not None and (best is None or found.total_j < best.total_j * _LOCAL_SEARCH_RATIO):
            found = self._local_search(found)
        if found is None or (best is not None and found.total_j >= best.total_j):
            return best
        self.improvements.append(found)
        return found

    def meet_deadline(self) -> EvaluatedPlan | None:
        """A plan that meets the deadline, if there is a deadline."""
        if math.isinf(self.problem.deadline_s) and self.problem.task.goal.iteration_deadline_s is None:
            return None
        quick = self.min_time_search().search(distinct_trees(self.problem), until_in_time=True)
        found = None if quick is None else self.allocator.best_plan(quick.candidate)
        return None if found is None else self._local_search(found)

    def min_time_search(self) -> MinTimeSearch:
        """The search for the least time."""
        return MinTimeSearch(self.problem, self.allocator, self.bounds, self.root_choices, self.neighbours.of)

    def _speed_up(self, candidates: list[MappedTree]) -> EvaluatedPlan | None:
        """A plan near candidates that all miss the deadline; only where there are few nodes."""
        quick = self.min_time_search().speed_up(candidates) if self.bounds.few_nodes else None
        return None if quick is None else self.allocator.best_plan(quick.candidate)

    def best_of(self, candidates: Iterable[MappedTree]) -> EvaluatedPlan | None:
        """The best of some mapped trees, each with its best shares; None where none is feasible."""
        best: EvaluatedPlan | None = None
        distinct = list(dict.fromkeys(candidates))
        quick_j = [self.allocator.quick_bound_j(candidate) for candidate in distinct]
        for at_least_j, candidate in sorted(zip(quick_j, distinct, strict=True), key=lambda each: each[0]):
            if math.isinf(at_least_j) or (best is not None and at_least_j >= best.total_j):
                break
            if best is not None and self.allocator.bound_j(candidate) >= best.total_j:
                continue
            found = self.allocator.best_plan(candidate)
            if found is not None and (best is None or found.total_j < best.total_j):
                best = found
        return best

    def _candidates(
        self, ranked: RankedTree, bounds: list[MappingBound], best: EvaluatedPlan | None
    ) -> Iterator[MappedTree]:
        """The mappings of Algorithm 1 and of the bounds, for the sets of nodes with the lowest bounds."""
        boxed = BoxedTree.of(ranked)
        for rough in bounds[:_NODE_SETS]:
            bound = self.bounds.refined(boxed, rough) if best is None or rough.joules < best.total_j else None
            if bound is not None and (best is None or bound.joules < best.total_j):
                yield from self._on_fewer_nodes(ranked, bound)
                yield from self._algorithm_1(ranked, bound)
                yield from self.root_choices(ranked, bound.mapping)
                yield from self._joint_mappings(ranked, bound.nodes, best)

    def _on_fewer_nodes(self, ranked: RankedTree, bound: MappingBound) -> Iterator[MappedTree]:
        """The cheapest mappings on the sources' own nodes, alone and with one other of the bound's mapping.

        Where the set of nodes is not fixed, the bound charges others for idling only while they compute.
        """
        if self.bounds.few_nodes:
            return
        able = set(self.problem.compute_nodes)
        own = {self.problem.feed_nodes[feed] for feed in ranked.tree.feeds} & able
        others = dict.fromkeys(node for nodes in reversed(bound.mapping) for node in nodes if node not in own)
        for more in [(), *((node,) for node in others)][:_NODE_SETS]:
            nodes = tuple(sorted({*own, *more}))
            if nodes:
                table = MappingTable(ranked.tree, ranked.schedule.split, self.bounds.costs(nodes), bound.prices)
                if math.isfinite(table.total_j()):
                    yield from self.root_choices(ranked, table.mapping())

    def _joint_mappings(
        self, ranked: RankedTree, nodes: tuple[int, ...], best: EvaluatedPlan | None
    ) -> Iterator[MappedTree]:
        """The cheapest joint mappings of all groups, for small trees on few nodes."""
        if self.bounds.few_nodes:
            target_j = math.inf if best is None else best.total_j / ranked.schedule.iterations
            dual = self.dual_problem(ranked, nodes)
            rounds = _ROUNDS if best is not None or not np.isfinite(dual.max_j).any() else _LIMITED_ROUNDS
            for mapping in dict.fromkeys(cheapest_mappings(dual, target_j, rounds, _MAX_STATES)):
                yield from self.root_choices(ranked, mapping)

    def dual_problem(self, ranked: RankedTree, nodes: tuple[int, ...], loads: tuple[float, ...] = ()) -> DualProblem:
        """The dual problem of a tree on some nodes, with the calls of some of them together."""
        problem = self.problem
        limits = [problem.task.cluster.nodes[problem.names[node]].limits.energy_j for node in nodes]
        max_j = np.array([math.inf if each is None else each / ranked.schedule.iterations for each in limits])
        idle_w = self.bounds.idle_w(ranked.tree, nodes, loads)
        return DualProblem(
            PossibleInstances(ranked.tree, ranked.schedule.split, self.bounds.costs(nodes, loads)),
            idle_w,
            problem.max_iteration_s(ranked.schedule),
            max_j,
        )

    def _algorithm_1(self, ranked: RankedTree, bound: MappingBound | None) -> Iterator[MappedTree]:
        """The delay-aware Steiner tree: with full CPUs and all nodes as in the paper, or at the prices of a bound."""
        tree, max_s = ranked.tree, self.problem.max_iteration_s(ranked.schedule)
        nodes = tuple(self.problem.compute_nodes) if bound is None else bound.nodes
        if bound is not None and not self.bounds.few_nodes:  # of many nodes only those in the bound's mapping
            nodes = tuple(sorted({node for layer in bound.mapping for node in layer}))[:_MAX_COLUMN_NODES]
        watts = self.bounds.idle_w(tree, nodes)
        prices = TimePrices(watts, dict.fromkeys(tree.feeds, 1 / len(tree.feeds))) if bound is None else bound.prices
        table = MappingTable(tree, ranked.schedule.split, self.bounds.costs(nodes), prices)
        mapping = SteinerTree(table, max_s, self._path_search()).mapping()
        if mapping is not None:
            yield from self.root_choices(ranked, mapping)

    def _path_search(self) -> PathSearch:
        epsilon = self.epsilon
        return label_setting if epsilon is None else lambda stages, max_delay: lorenz_raz(stages, max_delay, epsilon)

    def root_choices(self, ranked: RankedTree, mapping: Mapping) -> Iterator[MappedTree]:
        """A mapped tree with each choice of its first root, one per node."""
        for first_root in distinct_roots(mapping):
            yield MappedTree(ranked.tree, mapping, ranked.schedule, first_root)

    def _local_search(self, found: EvaluatedPlan, neighbours: NeighboursOf | None = None) -> EvaluatedPlan:
        """Go on to neighbours as long as one is better; to all kinds of them unless others are given."""
        neighbours = neighbours or self.neighbours.of
        improved = True
        while improved:
            improved = False
            for candidate in neighbours(found.candidate):
                if self.allocator.effort_spent():
                    return found
                if self.allocator.quick_bound_j(candidate) >= found.total_j:
                    continue
                if self.allocator.bound_j(candidate) >= found.total_j:
                    continue
                other = self.allocator.best_plan(candidate)
                if other is not None and other.total_j < found.total_j * (1 - 1e-9):
                    found, improved = other, True
                    break
        return found


def _below(best: EvaluatedPlan | None) -> float:
    """What a bound has to be below for a search to be worth while."""
    return math.inf if best is None else best.total_j * (1 - _CLOSE_ENOUGH)


def _simplest_trees(roots: list[BoundedTree]) -> list[BoundedTree]:
    """For each choice of sources the tree with the fewest groups; fewest sources, then lowest bound first.

    Bounds are tighter for simple trees; a good plan among them prunes many others.
    """
    best: dict[tuple[int, ...], BoundedTree] = {}
    for root in sorted(roots, key=lambda root: root.bounds[0].joules):
        known = best.get(root.ranked.tree.feeds)
        if known is None or _group_count(root.ranked) < _group_count(known.ranked):
            best[root.ranked.tree.feeds] = root
    return sorted(best.values(), key=lambda root: (len(root.ranked.tree.feeds), root.bounds[0].joules))


def _group_count(ranked: RankedTree) -> int:
    return len({group for grouping in ranked.tree.groupings for group in grouping})
