"""What a state still needs on the way to the target, without a grid.

The least cost (joules or seconds) from a loss on is a staircase over the loss. A stair is kept as the loss (above the
target) up to which it holds. As a move's change of the loss does not depend on the loss, a move shifts the staircase
of the next epoch, and the best of all moves is the lower envelope of the shifted ones. Beyond a height that has room
for some moves that lift the loss, stairs are taken for endless, which keeps them a lower bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from palmette.plan.pact.actions import FORGIVEN, Floats, Moves

MOST_STAIRS = 2048
LONGEST_STAY = 1024
MOST_ROUNDS = 400
ROUNDS_IF_THIN = 40
"""Rounds after which staircases that are thinned out, and so never stand still, are taken as they are."""
_TRIFLE = 1e-12

Stairs = tuple[Floats, Floats]


class Staircases:
    """The least cost from every epoch, pair and loss to the target, as if nothing else mattered; up to ``most``.

    Very many stairs are thinned out, so that they are a lower bound, or ``attained``: so that all can be had.
    """

    def __init__(
        self, moves: Moves, cost: Floats, *, highest: float, most: float, epochs: int, attained: bool = False
    ) -> None:
        self._moves, self._losses, self._cost = moves, moves.true[:epochs], cost
        rise = len(moves.pairs) * max(0.0, min(float(self._losses.max()), highest))
        self._highest, self._most = max(highest, 0.0) + rise, most + FORGIVEN
        self._thinned = _some if attained else _merged
        self.settled = True
        """Whether nothing was left out for want of rounds."""
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
        last = len(self._losses) - 1
        layers = [self._for_ever(last, epochs - last)]
        for row in range(last - 1, -1, -1):
            layers.append(self._before(layers[-1], row))
        return [[(heights.tolist(), costs.tolist()) for heights, costs in each] for each in layers[::-1]]

    def _for_ever(self, row: int, epochs: int) -> list[Stairs]:
        """The staircases that lead into themselves by the moves of a row, up to so many epochs.

        To stay for 2, 4, 8, … epochs counts as one move here, or long stays would take as many rounds.
        """
        layer: list[Stairs] = [(np.zeros(1), np.zeros(1))] * len(self._moves.pairs)
        stays = [1 << power for power in range(1, min(epochs, LONGEST_STAY).bit_length())]
        for done in range(min(epochs, MOST_ROUNDS)):
            further = [self._envelope(layer, row, out, stays) for out in self._moves.out]
            if all(_alike(a, b) for a, b in zip(further, layer, strict=True)):
                return layer
            if done >= ROUNDS_IF_THIN and any(len(heights) == MOST_STAIRS for heights, _ in further):
                break
            layer = further
        self.settled = epochs <= done + 1
        return layer

    def _before(self, later: list[Stairs], row: int) -> list[Stairs]:
        return [self._envelope(later, row, out) for out in self._moves.out]

    def _envelope(self, later: list[Stairs], row: int, out: tuple[int, ...], stays: Sequence[int] = ()) -> Stairs:
        """The lower envelope of what the moves from a pair lead into, and the target itself."""
        heights, costs = [np.zeros(1)], [np.zeros(1)]
        for move in out:
            stay = self._moves.here[move] == self._moves.there[move]
            for times in (1, *stays) if stay else (1,):
                there, there_cost = later[self._moves.there[move]]
                risen = np.minimum(there - times * self._losses[row, move], self._highest)
                heights.append(np.where(there < self._highest, risen, self._highest))
                costs.append(there_cost + times * self._cost[move])
        height, cost = np.concatenate(heights), np.concatenate(costs)
        worth = (cost <= self._most) & (height >= 0)
        height, cost = height[worth], cost[worth]
        order = np.lexsort((-height, cost))
        height, cost = height[order], cost[order]
        higher = np.maximum.accumulate(height)
        new = np.concatenate(([True], higher[1:] > higher[:-1] + _TRIFLE))
        return self._thinned(height[new], cost[new])


def _alike(a: Stairs, b: Stairs) -> bool:
    return len(a[0]) == len(b[0]) and bool(np.allclose(a, b, rtol=0, atol=_TRIFLE))


def _merged(height: Floats, cost: Floats) -> Stairs:
    """At most so many stairs: neighbours become one that is nowhere dearer, so that they stay a lower bound."""
    if len(height) <= MOST_STAIRS:
        return height, cost
    edges = np.linspace(0, len(height), MOST_STAIRS + 1).astype(int)
    return height[edges[1:] - 1], cost[edges[:-1]]


def _some(height: Floats, cost: Floats) -> Stairs:
    """At most so many stairs: some are left out, so that what is left can be had."""
    if len(height) <= MOST_STAIRS:
        return height, cost
    kept = np.unique(np.linspace(0, len(height) - 1, MOST_STAIRS).astype(int))
    return height[kept], cost[kept]
