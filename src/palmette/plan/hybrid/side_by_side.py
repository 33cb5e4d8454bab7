"""The whole network on several nodes side by side, each with microbatches that grow: shares, numbers and growth.

Samples that are sent at once share a link fairly: a node with more microbatches gets more of it, and where the first
are small it begins early. Moves of one path at a time reach neither, since both are about all paths of a node at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from palmette.plan.hybrid.paths import SamplePath, SearchState
from palmette.plan.hybrid.pipelines import LEAST_S
from palmette.plan.hybrid.pricing import Budget, Pricer
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.quick_bound import QuickBound, effort

_MOST_NODES = 4
_MICROBATCHES = (4, 12)  # of each node at first
_MOST_MICROBATCHES = 32
_GROWTHS = (1.0, 1.3, 1.7, 2.2)  # by which a microbatch is larger than the one before
_PARTS = 16  # of a batch, for shares to begin with
_BETTER = 1 - 1e-9


class NodeShare(NamedTuple):
    """What a node gets: samples, in so many microbatches, each so many times as large as the one before."""

    node: str
    samples: int
    microbatches: int
    growth: float

    def sizes(self) -> list[int]:
        """Samples of each microbatch."""
        weights = [self.growth**number for number in range(min(self.microbatches, self.samples))]
        whole = sum(weights) or 1.0
        ends = [round(self.samples * each / whole) for each in itertools.accumulate(weights, initial=0.0)]
        return [b - a for a, b in itertools.pairwise(ends) if b > a]


Shares = tuple[NodeShare, ...]


class SideBySideSearch:
    """Looks for the fastest shares; the pricer knows what was found."""

    def __init__(self, pricer: Pricer, quick_bound: QuickBound) -> None:
        self._pricer, self._quick_bound, self._problem = pricer, quick_bound, pricer.problem

    def run(self, budget: Budget) -> None:
        """Price shares as far as a budget allows; none where nodes or sources are many, or where samples stay."""
        if len(self._problem.cpu_shares) > _MOST_NODES or len(self._problem.samples) > 1 or self._problem.private:
            return
        for many, meet in itertools.product(_MICROBATCHES, (None, *self._problem.meeting_nodes)):
            if budget.left():
                even = min(_even_shares(self._problem), key=lambda shares: self._work_s(shares, meet))
                begun = tuple(each._replace(microbatches=many) for each in even)
                if _microbatches(begun) * LEAST_S <= self._work_s(begun, meet):
                    self._improve(begun, meet, budget)

    def _improve(self, shares: Shares, meet: str | None, budget: Budget) -> None:
        """Change shares as long as that is faster."""
        best_s, improved = self._time_s(shares, meet), True
        while improved:
            improved = False
            for other in _neighbours(shares):
                if not budget.left():
                    return
                work_s = self._work_s(other, meet)
                if not _microbatches(other) * LEAST_S <= work_s < best_s:
                    continue
                if (time_s := self._time_s(other, meet)) < best_s * _BETTER:
                    shares, best_s, improved = other, time_s, True
                    break

    def _work_s(self, shares: Shares, meet: str | None) -> float:
        state = side_by_side(self._problem, tuple(each._replace(microbatches=1) for each in shares), meet)
        self._pricer.spent += effort(state)
        return self._quick_bound.work_s(state)

    def _time_s(self, shares: Shares, meet: str | None) -> float:
        cost = self._pricer.cost(side_by_side(self._problem, shares, meet))
        return float("inf") if cost is None else cost.time_s


def side_by_side(problem: HybridProblem, shares: Shares, meet: str | None) -> SearchState:
    """The whole network on each node for its share; microbatches of all nodes in turns."""
    (source,) = problem.samples
    parts = [
        ((number + 0.5) / len(sizes), each.node, many)
        for each in shares
        for sizes in [each.sizes()]
        for number, many in enumerate(sizes)
    ]
    parts.sort(key=lambda part: part[0])
    paths = [SamplePath(source, many, ((node, problem.depth),), number) for number, (_, node, many) in enumerate(parts)]
    return SearchState(tuple(paths), meet=meet)


def _even_shares(problem: HybridProblem) -> Iterator[Shares]:
    """All shares of the batch in sixteenths."""
    (samples,) = problem.samples.values()
    nodes = list(problem.cpu_shares)
    for inner in itertools.combinations_with_replacement(range(_PARTS + 1), len(nodes) - 1):
        ends = [samples * part // _PARTS for part in (0, *inner, _PARTS)]
        pairs = zip(nodes, itertools.pairwise(ends), strict=True)
        yield tuple(NodeShare(node, b - a, 1, _GROWTHS[1]) for node, (a, b) in pairs)


def _microbatches(shares: Shares) -> int:
    return sum(min(each.microbatches, each.samples) for each in shares)


def _neighbours(shares: Shares) -> Iterator[Shares]:
    """Shares with some samples on another node, large numbers first; more or fewer microbatches; another growth."""
    for many, (a, b) in itertools.product((16, 8, 4, 2, 1), itertools.permutations(range(len(shares)), 2)):
        if shares[a].samples >= many:
            moved = list(shares)
            moved[a] = shares[a]._replace(samples=shares[a].samples - many)
            moved[b] = shares[b]._replace(samples=shares[b].samples + many)
            yield tuple(moved)
    for k, each in enumerate(shares):
        numbers = {2 * each.microbatches, each.microbatches + 1, each.microbatches - 1, each.microbatches // 2}
        others = [each._replace(microbatches=many) for many in sorted(numbers) if 1 <= many <= _MOST_MICROBATCHES]
        others += [each._replace(growth=growth) for growth in _GROWTHS if growth != each.growth]
        yield from ((*shares[:k], other, *shares[k + 1 :]) for other in others)
