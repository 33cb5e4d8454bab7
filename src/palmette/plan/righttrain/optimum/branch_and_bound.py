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
from palmette.plan.righttrain.cpu_allocation import Candidate, Found
from palmette.plan.righttrain.geometric_program import GAP
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bound import Bound
from palmette.plan.righttrain.optimum.dual_ascent import Frame, Squeezed, squeezed
from palmette.plan.righttrain.optimum.joint_mapping import Alive, is_empty, most_states
from palmette.plan.righttrain.problem import Floats, Ground
from palmette.plan.righttrain.search import Outcome, Search
from palmette.plan.righttrain.symmetry import Symmetry
from palmette.plan.righttrain.trees import Ranked, all_listed, ranked_trees

MOST_STATES = 400_000
"""Of all groups of a layer together."""
MOST_STEPS = 10_000
"""Splits and programs that a search may look at before it gives up; those of large tables count as more."""
_STATES_A_STEP = 10_000
_FIRST_EFFORT = 10_000
"""What RightTrain may spend on a plan to beat."""
_FIRST_ROUNDS = 20
_ROUNDS = 8
"""Rounds of raising prices: at first, and after each split."""


_Pair = tuple[Bound, Ranked]


class _Side(NamedTuple):
    """One bound of what is left, of its time or of its energy."""

    frame: Frame
    left: Squeezed


@dataclass
class Optimum:
    """One search for the optimum."""

    ground: Ground
    search: Search = field(init=False)
    _best: Found | None = None
    _open_j: float = math.inf
    """The least bound of what was played on the clock and came out above it."""
    _steps: Synchronized[int] = field(default_factory=lambda: Value("q"))
    """Of all processes."""

    def __post_init__(self) -> None:
        self.search = Search(self.ground, None, _FIRST_EFFORT)

    def outcome(self) -> Outcome:
        """The optimum, and what bounds it from below.

        Raises:
            InputError: there is more to search than can be finished.
        """
        if not all_listed(self.ground) or not self.search.bounds.settled:
            self._give_up()
        self._best = self.search.best().found
        pairs = sorted(self._pairs(), key=lambda pair: pair[0].joules)
        self._search([pair for pair in pairs if pair[0].joules < self._limit_j()])
        return Outcome(self._best, min(self._open_j, self._limit_j() * (1 - GAP)))

    def _search(self, pairs: list[_Pair]) -> None:
        """Look for a better plan in all trees, on all cores."""
        if helpers() > 1:
            found = [done.taken() for done in side_by_side([partial(self._tree, pair) for pair in pairs])]
        else:
            found = [self._tree(pair) for pair in pairs]
        better = [best for best, _ in found if best is not None]
        if better:
            self._best = min(better, key=lambda each: each.total_j)
        self._open_j = min([self._open_j, *(open_j for _, open_j in found)])

    def _tree(self, pair: _Pair) -> tuple[Found | None, float]:
        """The best plan of a tree among some nodes, if it beats the best so far; and the least open bound.

        It does not learn from others, so that it is the same whoever is first, and on however many cores.
        """
        start, (bound, ranked) = self._best, pair
        self._branch(ranked, bound.nodes)
        found, self._best = self._best, start
        return None if found is start else found, self._open_j

    def _pairs(self) -> Iterator[_Pair]:
        """The trees among each set of nodes, one of each that differ in the names of equal machines only."""
        symmetry = Symmetry(self.ground)
        for ranked in symmetry.different(ranked_trees(self.ground)):
            found = {symmetry.key(ranked.tree, bound.nodes): bound for bound in self.search.bounds.of(ranked)}
            yield from ((bound, ranked) for bound in found.values())

    def _limit_j(self) -> float:
        return math.inf if self._best is None else self._best.total_j

    def _branch(self, ranked: Ranked, nodes: tuple[int, ...]) -> None:
        """Try all mappings among some nodes that can still beat the best and be in time."""
        frame = self.search.frame(ranked, nodes)
        alive = frame.start().alive
        if is_empty(alive):
            return
        if most_states(alive) > MOST_STATES:
            self._give_up()
        frames = [frame] if math.isinf(frame.most_s) else [replace(frame, timed=True), frame]
        self._narrow([_Side(each, each.start()) for each in frames], ranked, [_FIRST_ROUNDS] * len(frames))

    def _narrow(self, sides: list[_Side], ranked: Ranked, rounds: list[int]) -> None:
        """Squeeze what is left; then split it by the nodes of a group, or try the last mapping."""
        found: list[tuple[float, _Side]] = []
        alive = sides[0].left.alive
        self._count(1 + most_states(alive) // _STATES_A_STEP)
        nodes = sides[0].frame.instances.costs.nodes
        if _is_single(alive, len(nodes)):
            self._try_all(ranked, _mapping(alive, nodes))
            return
        for side, many in zip(sides, rounds, strict=True):
            aim = self._aim(side.frame, ranked)
            left = squeezed(side.frame, replace(side.left, alive=alive), aim, many)
            if left is None:
                return
            alive = left.alive
            found.append((left.bound / aim, _Side(side.frame, left)))
        own = {self.ground.feed_nodes[feed] for feed in ranked.tree.feeds}
        here = {nodes[k] for groups in alive for states in groups for k in (states % len(nodes)).tolist()}
        if not set(nodes) - own <= here:  # a node of the set is not in use any more
            return
        place = _where_to_split(found[-1][1].left, len(nodes))
        if place is None:
            self._try_all(ranked, _mapping(alive, nodes))
            return
        closest = [side for _, side in sorted(found, key=lambda each: -each[0])]
        for split in _split(alive, *place, len(nodes)):
            first = _Side(closest[0].frame, replace(closest[0].left, alive=split))
            self._narrow([first, *closest[1:]], ranked, [_ROUNDS, *[1] * len(closest[1:])])

    def _aim(self, frame: Frame, ranked: Ranked) -> float:
        """What the bound of an iteration has to reach: its seconds, or its joules."""
        if frame.timed:
            return frame.most_s * (1 + 1e-9)
        return self._limit_j() / ranked.schedule.iterations * (1 - GAP)

    def _try_all(self, ranked: Ranked, mapping: Mapping) -> None:
        for candidate in self.search.rooted(ranked, mapping):
            if self.search.allocator.glance_j(candidate) < self._limit_j():
                self._try(candidate)

    def _try(self, candidate: Candidate) -> None:
        self._count(1)
        bound_j = self.search.allocator.bound_j(candidate)
        if bound_j >= self._limit_j():
            return
        found = self.search.allocator.found(candidate)
        if found is not None and found.total_j < self._limit_j():
            self._best = found
        if found is None or found.total_j > bound_j * (1 + 2 * GAP):  # what its program believes and the clock denies
            self._open_j = min(self._open_j, bound_j)

    def _count(self, steps: int) -> None:
        with self._steps.get_lock():
            self._steps.value += steps
        if self._steps.value > MOST_STEPS:
            self._give_up()

    def _give_up(self) -> NoReturn:
        ground = self.ground
        size = f"{len(ground.names)} nodes, {len(ground.feed_nodes)} sources, {ground.depth} layers"
        raise InputError(Fault("nodes", size, "more than the search for the optimum can finish; try righttrain"))


def _is_single(alive: Alive, nodes: int) -> bool:
    """Whether every group has one node left."""
    return all(np.ptp(states % nodes) == 0 for groups in alive for states in groups)


def _mapping(alive: Alive, nodes: list[int]) -> Mapping:
    """The only mapping that is left."""
    return tuple(tuple(nodes[states[0] % len(nodes)] for states in groups) for groups in alive)


def _where_to_split(left: Squeezed, nodes: int) -> tuple[int, int] | None:
    """The layer and the group whose nodes raise the bound most; None where each has one node only."""
    best, place = -math.inf, None
    for layer, groups in enumerate(left.alive):
        for k, states in enumerate(groups):
            raised = _raised_j(left.above_j[layer][k], states % nodes)
            if raised is not None and raised > best:
                best, place = raised, (layer, k)
    return place


def _raised_j(above_j: Floats, nodes: Any) -> float | None:
    """How much the bound rises on average where a group is split by its nodes; None where it has one."""
    different = np.unique(nodes)
    if len(different) < 2:
        return None
    return float(np.mean([above_j[nodes == node].min() for node in different]))


def _split(alive: Alive, layer: int, k: int, nodes: int) -> list[Alive]:
    """What is left with a group on each of its nodes."""
    groups = alive[layer]
    return [
        (*alive[:layer], (*groups[:k], groups[k][groups[k] % nodes == node], *groups[k + 1 :]), *alive[layer + 1 :])
        for node in np.unique(groups[k] % nodes)
    ]
