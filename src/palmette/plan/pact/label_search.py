"""The cheapest path that meets target and deadline: label setting, best first (A*).

A label is a state with the energy so far. It is kept only if the least time to the target meets the deadline; labels
are taken by energy so far plus the least energy to the target, so the first that reaches the target is the cheapest.
A label that another of the same epoch and pair dominates (loss, time, energy) is dropped.

Where time is short, the least energy to the target is far below what being in time costs. A price on time gives a
better lower bound (a Lagrangian relaxation): the least of (energy + price · time) to the target, less the price of
the time left. It holds for any price, and a good price is found by trying a few.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from palmette.plan.pact.actions import TOLERANCE

LowerBound = Callable[[int, int, float], float]
"""A lower bound of the cost to the target from (epochs, pair, loss above the target)."""

Vertex = tuple[int, int, float]
"""Epochs done, pair, loss above the target."""

_TRIES = 4


@dataclass(frozen=True)
class SearchGraph:
    """Actions as plain lists (the change of the loss by row), lower bounds to the target, and where paths may end."""

    loss: Sequence[Sequence[float]]
    time: Sequence[float]
    energy: Sequence[float]
    to_pair: Sequence[int]
    outgoing: Sequence[Sequence[int]]
    least_energy: LowerBound
    least_time: LowerBound
    least_priced: LowerBound
    price: float
    """Joules that a unit of time counts for in ``least_priced``, the least of energy and priced time together."""
    may_end: Callable[[int], bool] = lambda _: True
    """Whether a path may end in a pair."""

    def lower_bound(self, epochs: int, pair: int, above: float, time_left: float) -> float:
        """A lower bound of the energy from here to the target."""
        priced = self.least_priced(epochs, pair, above) - self.price * time_left
        return max(self.least_energy(epochs, pair, above), priced)


def best_price(bound: Callable[[float], float], guess: float) -> float:
    """A price of time that about maximises a lower bound, which is concave in the price."""
    known = {price: bound(price) for price in (guess / 4, guess, guess * 4)}
    for _ in range(_TRIES):
        prices = sorted(known)
        at = prices.index(max(prices, key=known.__getitem__))
        if at == 0:
            further = [prices[0] / 4]
        elif at == len(prices) - 1:
            further = [prices[-1] * 4]
        else:
            further = [(prices[at - 1] * prices[at]) ** 0.5, (prices[at] * prices[at + 1]) ** 0.5]
        known |= {price: bound(price) for price in further}
    return max(known, key=known.__getitem__)


@dataclass
class SearchBudget:
    """How long to search: for the optimum, up to ``max_labels`` labels.

    If that is not enough, for a path that costs at most 0.2% more, then 1%, and so on; what was not enough once is not
    tried again.
    """

    max_labels: int = 2000
    slacks: list[float] = field(default_factory=lambda: [0.0, 0.002, 0.01, 0.05, 0.25])


def cheapest_path(graph: SearchGraph, vertex: Vertex, time_left: float, budget: SearchBudget) -> list[int] | None:
    """The actions of the cheapest path from a vertex to the target within the time left; None if there is none."""
    start = _Label(0.0, 0, *vertex, 0.0, 0.0)
    while len(budget.slacks) > 1:
        try:
            return _best_first(graph, start, time_left, budget.slacks[0], budget.max_labels)
        except _TooManyLabelsError:
            budget.slacks.pop(0)
    return _best_first(graph, start, time_left, budget.slacks[0], 10**9)


class _Label(NamedTuple):
    """A state: the estimated energy of a path through it, its number (negative), and the state itself."""

    estimate: float
    number: int
    epochs: int
    pair: int
    above: float
    time: float
    energy: float


class _TooManyLabelsError(Exception):
    """The search has used up its labels."""


def _best_first(graph: SearchGraph, start: _Label, time_left: float, slack: float, max_labels: int) -> list[int] | None:
    last, inflation = len(graph.loss) - 1, 1 + slack
    heap, parents = [start], [(-1, -1)]
    seen: dict[tuple[int, int], list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(max_labels):
        if not heap:
            return None
        _, number, k, p, x, t, e = heapq.heappop(heap)
        if x <= TOLERANCE and graph.may_end(p):
            return _backtrack(parents, -number)
        losses = graph.loss[min(k, last)]
        for action in graph.outgoing[p]:
            to, x2, t2, e2 = graph.to_pair[action], x + losses[action], t + graph.time[action], e + graph.energy[action]
            if t2 + graph.least_time(k + 1, to, x2) > time_left + TOLERANCE:
                continue
            bound = graph.lower_bound(k + 1, to, x2, time_left - t2)
            if bound < math.inf and _keep_if_undominated(seen[min(k + 1, last), to], x2, t2, e2):
                parents.append((-number, action))
                heapq.heappush(heap, _Label(e2 + inflation * bound, 1 - len(parents), k + 1, to, x2, t2, e2))
    raise _TooManyLabelsError


def _keep_if_undominated(labels: list[tuple[float, float, float]], x: float, t: float, e: float) -> bool:
    """Whether no label is as good in everything; if so it is added, and those that it dominates are removed."""
    for x2, t2, e2 in labels:
        if x2 <= x and t2 <= t and e2 <= e:
            return False
    labels[:] = [one for one in labels if not (x <= one[0] and t <= one[1] and e <= one[2])]
    labels.append((x, t, e))
    return True


def _backtrack(parents: list[tuple[int, int]], number: int) -> list[int]:
    path = []
    while number > 0:
        number, action = parents[number]
        path.append(action)
    return path[::-1]
