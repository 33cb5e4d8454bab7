"""What a state still needs on the way to the target, without a grid.

The least cost (joules or seconds) from a loss on is a staircase over the loss. A stair is kept as the loss (above the
target) up to which it holds. As a move's change of the loss does not depend on the loss, a move shifts the staircase
of the next epoch, and the best of all moves is the lower envelope of the shifted ones. Beyond a height that has room
for some moves that lift the loss, stairs are taken for endless, which keeps them a lower bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np

from palmette.plan.pact_search.moves import FORGIVEN, Floats, Moves

MOST_STAIRS = 4096
"""Stairs of a staircase; beyond, neighbours are merged to the cheaper side, which keeps it a lower bound."""

Stairs = tuple[Floats, Floats]


class Staircases:
    """The least cost from every epoch, pair and loss to the target, as if nothing else mattered; up to ``most``."""

    def __init__(self, moves: Moves, cost: Floats, *, highest: float, most: float, epochs: int):
        self._moves, self._losses, self._cost = moves, moves.true[:epochs], cost
        rise = len(moves.pairs) * max(0.0, min(float(self._losses.max()), highest))
        self._highest, self._most = max(highest, 0.0) + rise, most + FORGIVEN
        self._layers = self._worked_out(epochs)

    def at(self, epochs: int, pair: int, above: float) -> float:
        """The least cost from here; infinite where there is no way."""
        heights, costs = self._layers[min(epochs, len(self._layers) - 1)][pair]
        stair = bisect_left(heights, min(above, self._highest) - FORGIVEN)
        return costs[stair] if stair < len(costs) else math.inf

    def fall(self, pair: int, cost: float) -> float:
        """The most that the loss can fall, from the start of the training in a pair, at this cost."""
        heights, costs = self._layers[0][pair]
        return heights[bisect_right(costs, cost + FORGIVEN) - 1]

    def _worked_out(self, epochs: int) -> list[list[tuple[list[float], list[float]]]]:
        flat: Stairs = (np.zeros(1), np.zeros(1))
        last = len(self._losses) - 1
        layer = [flat] * len(self._moves.pairs)
        for _ in range(epochs - last):
            further = self._before(layer, last)
            if all(np.array_equal(a[0], b[0]) for a, b in zip(further, layer, strict=True)):
                break
            layer = further
        layers = [layer]
        for row in range(last - 1, -1, -1):
            layer = self._before(layer, row)
            layers.append(layer)
        return [[(heights.tolist(), costs.tolist()) for heights, costs in each] for each in layers[::-1]]

    def _before(self, later: list[Stairs], row: int) -> list[Stairs]:
        return [self._envelope(later, row, out) for out in self._moves.out]

    def _envelope(self, later: list[Stairs], row: int, out: tuple[int, ...]) -> Stairs:
        heights, costs = [np.zeros(1)], [np.zeros(1)]
        for move in out:
            there = later[self._moves.there[move]]
            risen = there[0] - self._losses[row, move]
            heights.append(np.where(there[0] < self._highest, np.minimum(risen, self._highest), self._highest))
            costs.append(there[1] + self._cost[move])
        height, cost = np.concatenate(heights), np.concatenate(costs)
        order = np.lexsort((-height, cost))
        height, cost = height[order], cost[order]
        higher = np.maximum.accumulate(height)
        new = np.concatenate(([True], higher[1:] > higher[:-1])) & (height >= 0) & (cost <= self._most)
        return _thinned(height[new], cost[new])


def _thinned(height: Floats, cost: Floats) -> Stairs:
    if len(height) <= MOST_STAIRS:
        return height, cost
    edges = np.linspace(0, len(height), MOST_STAIRS + 1).astype(int)
    return height[edges[1:] - 1], cost[edges[:-1]]
