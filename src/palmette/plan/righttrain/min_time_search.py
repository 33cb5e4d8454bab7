"""The quickest plan: the least time that the whole training can take, for deadlines that are hard to meet.

Trees in the order of their least time, each mapped by the table of the bound with nothing but time at a price, the CPU
shared for the least time, then downhill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from palmette.plan.righttrain.cpu_allocation import Allocator, Candidate, Found
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.mapping_bound import ONLY_TIME_W, Bounds
from palmette.plan.righttrain.problem import Ground
from palmette.plan.righttrain.trees import Ranked

_DESCENTS = 4

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
        starts: list[Found] = []
        for least_s, ranked, mapping in listed:
            if (
                least_s == math.inf
                or (best is not None and least_s >= best.total_s)
                or self._enough(best, until_in_time)
            ):
                break
            found = self._start(ranked, mapping)
            starts += [found] if found is not None else []
            best = min(starts, key=lambda start: start.total_s, default=None)
        for start in sorted(starts, key=lambda start: start.total_s)[:_DESCENTS]:
            if best is not None and not self._enough(best, until_in_time):
                best = min(best, self._downhill(start, until_in_time=until_in_time), key=lambda found: found.total_s)
        return best

    def in_time(self, candidates: Iterable[Candidate]) -> Found | None:
        """Downhill from the quickest of some candidates until the deadline is met; None where it is not."""
        tried = [found for candidate in candidates if (found := self.allocator.quick(candidate)) is not None]
        if not tried:
            return None
        found = self._downhill(min(tried, key=lambda each: each.total_s), until_in_time=True)
        return None if self.allocator.late(found) else found

    def _enough(self, best: Found | None, until_in_time: bool) -> bool:
        return best is not None and (self.allocator.tired() or (until_in_time and not self.allocator.late(best)))

    def _start(self, ranked: Ranked, mapping: Mapping) -> Found | None:
        tried = [self.allocator.quick(candidate) for candidate in self.rooted(ranked, mapping)]
        return min((found for found in tried if found is not None), key=lambda found: found.total_s, default=None)

    def _least(self, ranked: Ranked) -> tuple[float, Ranked, Mapping]:
        """The least seconds of a tree's whole training, and the mapping that would take them."""
        tables = self.bounds.timed(ranked.tree, tuple(self.ground.computing))[: None if self.bounds.settled else 1]
        least_s = max(table.total_j() for table in tables) / ONLY_TIME_W
        if not math.isfinite(least_s):
            return math.inf, ranked, ()
        return ranked.schedule.iterations * least_s * (1 - 1e-9), ranked, tables[0].mapping()

    def _downhill(self, best: Found, *, until_in_time: bool) -> Found:
        improved = True
        while improved and not self._enough(best, until_in_time):
            improved = False
            for candidate in self.neighbours(best.candidate):
                if self.allocator.tired():
                    return best
                if self.allocator.least_s(candidate) >= best.total_s:
                    continue
                found = self.allocator.quick(candidate)
                if found is not None and found.total_s < best.total_s * (1 - 1e-9):
                    best, improved = found, True
                    break
        return best
