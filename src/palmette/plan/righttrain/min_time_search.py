"""The fastest plan: the least time of the whole training, for deadlines that are hard to meet.

Trees in the order of their least time, each mapped by a table with a price on time only, with the fastest CPU shares,
then local search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from palmette.plan.righttrain.cpu_allocation import CpuAllocator, EvaluatedPlan, MappedTree
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bounds import TIME_ONLY_W, MappingBounds
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.trees import RankedTree

_LOCAL_SEARCHES = 4

RootChoices = Callable[[RankedTree, Mapping], Iterator[MappedTree]]
NeighboursOf = Callable[[MappedTree], Iterator[MappedTree]]


@dataclass
class MinTimeSearch:
    """A search for the least time."""

    problem: RightTrainProblem
    allocator: CpuAllocator
    bounds: MappingBounds
    root_choices: RootChoices
    neighbours: NeighboursOf

    def search(self, trees: list[RankedTree], *, until_in_time: bool = False) -> EvaluatedPlan | None:
        """The fastest plan found, or the first that meets the deadline; None where no tree is feasible."""
        listed = sorted((self._min_time(ranked) for ranked in trees), key=lambda each: each[0])
        best: EvaluatedPlan | None = None
        starts: list[EvaluatedPlan] = []
        for least_s, ranked, mapping in listed:
            if (
                least_s == math.inf
                or (best is not None and least_s >= best.total_s)
                or self._is_done(best, until_in_time)
            ):
                break
            found = self._start(ranked, mapping)
            starts += [found] if found is not None else []
            best = min(starts, key=lambda start: start.total_s, default=None)
        for start in sorted(starts, key=lambda start: start.total_s)[:_LOCAL_SEARCHES]:
            if best is not None and not self._is_done(best, until_in_time):
                best = min(
                    best, self._local_search(start, until_in_time=until_in_time), key=lambda found: found.total_s
                )
        return best

    def speed_up(self, candidates: Iterable[MappedTree]) -> EvaluatedPlan | None:
        """Local search from the fastest of some candidates until the deadline is met; None where it is not."""
        tried = [found for candidate in candidates if (found := self.allocator.min_time_plan(candidate)) is not None]
        if not tried:
            return None
        found = self._local_search(min(tried, key=lambda each: each.total_s), until_in_time=True)
        return None if self.allocator.misses_deadline(found) else found

    def _is_done(self, best: EvaluatedPlan | None, until_in_time: bool) -> bool:
        return best is not None and (
            self.allocator.effort_spent() or (until_in_time and not self.allocator.misses_deadline(best))
        )

    def _start(self, ranked: RankedTree, mapping: Mapping) -> EvaluatedPlan | None:
        tried = [self.allocator.min_time_plan(candidate) for candidate in self.root_choices(ranked, mapping)]
        return min((found for found in tried if found is not None), key=lambda found: found.total_s, default=None)

    def _min_time(self, ranked: RankedTree) -> tuple[float, RankedTree, Mapping]:
        """A lower bound of the seconds of a tree's whole training, the tree, and the bound's mapping."""
        tables = self.bounds.time_tables(ranked.tree, ranked.schedule.split, tuple(self.problem.compute_nodes))[
            : None if self.bounds.few_nodes else 1
        ]
        least_s = max(table.total_j() for table in tables) / TIME_ONLY_W
        if not math.isfinite(least_s):
            return math.inf, ranked, ()
        return ranked.schedule.iterations * least_s * (1 - 1e-9), ranked, tables[0].mapping()

    def _local_search(self, best: EvaluatedPlan, *, until_in_time: bool) -> EvaluatedPlan:
        improved = True
        while improved and not self._is_done(best, until_in_time):
            improved = False
            for candidate in self.neighbours(best.candidate):
                if self.allocator.effort_spent():
                    return best
                if self.allocator.min_time_s(candidate, best.total_s) >= best.total_s:
                    continue
                found = self.allocator.min_time_plan(candidate)
                if found is not None and found.total_s < best.total_s * (1 - 1e-9):
                    best, improved = found, True
                    break
        return best
