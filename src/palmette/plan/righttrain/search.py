"""RightTrain's search: trees by their lower bounds, each mapped by Algorithm 1, with the best CPU shares.

Plans are improved by a local search that moves instances or single layers to other nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from palmette.plan.righttrain.cpu_allocation import (
    EFFORT_BUDGET,
    SMALL_EFFORT_BUDGET,
    CpuAllocator,
    EvaluatedPlan,
    MappedTree,
)
from palmette.plan.righttrain.layout import Mapping, mapped_instances
from palmette.plan.righttrain.mapping_bounds import MappingBound, MappingBounds
from palmette.plan.righttrain.mapping_table import MappingTable, TimePrices
from palmette.plan.righttrain.min_time_search import MinTimeSearch
from palmette.plan.righttrain.optimum.dual_ascent import DualProblem, cheapest_mappings
from palmette.plan.righttrain.optimum.possible_instances import PossibleInstances
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.restricted_shortest_path import label_setting, lorenz_raz
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
_MAX_MOVES = 1000
"""Above these, moves of single layers are skipped."""


@dataclass
class SearchResult:
    """The best plan found, if any, and a lower bound of all plans."""

    plan: EvaluatedPlan | None
    bound_j: float


@dataclass
class RightTrainSearch:
    """One search; ``epsilon`` is the relative error of restricted shortest paths, None for exact ones."""

    problem: RightTrainProblem
    epsilon: float | None
    effort_budget: int | None = None
    """For local search; by the number of nodes if not given."""
    allocator: CpuAllocator = field(init=False)
    bounds: MappingBounds = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = MappingBounds(self.problem)
        effort = self.effort_budget or (SMALL_EFFORT_BUDGET if self.bounds.few_nodes else EFFORT_BUDGET)
        self.allocator = CpuAllocator(self.problem, effort)

    def first_feasible(self) -> SearchResult:
        """As in the paper: trees by their processing, the first that is feasible."""
        for ranked in distinct_trees(self.problem):
            found = self._best(self._algorithm_1(ranked, None))
            if found is not None:
                return SearchResult(found, 0.0)
        return SearchResult(None, math.inf)

    def best(self) -> SearchResult:
        """Trees by their lower bounds, while these can still beat the best plan."""
        trees = distinct_trees(self.problem)
        listed = [(bounds, ranked) for ranked in trees if (bounds := self.bounds.lower_bounds(ranked))]
        listed.sort(key=lambda pair: pair[0][0].joules)
        best = self._meet_deadline(trees) if self.bounds.few_nodes else None
        simple = _simplest_trees(listed)
        for bounds, ranked in [*simple, *listed]:
            if best is not None and bounds[0].joules >= best.total_j:
                continue
            if best is not None and self.allocator.effort_spent():
                break
            candidates = list(self._candidates(ranked, bounds, best))
            found = self._best(candidates) or self._speed_up(candidates)
            if found is not None and (best is None or found.total_j < best.total_j * _LOCAL_SEARCH_RATIO):
                found = self._local_search(found)
            if found is not None and (best is None or found.total_j < best.total_j):
                best = found
        best = best or self._meet_deadline(trees)
        return SearchResult(best, listed[0][0][0].joules if listed else math.inf)

    def _meet_deadline(self, trees: list[RankedTree]) -> EvaluatedPlan | None:
        """A plan that meets the deadline, if there is a deadline."""
        if math.isinf(self.problem.deadline_s) and self.problem.task.goal.iteration_deadline_s is None:
            return None
        quick = self.min_time_search().search(trees, until_in_time=True)
        found = None if quick is None else self.allocator.best_plan(quick.candidate)
        return None if found is None else self._local_search(found)

    def min_time_search(self) -> MinTimeSearch:
        """The search for the least time."""
        return MinTimeSearch(self.problem, self.allocator, self.bounds, self.root_choices, self._neighbours)

    def _speed_up(self, candidates: list[MappedTree]) -> EvaluatedPlan | None:
        """A plan near candidates that all miss the deadline; only where there are few nodes."""
        quick = self.min_time_search().speed_up(candidates) if self.bounds.few_nodes else None
        return None if quick is None else self.allocator.best_plan(quick.candidate)

    def _best(self, candidates: Iterable[MappedTree]) -> EvaluatedPlan | None:
        best: EvaluatedPlan | None = None
        for candidate in dict.fromkeys(candidates):
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
        for rough in bounds[:_NODE_SETS]:
            bound = self.bounds.refined(ranked, rough) if best is None or rough.joules < best.total_j else None
            if bound is not None and (best is None or bound.joules < best.total_j):
                yield from self._algorithm_1(ranked, bound)
                yield from self.root_choices(ranked, bound.mapping)
                yield from self._joint_mappings(ranked, bound.nodes, best)

    def _joint_mappings(
        self, ranked: RankedTree, nodes: tuple[int, ...], best: EvaluatedPlan | None
    ) -> Iterator[MappedTree]:
        """The cheapest joint mappings of all groups, for small trees on few nodes."""
        if self.bounds.few_nodes:
            target_j = math.inf if best is None else best.total_j / ranked.schedule.iterations
            for mapping in dict.fromkeys(
                cheapest_mappings(self.dual_problem(ranked, nodes), target_j, _ROUNDS, _MAX_STATES)
            ):
                yield from self.root_choices(ranked, mapping)

    def dual_problem(self, ranked: RankedTree, nodes: tuple[int, ...]) -> DualProblem:
        """The dual problem of a tree on some nodes."""
        problem = self.problem
        limits = [problem.task.cluster.nodes[problem.names[node]].limits.energy_j for node in nodes]
        max_j = np.array([math.inf if each is None else each / ranked.schedule.iterations for each in limits])
        idle_w = self.bounds.idle_w(ranked.tree, nodes)
        return DualProblem(
            PossibleInstances(ranked.tree, self.bounds.costs(nodes)),
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
        table = MappingTable(tree, self.bounds.costs(nodes), prices)
        mapping = SteinerTree(table, max_s, self._path_search()).mapping()
        if mapping is not None:
            yield from self.root_choices(ranked, mapping)

    def _path_search(self) -> PathSearch:
        epsilon = self.epsilon
        return label_setting if epsilon is None else lambda stages, max_delay: lorenz_raz(stages, max_delay, epsilon)

    def root_choices(self, ranked: RankedTree, mapping: Mapping) -> Iterator[MappedTree]:
        """A mapped tree with each choice of its first root, one per node."""
        for first_root in _distinct_roots(mapping):
            yield MappedTree(ranked.tree, mapping, ranked.schedule, first_root)

    def _local_search(self, found: EvaluatedPlan) -> EvaluatedPlan:
        """Move instances or single layers to other nodes as long as that is better."""
        improved = True
        while improved:
            improved = False
            for candidate in self._neighbours(found.candidate):
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

    def _neighbours(self, candidate: MappedTree) -> Iterator[MappedTree]:
        tree, mapping = candidate.tree, candidate.mapping
        yield from (
            replace(candidate, first_root=first_root)
            for first_root in _distinct_roots(mapping)
            if first_root != candidate.first_root
        )
        places = [(layer, k) for layer, nodes in enumerate(mapping) for k in range(len(nodes))]
        if len(places) * len(self.problem.compute_nodes) > _MAX_MOVES:
            places = []
        blocks = [
            [(layer, tree.groupings[layer].index(part.group)) for layer in range(part.first, part.last + 1)]
            for part in mapped_instances(tree, mapping, candidate.first_root)
        ]
        rows = [[(layer, k) for k in range(len(nodes))] for layer, nodes in enumerate(mapping) if len(nodes) > 1]
        for block in [*blocks, *([place] for place in places), *(rows if self.bounds.few_nodes else ())]:
            for node in self.problem.compute_nodes:
                changed = [list(nodes) for nodes in mapping]
                for layer, k in block:
                    changed[layer][k] = node
                moved = tuple(map(tuple, changed))
                for first_root in _distinct_roots(moved) if self.bounds.few_nodes else [candidate.first_root]:
                    yield replace(candidate, mapping=moved, first_root=first_root)


def _distinct_roots(mapping: Mapping) -> list[int]:
    """The roots that may come first, one per node."""
    return sorted({node: first_root for first_root, node in reversed(list(enumerate(mapping[-1])))}.values())


def _simplest_trees(listed: list[tuple[list[MappingBound], RankedTree]]) -> list[tuple[list[MappingBound], RankedTree]]:
    """For each choice of sources the tree with the fewest groups; fewest sources, then lowest bound first.

    Bounds are tighter for simple trees; a good plan among them prunes many others.
    """
    best: dict[tuple[int, ...], tuple[list[MappingBound], RankedTree]] = {}
    for pair in listed:
        known = best.get(pair[1].tree.feeds)
        if known is None or _group_count(pair[1]) < _group_count(known[1]):
            best[pair[1].tree.feeds] = pair
    return sorted(best.values(), key=lambda pair: (len(pair[1].tree.feeds), pair[0][0].joules))


def _group_count(ranked: RankedTree) -> int:
    return len({group for grouping in ranked.tree.groupings for group in grouping})
