"""RightTrain's search: trees by their bounds, each mapped by Algorithm 1, with the best shares, then downhill."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from palmette.plan.righttrain.cpu_allocation import EFFORT, SMALL_EFFORT, Allocator, Candidate, Found
from palmette.plan.righttrain.layout import Mapping, parts_of
from palmette.plan.righttrain.mapping_bound import Bound, Bounds, Prices, Table
from palmette.plan.righttrain.min_time_search import Quickest
from palmette.plan.righttrain.optimum.dual_ascent import Frame, cheapest
from palmette.plan.righttrain.optimum.instances import Instances
from palmette.plan.righttrain.problem import Ground
from palmette.plan.righttrain.restricted_shortest_path import label_setting, lorenz_raz
from palmette.plan.righttrain.steiner_tree import Search as PathSearch
from palmette.plan.righttrain.steiner_tree import Steiner
from palmette.plan.righttrain.symmetry import different_trees
from palmette.plan.righttrain.trees import Ranked

_SETS = 4
"""Of each tree so many sets of nodes are mapped, those with the lowest bounds."""

_WORTH_A_DESCENT = 1.25
_COLUMN = 16
"""Nodes in a column of the expanded graph, where the set of nodes is not settled."""
_MOST_STATES = 10_000
_ROUNDS = 5
"""Rounds of prices at which all groups of a tree are mapped together."""
_MOST_MOVES = 1000
"""More moves of single layers than these are left out."""


@dataclass
class Outcome:
    """The best plan found, if any, and a lower bound of all plans."""

    found: Found | None
    bound_j: float


@dataclass
class Search:
    """One search; ``epsilon`` is that of restricted paths, None for exact ones."""

    ground: Ground
    epsilon: float | None
    most_effort: int | None = None
    """What going downhill may take; by the number of nodes if not given."""
    allocator: Allocator = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.ground)
        effort = self.most_effort or (SMALL_EFFORT if self.bounds.settled else EFFORT)
        self.allocator = Allocator(self.ground, effort)

    def first(self) -> Outcome:
        """The paper's: trees by their processing, the first that is feasible."""
        for ranked in different_trees(self.ground):
            found = self._best(self._algorithm_1(ranked, None))
            if found is not None:
                return Outcome(found, 0.0)
        return Outcome(None, math.inf)

    def best(self) -> Outcome:
        """Trees by their lower bounds, while one can still beat the best plan."""
        trees = different_trees(self.ground)
        listed = [(bounds, ranked) for ranked in trees if (bounds := self.bounds.of(ranked))]
        listed.sort(key=lambda pair: pair[0][0].joules)
        best = self._in_time(trees) if self.bounds.settled else None
        simple = _simplest(listed)
        for bounds, ranked in [*simple, *listed]:
            if best is not None and bounds[0].joules >= best.total_j:
                continue
            if best is not None and self.allocator.tired():
                break
            candidates = list(self._candidates(ranked, bounds, best))
            found = self._best(candidates) or self._hurried(candidates)
            if found is not None and (best is None or found.total_j < best.total_j * _WORTH_A_DESCENT):
                found = self._downhill(found)
            if found is not None and (best is None or found.total_j < best.total_j):
                best = found
        best = best or self._in_time(trees)
        return Outcome(best, listed[0][0][0].joules if listed else math.inf)

    def _in_time(self, trees: list[Ranked]) -> Found | None:
        """A plan that meets the deadline, if there is a deadline."""
        if math.isinf(self.ground.deadline_s) and self.ground.task.goal.iteration_deadline_s is None:
            return None
        quick = self.quickest().search(trees, until_in_time=True)
        found = None if quick is None else self.allocator.found(quick.candidate)
        return None if found is None else self._downhill(found)

    def quickest(self) -> Quickest:
        """The search for the least time."""
        return Quickest(self.ground, self.allocator, self.bounds, self.rooted, self._neighbours)

    def _hurried(self, candidates: list[Candidate]) -> Found | None:
        """A plan in time near candidates that are all late; only where there are few nodes."""
        quick = self.quickest().in_time(candidates) if self.bounds.settled else None
        return None if quick is None else self.allocator.found(quick.candidate)

    def _best(self, candidates: Iterable[Candidate]) -> Found | None:
        best: Found | None = None
        for candidate in dict.fromkeys(candidates):
            if best is not None and self.allocator.bound_j(candidate) >= best.total_j:
                continue
            found = self.allocator.found(candidate)
            if found is not None and (best is None or found.total_j < best.total_j):
                best = found
        return best

    def _candidates(self, ranked: Ranked, bounds: list[Bound], best: Found | None) -> Iterator[Candidate]:
        """What Algorithm 1 and the bound itself make of the sets of nodes with the lowest bounds."""
        for rough in bounds[:_SETS]:
            bound = self.bounds.refined(ranked, rough) if best is None or rough.joules < best.total_j else None
            if bound is not None and (best is None or bound.joules < best.total_j):
                yield from self._algorithm_1(ranked, bound)
                yield from self.rooted(ranked, bound.mapping)
                yield from self._together(ranked, bound.nodes, best)

    def _together(self, ranked: Ranked, nodes: tuple[int, ...], best: Found | None) -> Iterator[Candidate]:
        """The cheapest mappings where all groups are looked at together, for small trees among few nodes."""
        if self.bounds.settled:
            aim = math.inf if best is None else best.total_j / ranked.schedule.iterations
            for mapping in dict.fromkeys(cheapest(self.frame(ranked, nodes), aim, _ROUNDS, _MOST_STATES)):
                yield from self.rooted(ranked, mapping)

    def frame(self, ranked: Ranked, nodes: tuple[int, ...]) -> Frame:
        """What the joint bound of a tree among some nodes is about."""
        ground = self.ground
        limits = [ground.task.cluster.nodes[ground.names[node]].limits.energy_j for node in nodes]
        most_j = np.array([math.inf if each is None else each / ranked.schedule.iterations for each in limits])
        idle_w = self.bounds.idle_w(ranked.tree, nodes)
        return Frame(Instances(ranked.tree, self.bounds.costs(nodes)), idle_w, ground.most_s(ranked.schedule), most_j)

    def _algorithm_1(self, ranked: Ranked, bound: Bound | None) -> Iterator[Candidate]:
        """The delay-aware Steiner tree: with full CPUs and all nodes as in the paper, or at the prices of a bound."""
        tree, most_s = ranked.tree, self.ground.most_s(ranked.schedule)
        nodes = tuple(self.ground.computing) if bound is None else bound.nodes
        if bound is not None and not self.bounds.settled:  # of many nodes those that the bound would use
            nodes = tuple(sorted({node for layer in bound.mapping for node in layer}))[:_COLUMN]
        watts = self.bounds.idle_w(tree, nodes)
        prices = Prices(watts, dict.fromkeys(tree.feeds, 1 / len(tree.feeds))) if bound is None else bound.prices
        table = Table(tree, self.bounds.costs(nodes), prices)
        mapping = Steiner(table, most_s, self._paths()).mapping()
        if mapping is not None:
            yield from self.rooted(ranked, mapping)

    def _paths(self) -> PathSearch:
        epsilon = self.epsilon
        return label_setting if epsilon is None else lambda stages, most: lorenz_raz(stages, most, epsilon)

    def rooted(self, ranked: Ranked, mapping: Mapping) -> Iterator[Candidate]:
        """A mapped tree with each of its roots first that is on another node."""
        for home in _homes(mapping):
            yield Candidate(ranked.tree, mapping, ranked.schedule, home)

    def _downhill(self, found: Found) -> Found:
        """Other nodes for an instance or for one layer of it, as long as that is better."""
        improved = True
        while improved:
            improved = False
            for candidate in self._neighbours(found.candidate):
                if self.allocator.tired():
                    return found
                if self.allocator.glance_j(candidate) >= found.total_j:
                    continue
                if self.allocator.bound_j(candidate) >= found.total_j:
                    continue
                other = self.allocator.found(candidate)
                if other is not None and other.total_j < found.total_j * (1 - 1e-9):
                    found, improved = other, True
                    break
        return found

    def _neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        tree, mapping = candidate.tree, candidate.mapping
        yield from (replace(candidate, home=home) for home in _homes(mapping) if home != candidate.home)
        places = [(layer, k) for layer, nodes in enumerate(mapping) for k in range(len(nodes))]
        if len(places) * len(self.ground.computing) > _MOST_MOVES:
            places = []
        blocks = [
            [(layer, tree.groupings[layer].index(part.group)) for layer in range(part.first, part.last + 1)]
            for part in parts_of(tree, mapping, candidate.home)
        ]
        rows = [[(layer, k) for k in range(len(nodes))] for layer, nodes in enumerate(mapping) if len(nodes) > 1]
        for block in [*blocks, *([place] for place in places), *(rows if self.bounds.settled else ())]:
            for node in self.ground.computing:
                changed = [list(nodes) for nodes in mapping]
                for layer, k in block:
                    changed[layer][k] = node
                moved = tuple(map(tuple, changed))
                for home in _homes(moved) if self.bounds.settled else [candidate.home]:
                    yield replace(candidate, mapping=moved, home=home)


def _homes(mapping: Mapping) -> list[int]:
    """The roots that may come first, one a node."""
    return sorted({node: home for home, node in reversed(list(enumerate(mapping[-1])))}.values())


def _simplest(listed: list[tuple[list[Bound], Ranked]]) -> list[tuple[list[Bound], Ranked]]:
    """For each choice of sources the tree with the fewest groups, of these the one with the lowest bound first.

    Bounds are closer for simple trees; a good plan among them spares the look at many others.
    """
    best: dict[tuple[int, ...], tuple[list[Bound], Ranked]] = {}
    for pair in listed:
        known = best.get(pair[1].tree.feeds)
        if known is None or _groups(pair[1]) < _groups(known[1]):
            best[pair[1].tree.feeds] = pair
    return sorted(best.values(), key=lambda pair: (len(pair[1].tree.feeds), pair[0][0].joules))


def _groups(ranked: Ranked) -> int:
    return len({group for grouping in ranked.tree.groupings for group in grouping})
