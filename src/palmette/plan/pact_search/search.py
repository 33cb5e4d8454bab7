"""The cheapest way to the target that is in time: best first, guided by what each cost alone still needs.

A label is a state with the energy so far. It is worth looking at if the least time from there on is in time; labels
are taken by energy so far plus the least energy ahead, so the first that reaches the target is the cheapest. One
that is nowhere better than another of the same epoch and pair (loss, time, energy) leads nowhere better and is dropped.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palmette.plan.pact_search.moves import FORGIVEN

Least = Callable[[int, int, float], float]
"""The least of a cost from (epochs, pair, loss above the target) on."""


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
    ends: Callable[[int], bool] = lambda _: True
    """Whether a way may end in a pair."""


def cheapest(ways: Ways, epochs: int, pair: int, above: float, time_left: float) -> list[int] | None:
    """The moves of the cheapest way to the target within the time that is left; None if there is none.

    ``above`` is the loss above the target.
    """
    last = len(ways.loss) - 1
    least = ways.least_energy(epochs, pair, above)
    heap: list[tuple[float, int, int, int, float, float, float]] = [(least, 0, epochs, pair, above, 0.0, 0.0)]
    came: list[tuple[int, int]] = [(-1, -1)]
    seen: dict[tuple[int, int], list[tuple[float, float, float]]] = defaultdict(list)
    while heap:
        ahead, negative, k, p, x, t, e = heapq.heappop(heap)
        number = -negative
        if ahead == float("inf"):
            return None
        if x <= FORGIVEN and ways.ends(p):
            return _traced(came, number)
        row = min(k, last)
        losses = ways.loss[row]
        for move in ways.out[p]:
            to, x2, t2, e2 = ways.there[move], x + losses[move], t + ways.time[move], e + ways.energy[move]
            if t2 + ways.least_time(k + 1, to, x2) > time_left + FORGIVEN:
                continue
            f = e2 + ways.least_energy(k + 1, to, x2)
            if f == float("inf") or not _new(seen[min(k + 1, last), to], x2, t2, e2):
                continue
            came.append((number, move))
            heapq.heappush(heap, (f, -(len(came) - 1), k + 1, to, x2, t2, e2))
    return None


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
