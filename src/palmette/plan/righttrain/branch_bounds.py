"""Lower bounds of trees with one split of the batch, the lowest first, raised by branching on the nodes of groups.

What ``open_bounds`` leaves is a tree on some nodes with one split. Dual ascent bounds all its mappings at once; where
that is not enough, the node of one group is fixed, a branch for each, until one mapping is left. Its bound is that of
its geometric program, without contention between transfers, and no branching raises it further.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.optimum.branching import (
    branches,
    branching_group,
    is_single_mapping,
    only_mapping,
    uses_all_nodes,
)
from palmette.plan.righttrain.optimum.dual_ascent import DualBound, DualProblem, tighten
from palmette.plan.righttrain.optimum.states import StateSpace, is_empty, max_joint_states
from palmette.plan.righttrain.trees import RankedTree

FIRST_ROUNDS = 12
"""Rounds of dual ascent for a tree with one split."""
_ROUNDS = 8
"""Rounds after each branching."""
_MAX_STATES = 10_000


class SplitTree(NamedTuple):
    """A tree with one split on some nodes, its dual problems, any of which bounds it, and a bound of it.

    Those of time rule mappings out that miss the deadline.
    """

    ranked: RankedTree
    duals: list[DualProblem]
    bound_j: float


class _Branch(NamedTuple):
    """Some of the mappings of a tree, and their bounds by each dual problem."""

    of: SplitTree
    bounds: list[DualBound]

    @property
    def best(self) -> DualBound:
        """The highest of the bounds of energy."""
        energy = (bound for dual, bound in zip(self.of.duals, self.bounds, strict=True) if not dual.time_only)
        return max(energy, key=lambda bound: bound.value)


@dataclass
class BranchBounds:
    """Branches that are not settled yet; ``below_j`` is what a bound has to be below to matter."""

    below_j: float
    mapping_bound_j: Callable[[RankedTree, Mapping], float]
    """A bound of one mapping of a tree."""
    count: Callable[[int], None]
    """Is told the rounds of dual ascent that were spent."""
    closed_j: float = math.inf
    """The lowest bound that cannot be raised."""
    _heap: list[tuple[float, int, _Branch]] = field(default_factory=list)
    _pushed: int = 0

    @property
    def least_j(self) -> float:
        """The lowest bound that may still be raised; infinite where there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def add(self, tree: SplitTree) -> None:
        """Add all mappings of a tree."""
        starts = [dual.start() for dual in tree.duals]
        if is_empty(starts[0].remaining):
            return
        if max_joint_states(starts[0].remaining) > _MAX_STATES:
            self.closed_j = min(self.closed_j, tree.bound_j)
        else:
            self._tighten(tree, starts, starts[0].remaining, FIRST_ROUNDS, tree.bound_j)

    def branch(self) -> None:
        """Put branches in the place of the one with the lowest bound."""
        bound_j, _, lowest = heapq.heappop(self._heap)
        nodes, remaining = lowest.of.duals[0].instances.costs.nodes, lowest.bounds[-1].remaining
        place = branching_group(lowest.best, len(nodes))
        if place is None or is_single_mapping(remaining, len(nodes)):
            found_j = self.mapping_bound_j(lowest.of.ranked, only_mapping(remaining, nodes))
            self.closed_j = min(self.closed_j, max(bound_j, found_j))
            return
        for part in branches(remaining, *place, len(nodes)):
            self._tighten(lowest.of, lowest.bounds, part, _ROUNDS, bound_j)

    def _tighten(
        self, tree: SplitTree, bounds: list[DualBound], remaining: StateSpace, rounds: int, bound_j: float
    ) -> None:
        """Add a branch with better bounds, unless it is settled."""
        many, raised = tree.ranked.schedule.iterations, []
        target_j = self.below_j / many if math.isfinite(self.below_j) else 10 * tree.bound_j / many
        for dual, bound in zip(tree.duals, bounds, strict=True):
            self.count(rounds)
            target = dual.max_s * (1 + GAP) if dual.time_only else target_j
            found = tighten(dual, replace(bound, remaining=remaining), target, rounds)
            if found is None:
                return
            remaining = found.remaining
            raised.append(found)
        costs = tree.duals[0].instances.costs
        own = {costs.problem.feed_nodes[feed] for feed in tree.ranked.tree.feeds}
        if not uses_all_nodes(remaining, costs.nodes, own):
            return
        self._pushed += 1
        branch = _Branch(tree, raised)
        heapq.heappush(self._heap, (max(bound_j, many * branch.best.value * (1 - GAP)), self._pushed, branch))
