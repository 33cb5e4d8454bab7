"""The quickest plan: the least time that the whole training can take, for deadlines that are hard to meet.

Trees in the order of their least time, each mapped by the table of the bound with nothing but time at a price, the CPU
shared for the least time, then downhill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from palmette.plan.righttrain_search.allocate import Allocator, Candidate, Found
from palmette.plan.righttrain_search.bound import ONLY_TIME_W, Bounds
from palmette.plan.righttrain_search.ground import Ground
from palmette.plan.righttrain_search.layout import Mapping
from palmette.plan.righttrain_search.trees import Ranked

Rooted = Callable[[Ranked, Mapping], Iterator[Candidate]]
Neighbours = Callable[[Candidate], Iterator[Candidate]]


@dataclass
class Quickest:
    """A search for the least time."""

    ground: Ground
    allocator: Allocator
    bounds: Bounds
    rooted: Rooted
    neighbours: Neighbours

    def search(self, trees: list[Ranked], *, until_in_time: bool = False) -> Found | None:
        """The quickest plan found, or the first that is in time; None where no tree may run."""
        listed = sorted((self._least(ranked) for ranked in trees), key=lambda each: each[0])
        best: Found | None = None
        for least_s, ranked, mapping in listed:
            if least_s == math.inf or (best is not None and least_s >= best.total_s):
                break
            for candidate in self.rooted(ranked, mapping):
                best = self._better(best, candidate)
            if best is not None and best.candidate.tree is ranked.tree:
                best = self._downhill(best, until_in_time)
            if best is not None and until_in_time and not self.allocator.late(best):
                break
        return best

    def _least(self, ranked: Ranked) -> tuple[float, Ranked, Mapping]:
        """The least seconds of a tree's whole training, and the mapping that would take them."""
        tables = self.bounds.timed(ranked.tree, tuple(self.ground.computing))
        least_s = max(table.total_j() for table in tables) / ONLY_TIME_W
        if not math.isfinite(least_s):
            return math.inf, ranked, ()
        return ranked.schedule.iterations * least_s * (1 - 1e-9), ranked, tables[0].mapping()

    def _better(self, best: Found | None, candidate: Candidate) -> Found | None:
        found = self.allocator.quick(candidate)
        return found if found is not None and (best is None or found.total_s < best.total_s) else best

    def _downhill(self, best: Found, until_in_time: bool) -> Found:
        improved = True
        while improved and not (until_in_time and not self.allocator.late(best)):
            improved = False
            for candidate in self.neighbours(best.candidate):
                if self.allocator.least_s(candidate) >= best.total_s:
                    continue
                found = self.allocator.quick(candidate)
                if found is not None and found.total_s < best.total_s * (1 - 1e-9):
                    best, improved = found, True
                    break
        return best
