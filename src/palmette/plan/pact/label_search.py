"""The cheapest way to the target that is in time: best first, guided by what each cost alone still needs.

A label is a state with the energy so far. It is worth looking at if the least time from there on is in time; labels
are taken by energy so far plus the least energy ahead, so the first that reaches the target is the cheapest. One
that is nowhere better than another of the same epoch and pair (loss, time, energy) leads nowhere better and is dropped.

Where time is short, the least energy ahead is far below what has to be spent on being quick. A price on time tells
more: the least of (energy + price · time) ahead, less the price of the time that is left, is a lower bound too
(Lagrange's), for any price, and the best price is found by trying a few.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from palmette.plan.pact.actions import FORGIVEN

Least = Callable[[int, int, float], float]
"""The least of a cost from (epochs, pair, loss above the target) on."""

Vertex = tuple[int, int, float]
"""Epochs done, pair, loss above the target."""

_TRIES = 4


@dataclass(frozen=True)
class Ways:
    """Moves as plain numbers (the change of the loss by row), what is ahead in energy and in time, where a way ends."""

    loss: Sequence[Sequence[float]]
    time: Sequence[float]
    energy: Sequence[float]
    there: Sequence[int]
    out: Sequence[Sequence[int]]
    least_energy: Least
    least_time: Least
    least_priced: Least
    price: float
    """Joules that a unit of time counts for in ``least_priced``, the least of energy and priced time together."""
    ends: Callable[[int], bool] = lambda _: True
    """Whether a way may end in a pair."""

    def ahead(self, epochs: int, pair: int, above: float, time_left: float) -> float:
        """A lower bound of the energy from here on."""
        priced = self.least_priced(epochs, pair, above) - self.price * time_left
        return max(self.least_energy(epochs, pair, above), priced)


def best_price(bound: Callable[[float], float], guess: float) -> float:
    """A price of time at which a lower bound, concave in the price, is about as high as it gets."""
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
class Effort:
    """How hard to look: for the very cheapest way among the first ``most`` labels.

    If that is not enough, for one that costs at most 0.2% more, then 1%, and so on; what has not been enough once is
    not tried again.
    """

    most: int = 2000
    slacks: list[float] = field(default_factory=lambda: [0.0, 0.002, 0.01, 0.05, 0.25])


def cheapest(ways: Ways, vertex: Vertex, time_left: float, effort: Effort) -> list[int] | None:
    """The moves of the cheapest way from a vertex to the target within the time that is left; None if there is none."""
    start = _Label(0.0, 0, *vertex, 0.0, 0.0)
    while len(effort.slacks) > 1:
        try:
            return _best_first(ways, start, time_left, effort.slacks[0], effort.most)
        except _TooManyLabelsError:
            effort.slacks.pop(0)
    return _best_first(ways, start, time_left, effort.slacks[0], 10**9)


class _Label(NamedTuple):
    """A state on the way: what the way through it should cost, its number (negative), and the state itself."""

    whole: float
    number: int
    epochs: int
    pair: int
    above: float
    time: float
    energy: float


class _TooManyLabelsError(Exception):
    """The search has looked at as many labels as it may."""


def _best_first(ways: Ways, start: _Label, time_left: float, slack: float, most: int) -> list[int] | None:
    last, dearer = len(ways.loss) - 1, 1 + slack
    heap, came = [start], [(-1, -1)]
    seen: dict[tuple[int, int], list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(most):
        if not heap:
            return None
        _, number, k, p, x, t, e = heapq.heappop(heap)
        if x <= FORGIVEN and ways.ends(p):
            return _traced(came, -number)
        losses = ways.loss[min(k, last)]
        for move in ways.out[p]:
            to, x2, t2, e2 = ways.there[move], x + losses[move], t + ways.time[move], e + ways.energy[move]
            if t2 + ways.least_time(k + 1, to, x2) > time_left + FORGIVEN:
                continue
            ahead = ways.ahead(k + 1, to, x2, time_left - t2)
            if ahead < math.inf and _new(seen[min(k + 1, last), to], x2, t2, e2):
                came.append((-number, move))
                heapq.heappush(heap, _Label(e2 + dearer * ahead, 1 - len(came), k + 1, to, x2, t2, e2))
    raise _TooManyLabelsError


def _new(labels: list[tuple[float, float, float]], x: float, t: float, e: float) -> bool:
    """Whether no label is as good in everything; if so it is kept, and those that it beats are not."""
    for x2, t2, e2 in labels:
        if x2 <= x and t2 <= t and e2 <= e:
            return False
    labels[:] = [one for one in labels if not (x <= one[0] and t <= one[1] and e <= one[2])]
    labels.append((x, t, e))
    return True


def _traced(came: list[tuple[int, int]], number: int) -> list[int]:
    made = []
    while number > 0:
        number, move = came[number]
        made.append(move)
    return made[::-1]
