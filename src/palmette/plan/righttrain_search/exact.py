"""The true optimum over trees, mappings, data and CPU, by branch and bound.

RightTrain's plan is the first to beat. For each tree and each set of nodes in use, nodes are chosen layer by layer from
the loss down to the sources; what is chosen counts as it is, what is not by the table of the bound. What is left is
bounded once more by its geometric program, with each transfer alone on its way, and only then played on the clock.

The bounds are valid and the programs are solved to the optimum. Where transfers share links or calls overlap on a
node, shares are the best that were found for what the clock plays; ``bound_j`` then says how far that can be from the
least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np

from palmette.errors import Fault, InputError
from palmette.plan.righttrain_search.allocate import Candidate, Found
from palmette.plan.righttrain_search.bound import ONLY_TIME_W, Bound, Table
from palmette.plan.righttrain_search.ground import Ground
from palmette.plan.righttrain_search.joint import JointTable, State, fits
from palmette.plan.righttrain_search.layout import Mapping
from palmette.plan.righttrain_search.program import GAP
from palmette.plan.righttrain_search.search import Outcome, Search
from palmette.plan.righttrain_search.trees import Ranked, Tree, all_listed, ranked_trees

MOST_STEPS = 300_000
"""Choices that a search may look at before it gives up."""
MOST_PROGRAMS = 6_000


@dataclass
class Optimum:
    """One search for the optimum."""

    ground: Ground
    search: Search = field(init=False)
    _best: Found | None = None
    _open_j: float = math.inf
    """The least bound of what was played on the clock and came out above it."""
    _steps: int = 0
    _programs: int = 0

    def __post_init__(self) -> None:
        self.search = Search(self.ground, None)

    def outcome(self) -> Outcome:
        """The optimum, and what bounds it from below.

        Raises:
            InputError: there is more to search than can be finished.
        """
        if not all_listed(self.ground):
            self._give_up()
        self._best = self.search.best().found
        pairs = [(bound, ranked) for ranked in ranked_trees(self.ground) for bound in self.search.bounds.of(ranked)]
        for bound, ranked in sorted(pairs, key=lambda pair: pair[0].joules):
            if bound.joules >= self._limit_j():
                break
            better = self.search.bounds.refined(ranked, bound)
            if better is not None and better.joules < self._limit_j():
                self._branch(better, ranked)
        return Outcome(self._best, min(self._open_j, self._limit_j()))

    def _limit_j(self) -> float:
        return math.inf if self._best is None else self._best.total_j

    def _branch(self, bound: Bound, ranked: Ranked) -> None:
        """Try all mappings among the nodes of a bound that can still beat the best and be in time."""
        many, most_s = ranked.schedule.iterations, self.ground.most_s(ranked.schedule)
        table = Table(ranked.tree, self.search.bounds.costs(bound.nodes), bound.prices)
        if not fits(table):
            self._give_up()
        credit_j = table.total_j() - bound.joules / many  # what time within the deadline is credited with
        budgets = [Budget(JointTable(table), lambda: self._limit_j() / many + credit_j)]
        if most_s < math.inf:
            timed = self.search.bounds.timed(ranked.tree, bound.nodes)
            budgets += [Budget(JointTable(each), lambda: most_s * ONLY_TIME_W * (1 + 1e-9)) for each in timed]
        for mapping in _Branching(budgets, ranked.tree, bound.nodes).mappings(self._count):
            for candidate in self.search.rooted(ranked, mapping):
                if self.search.allocator.glance_j(candidate, (bound.prices.watts,)) < self._limit_j():
                    self._try(candidate)

    def _try(self, candidate: Candidate) -> None:
        self._programs += 1
        if self._programs > MOST_PROGRAMS:
            self._give_up()
        bound_j = self.search.allocator.bound_j(candidate)
        if bound_j >= self._limit_j():
            return
        found = self.search.allocator.found(candidate)
        if found is not None and found.total_j < self._limit_j():
            self._best = found
        if found is None or found.total_j > bound_j * (1 + 2 * GAP):  # what its program believes and the clock denies
            self._open_j = min(self._open_j, bound_j)

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._give_up()

    def _give_up(self) -> NoReturn:
        ground = self.ground
        size = f"{len(ground.names)} nodes, {len(ground.feed_nodes)} sources, {ground.depth} layers"
        raise InputError(Fault("nodes", size, "more than the search for the optimum can finish; try righttrain"))


class Budget(NamedTuple):
    """A table of costs, and what a mapping must stay below."""

    table: JointTable
    limit_j: Callable[[], float]


class _Branching:
    """The mappings of a tree among some nodes, without those that break a budget."""

    def __init__(self, budgets: list[Budget], tree: Tree, nodes: tuple[int, ...]) -> None:
        self._budgets, self._nodes = budgets, nodes
        self._table = budgets[0].table
        own = {self._table.ground.feed_nodes[feed] for feed in tree.feeds}
        self._to_be_used = {k for k, node in enumerate(nodes) if node not in own}

    def mappings(self, count: Callable[[], None]) -> Iterator[Mapping]:
        """The mappings that use all nodes of the set."""
        if all(table.total_j() < limit_j() for table, limit_j in self._budgets):
            yield from self._choose(len(self._table.own) - 1, (), [0.0] * len(self._budgets), count)

    def _choose(
        self, layer: int, above: tuple[State, ...], spent_j: list[float], count: Callable[[], None]
    ) -> Iterator[Mapping]:
        """Choose the nodes of a layer and of all below it; ``spent_j`` is what the layers above cost."""
        if layer < 0:
            chosen = [[node % self._table.nodes for node in nodes] for nodes in above]
            if self._to_be_used <= {node for nodes in chosen for node in nodes}:
                yield tuple(tuple(self._nodes[node] for node in nodes) for nodes in chosen)
            return
        passing_j = [each.table.onto_j(layer, above[0]) if above else 0.0 for each in self._budgets]
        least_j = [
            spent + passing + each.table.up_to[layer]
            for each, spent, passing in zip(self._budgets, spent_j, passing_j, strict=True)
        ]
        within = [least < each.limit_j() for each, least in zip(self._budgets, least_j, strict=True)]
        here_j = [passing + each.table.own[layer] for each, passing in zip(self._budgets, passing_j, strict=True)]
        for nodes in np.argwhere(np.logical_and.reduce(within)):
            count()
            state = tuple(nodes.tolist())
            if least_j[0][state] < self._budgets[0].limit_j():  # a better plan may have been found meanwhile
                after = [spent + float(here[state]) for spent, here in zip(spent_j, here_j, strict=True)]
                yield from self._choose(layer - 1, (state, *above), after, count)
