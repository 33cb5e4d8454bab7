"""Lower bounds of all trees, sets of nodes and splits of the batch, the lowest first: what a proof has still to raise.

A subproblem is a tree on some nodes with a box of splits. Its bound is raised by better prices of time first; after
that its box is cut in two, until only one split is left, which is for others to search.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from palmette.plan.righttrain.data_amounts import SplitBox
from palmette.plan.righttrain.mapping_bounds import BoxedTree, MappingBound, MappingBounds
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.symmetry import Symmetry, distinct_trees
from palmette.plan.righttrain.trees import GroupingTree, RankedTree

_HALF_ROUNDS = 2
"""Rounds of better prices for half of a box, which begins with those of the whole."""


class Subproblem(NamedTuple):
    """A tree on some nodes with a box of splits, its bound, and whether its prices were raised."""

    boxed: BoxedTree
    bound: MappingBound
    refined: bool = False

    @property
    def ranked(self) -> RankedTree:
        """The tree with the only split of its box."""
        return RankedTree(self.boxed.tree, self.boxed.schedule, 0.0)


class BoundedTree(NamedTuple):
    """A tree with all splits of a batch, and its bounds on sets of nodes, lowest first, whatever the deadline."""

    ranked: RankedTree
    boxed: BoxedTree
    bounds: list[MappingBound]


def bounded_trees(problem: RightTrainProblem, bounds: MappingBounds) -> list[BoundedTree]:
    """The distinct trees that can reach the loss, in the order of equation (5)."""
    found = []
    for ranked in distinct_trees(problem):
        boxed = bounds.boxed(ranked.tree, SplitBox.of_batch(problem.task.batch, len(ranked.tree.feeds)))
        own = [] if boxed is None else bounds.lower_bounds(boxed)
        if boxed is not None and own:
            found.append(BoundedTree(ranked, boxed, own))
    return found


@dataclass
class OpenBounds:
    """Subproblems that are not settled yet."""

    problem: RightTrainProblem
    bounds: MappingBounds
    _heap: list[tuple[float, int, Subproblem]] = field(default_factory=list)
    _pushed: int = 0

    def __post_init__(self) -> None:
        self._symmetry = Symmetry(self.problem)

    @property
    def least_j(self) -> float:
        """The lowest bound; infinite where nothing is open."""
        return self._heap[0][0] if self._heap else math.inf

    def add(self, root: BoundedTree) -> None:
        """Add a tree with all splits, on one of the sets of nodes that differ only in the names of equal machines."""
        tree, box = root.ranked.tree, root.boxed.box
        boxed = self._boxed(tree, box) if box.is_single else root.boxed  # a sample for each feed: one split alone
        if boxed is None:
            return
        distinct = {self._symmetry.node_set_key(tree, bound.nodes): bound for bound in reversed(root.bounds)}
        for bound in distinct.values():
            self._push(Subproblem(boxed, bound))

    def reprice_lowest(self, below_j: float, most: int) -> None:
        """Raise the lowest bounds by better prices alone, at most so many of those that are below."""
        for _ in range(most):
            if not self.least_j < below_j or self._heap[0][2].refined:
                return
            _, _, subproblem = heapq.heappop(self._heap)
            raised = self.bounds.repriced(subproblem.boxed, subproblem.bound)
            if raised is not None:
                best = max(raised, subproblem.bound, key=lambda bound: bound.joules)
                self._push(Subproblem(subproblem.boxed, best, refined=True))

    def next_single(self, below_j: float, spend: Callable[[int], bool]) -> Subproblem | None:
        """Take out the subproblem with the lowest bound, once it has a single split; None where none is below.

        Others on the way are raised and divided, while ``spend`` allows such steps.
        """
        while self._heap and self.least_j < below_j and spend(1):
            _, _, subproblem = heapq.heappop(self._heap)
            if not subproblem.refined:
                self._raise(subproblem)
            elif subproblem.boxed.box.is_single:
                return subproblem
            else:
                self._divide(subproblem)
        return None

    def _raise(self, subproblem: Subproblem) -> None:
        """Put a subproblem back with better prices, unless it is too slow."""
        raised = self.bounds.refined(subproblem.boxed, subproblem.bound)
        if raised is not None:
            best = max(raised, subproblem.bound, key=lambda bound: bound.joules)
            self._push(Subproblem(subproblem.boxed, best, refined=True))

    def _divide(self, subproblem: Subproblem) -> None:
        """Put the halves of a box in its place."""
        tree, bound = subproblem.boxed.tree, subproblem.bound
        for half in subproblem.boxed.box.halves():
            boxed = self._boxed(tree, half)
            raised = None if boxed is None else self.bounds.refined(boxed, bound, _HALF_ROUNDS)
            if boxed is not None and raised is not None:
                joules = max(raised.joules, bound.joules)  # what holds for the box holds for its halves
                self._push(Subproblem(boxed, replace(raised, joules=joules), refined=True))

    def _boxed(self, tree: GroupingTree, box: SplitBox) -> BoxedTree | None:
        if not box.is_single:
            return self.bounds.boxed(tree, box)
        schedule = self.problem.schedule(tree.feeds, tree.replicas, box.least)
        return None if schedule is None else BoxedTree(tree, box, schedule)

    def _push(self, subproblem: Subproblem) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (subproblem.bound.joules, self._pushed, subproblem))
