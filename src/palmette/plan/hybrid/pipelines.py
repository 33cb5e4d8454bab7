"""Pipelines of many small microbatches in turns: far from what moves reach from a tree of few.

Outputs that are sent at once share a link fairly, so that all of them arrive late; in turns (``order: 1f1b``) a node
sends the next one when an earlier one has come back. That leaves links idle where a microbatch is under way for longer
than its node's turns. So every other microbatch is cut a layer later: these are other instances with turns of their
own, and twice as many are under way:

    phone 1–4, server 5–28, cloud 29–34     F F F B F B F B …
    phone 1–5, server 6–29, cloud 30–34     F F F B F B F B …

Chains over few nodes are ranked by the work of their nodes and links; the best are played and their cuts moved, in as
many microbatches as pay, and as a run keeps up with: messages take some time that the clock does not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from palmette.plan.hybrid.paths import Run, SamplePath, SearchState
from palmette.plan.hybrid.pricing import Budget, Objective, Pricer
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.quick_bound import QuickBound, effort

_MOST_NODES, _MOST_RUNS = 4, 3
_CHAINS, _REFINED = 12, 2  # chains that are played, and those of them whose cuts are moved
_MICROBATCHES = (16, 32, 64, 128)
LEAST_S = 5e-3
"""Seconds that a microbatch takes at least on the busiest node or link: messages take a millisecond of their own."""
_STEPS = (1, -1, 2, -2, 4, -4)


class PipelineSearch:
    """Looks for the pipelines with the least time; the pricer knows what was found."""

    def __init__(self, pricer: Pricer, quick_bound: QuickBound) -> None:
        self._pricer, self._quick_bound, self._problem = pricer, quick_bound, pricer.problem
        self._objective = Objective({"time": 1.0})

    def run(self, budget: Budget) -> None:
        """Price pipelines as far as a budget allows; none where nodes or sources are many."""
        if len(self._problem.cpu_shares) > _MOST_NODES or len(self._problem.samples) > 1:
            return
        chains = sorted(_chains(self._problem), key=self._work_s)[:_CHAINS]
        played = [
            (self._time_s(chain, many), many, chain)
            for chain, many in itertools.product(chains, _MICROBATCHES)
            if budget.left() and self._work_s(chain) >= many * LEAST_S
        ]
        for _, many, chain in sorted(played)[:_REFINED]:
            self._with_better_cuts(chain, many, budget)

    def _work_s(self, chain: tuple[Run, ...]) -> float:
        """Seconds of the busiest node or link, if all samples take a chain."""
        state = pipeline(self._problem, chain, 1)
        self._pricer.spent += effort(state)
        return self._quick_bound.work_s(state)

    def _time_s(self, chain: tuple[Run, ...], microbatches: int) -> float:
        cost = self._pricer.cost(pipeline(self._problem, chain, microbatches))
        return float("inf") if cost is None else cost.time_s

    def _with_better_cuts(self, chain: tuple[Run, ...], microbatches: int, budget: Budget) -> tuple[Run, ...]:
        """The chain with its cuts moved as long as that is faster."""
        best_s, improved = self._time_s(chain, microbatches), True
        while improved:
            improved = False
            for other in _moved_cuts(chain):
                if not budget.left():
                    return chain
                if self._work_s(other) < best_s and (time_s := self._time_s(other, microbatches)) < best_s:
                    chain, best_s, improved = other, time_s, True
                    break
        return chain


def pipeline(problem: HybridProblem, chain: tuple[Run, ...], microbatches: int) -> SearchState:
    """The samples of the one source in equal microbatches in turns along a chain, every other one a layer later."""
    ((source, samples),) = problem.samples.items()
    many = min(microbatches, samples)
    ways = (chain, tuple((node, min(last + 1, problem.depth)) for node, last in chain))
    ends = [samples * number // many for number in range(many + 1)]
    paths = [
        SamplePath(source, b - a, ways[number % 2], number) for number, (a, b) in enumerate(itertools.pairwise(ends))
    ]
    return SearchState(tuple(paths), order="1f1b" if many > 1 else "fifo")


def _chains(problem: HybridProblem) -> Iterator[tuple[Run, ...]]:
    """All chains of two or three nodes, with a layer to spare at the end."""
    (source,) = problem.samples
    for many in range(2, _MOST_RUNS + 1):
        for nodes in itertools.permutations(problem.cpu_shares, many):
            for cuts in itertools.combinations(range(1, problem.depth - 1), many - 1):
                chain = tuple(zip(nodes, (*cuts, problem.depth), strict=True))
                if problem.keeps_private(SamplePath(source, 1, chain)):
                    yield chain


def _moved_cuts(chain: tuple[Run, ...]) -> Iterator[tuple[Run, ...]]:
    """The chain with one cut moved."""
    for k, step in itertools.product(range(len(chain) - 1), _STEPS):
        before, cut, after = chain[k - 1][1] if k else 0, chain[k][1] + step, chain[k + 1][1]
        if before < cut < after - (k + 2 == len(chain)):
            yield (*chain[:k], (chain[k][0], cut), *chain[k + 1 :])
