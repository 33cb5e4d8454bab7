"""Plans near the cheapest mappings, where nodes have energy limits.

A node that is over its limit may have to give a little away, and that is the cheapest at no price of its energy: so no
search by prices comes across it. Steps from the cheapest mappings do, over others that break limits as well, lowest
bounds first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from palmette.plan.righttrain.cpu_allocation import CpuAllocator, EvaluatedPlan, MappedTree
from palmette.plan.righttrain.min_time_search import NeighboursOf

_EFFORT_PART = 0.25
"""The part of the effort that it may spend."""


@dataclass(frozen=True)
class NearLimits:
    """A search among mapped trees and their neighbours."""

    allocator: CpuAllocator
    neighbours: NeighboursOf

    def better(self, starts: Iterable[MappedTree], best: EvaluatedPlan | None, below_j: float) -> EvaluatedPlan | None:
        """The best plan found within the limits and below so many joules, else the one given."""
        effort = self.allocator.effort + _EFFORT_PART * self.allocator.effort_budget
        queue = [(self.allocator.quick_bound_j(each), k, each) for k, each in enumerate(dict.fromkeys(starts))]
        seen = {each for *_, each in queue}
        heapify(queue)
        while queue and queue[0][0] < below_j and self.allocator.effort < effort:
            *_, candidate = heappop(queue)
            found = self.allocator.best_plan(candidate)
            if found is None:
                for other in self.neighbours(candidate):
                    if other not in seen:
                        seen.add(other)
                        heappush(queue, (self.allocator.quick_bound_j(other), len(seen), other))
            elif found.total_j < below_j:
                best, below_j = found, found.total_j
        return best
