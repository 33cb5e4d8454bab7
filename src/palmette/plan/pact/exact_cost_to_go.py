"""The least cost from a state to the target, without discretizing loss or time.

The least cost (joules or seconds) to the target is a step function of the loss. A piece is stored as the highest loss
(above the target) for which it holds. As an action's change of the loss does not depend on the loss, an action shifts
the step function of the next epoch, and the best of all actions is the lower envelope of the shifted ones. Beyond a
height that leaves room for some actions that raise the loss, pieces count as endless, which keeps them a lower bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from palmette.plan.pact.actions import TOLERANCE, EpochActions, Floats

MAX_PIECES = 2048
LONGEST_STAY = 1024
MAX_ROUNDS = 400
MAX_THINNED_ROUNDS = 40
"""Rounds after which step functions that were thinned out, and so never converge, are taken as they are."""
_EPSILON = 1e-12

StepFunction = tuple[Floats, Floats]


class ExactCostToGo:
    """The least cost from every epoch, pair and loss to the target, ignoring all other costs; at most ``max_cost``.

    Too many pieces are thinned out: to a lower bound, or, if ``attainable``, to costs that can really be reached.
    """

    def __init__(
        self,
        actions: EpochActions,
        cost: Floats,
        *,
        highest: float,
        max_cost: float,
        epochs: int,
        attainable: bool = False,
    ) -> None:
        self._actions, self._losses, self._cost = actions, actions.true[:epochs], cost
        rise = len(actions.pairs) * max(0.0, min(float(self._losses.max()), highest))
        self._highest, self._max_cost = max(highest, 0.0) + rise, max_cost + TOLERANCE
        self._thin = _drop_pieces if attainable else _merge_pieces
        self.converged = True
        """Whether the search ended before it ran out of rounds."""
        self._layers = self._compute_layers(epochs)

    def at(self, epochs: int, pair: int, above: float) -> float:
        """The least cost from here; infinite where there is no path."""
        heights, costs = self._layers[min(epochs, len(self._layers) - 1)][pair]
        piece = bisect_left(heights, min(above, self._highest) - TOLERANCE)
        return costs[piece] if piece < len(costs) else math.inf

    def max_fall(self, pair: int, cost: float) -> float:
        """The most that the loss can fall at this cost, from the start of the training in a pair."""
        heights, costs = self._layers[0][pair]
        return heights[bisect_right(costs, cost + TOLERANCE) - 1]

    def _compute_layers(self, epochs: int) -> list[list[tuple[list[float], list[float]]]]:
        last = len(self._losses) - 1
        layers = [self._fixed_point(last, epochs - last)]
        for row in range(last - 1, -1, -1):
            layers.append(self._previous_layer(layers[-1], row))
        return [[(heights.tolist(), costs.tolist()) for heights, costs in each] for each in layers[::-1]]

    def _fixed_point(self, row: int, epochs: int) -> list[StepFunction]:
        """The step functions that the actions of a row map to themselves, up to so many epochs.

        Staying for 2, 4, 8, … epochs counts as one action here; otherwise long stays would take as many rounds.
        """
        layer: list[StepFunction] = [(np.zeros(1), np.zeros(1))] * len(self._actions.pairs)
        stays = [1 << power for power in range(1, min(epochs, LONGEST_STAY).bit_length())]
        for done in range(min(epochs, MAX_ROUNDS)):
            updated = [self._envelope(layer, row, outgoing, stays) for outgoing in self._actions.outgoing]
            if all(_equal(a, b) for a, b in zip(updated, layer, strict=True)):
                return layer
            if done >= MAX_THINNED_ROUNDS and any(len(heights) == MAX_PIECES for heights, _ in updated):
                break
            layer = updated
        self.converged = epochs <= done + 1
        return layer

    def _previous_layer(self, later: list[StepFunction], row: int) -> list[StepFunction]:
        return [self._envelope(later, row, outgoing) for outgoing in self._actions.outgoing]

    def _envelope(
        self, later: list[StepFunction], row: int, outgoing: tuple[int, ...], stays: Sequence[int] = ()
    ) -> StepFunction:
        """The lower envelope over the actions from a pair, and the target itself."""
        heights, costs = [np.zeros(1)], [np.zeros(1)]
        for action in outgoing:
            stay = self._actions.from_pair[action] == self._actions.to_pair[action]
            for times in (1, *stays) if stay else (1,):
                there, there_cost = later[self._actions.to_pair[action]]
                risen = np.minimum(there - times * self._losses[row, action], self._highest)
                heights.append(np.where(there < self._highest, risen, self._highest))
                costs.append(there_cost + times * self._cost[action])
        height, cost = np.concatenate(heights), np.concatenate(costs)
        useful = (cost <= self._max_cost) & (height >= 0)
        height, cost = height[useful], cost[useful]
        order = np.lexsort((-height, cost))
        height, cost = height[order], cost[order]
        higher = np.maximum.accumulate(height)
        new = np.concatenate(([True], higher[1:] > higher[:-1] + _EPSILON))
        return self._thin(height[new], cost[new])


def _equal(a: StepFunction, b: StepFunction) -> bool:
    return len(a[0]) == len(b[0]) and bool(np.allclose(a, b, rtol=0, atol=_EPSILON))


def _merge_pieces(height: Floats, cost: Floats) -> StepFunction:
    """At most ``MAX_PIECES``: neighbours become one that nowhere costs more, so that they stay a lower bound."""
    if len(height) <= MAX_PIECES:
        return height, cost
    edges = np.linspace(0, len(height), MAX_PIECES + 1).astype(int)
    return height[edges[1:] - 1], cost[edges[:-1]]


def _drop_pieces(height: Floats, cost: Floats) -> StepFunction:
    """At most ``MAX_PIECES``: some are dropped, so that the remaining costs can be reached."""
    if len(height) <= MAX_PIECES:
        return height, cost
    kept = np.unique(np.linspace(0, len(height) - 1, MAX_PIECES).astype(int))
    return height[kept], cost[kept]
