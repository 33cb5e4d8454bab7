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
from palmette.plan.righttrain.optimum.branching import branches, branching_group, is_single_mapping, only_mapping
from palmette.plan.righttrain.optimum.dual_ascent import DualBound, DualProblem, tighten
from palmette.plan.righttrain.optimum.states import is_empty, max_joint_states
from palmette.plan.righttrain.trees import RankedTree

FIRST_ROUNDS = 12
"""Rounds of dual ascent for a tree with one split."""
_ROUNDS = 8
"""Rounds after each branching."""
_MAX_STATES = 10_000


class SplitTree(NamedTuple):
    """A tree with one split on some nodes, and a bound of it."""

    ranked: RankedTree
    dual: DualProblem
    bound_j: float


class _Branch(NamedTuple):
    """Some of the mappings of a tree, and their bound."""

    of: SplitTree
    bound: DualBound


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
        start = tree.dual.start()
        if is_empty(start.remaining):
            return
        if max_joint_states(start.remaining) > _MAX_STATES:
            self.closed_j = min(self.closed_j, tree.bound_j)
        else:
            self._tighten(_Branch(tree, start), FIRST_ROUNDS, tree.bound_j)

    def branch(self) -> None:
        """Put branches in the place of the one with the lowest bound."""
        bound_j, _, lowest = heapq.heappop(self._heap)
        nodes, remaining = lowest.of.dual.instances.costs.nodes, lowest.bound.remaining
        place = branching_group(lowest.bound, len(nodes))
        if place is None or is_single_mapping(remaining, len(nodes)):
            found_j = self.mapping_bound_j(lowest.of.ranked, only_mapping(remaining, nodes))
            self.closed_j = min(self.closed_j, max(bound_j, found_j))
            return
        for part in branches(remaining, *place, len(nodes)):
            self._tighten(_Branch(lowest.of, replace(lowest.bound, remaining=part)), _ROUNDS, bound_j)

    def _tighten(self, branch: _Branch, rounds: int, bound_j: float) -> None:
        """Add a branch with a better bound, unless it is settled."""
        self.count(rounds)
        many = branch.of.ranked.schedule.iterations
        target = self.below_j / many if math.isfinite(self.below_j) else 10 * branch.of.bound_j / many
        found = tighten(branch.of.dual, branch.bound, target, rounds)
        if found is not None:
            self._pushed += 1
            raised_j = max(bound_j, many * found.value * (1 - GAP))
            heapq.heappush(self._heap, (raised_j, self._pushed, _Branch(branch.of, found)))
