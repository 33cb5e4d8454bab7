"""PACT's expanded graph (Alg. 1), backwards: the least cost from each of its vertices to the target.

A vertex is an epoch, a pair of model and nodes, a loss and a time, the last two as multiples of γ_ℓ and γ_T, rounded
up. An action changes both by whole numbers of steps, whatever the vertex; so the graph repeats itself:

    loss   0 ─────── target ───────── start ──────► top
           a layer holds a column for each loss, counted from the target, and a row for each pair;
           layer k = min over actions of (energy + layer k + 1, shifted by the action's steps in epoch k + 1)

One layer is kept for every row of the losses. Beyond the last row nothing changes any more, and one layer, iterated
to its fixed point, holds for all later epochs. Time is not an axis: ``paths`` follows the cheapest path, and only
where that takes too long ``label_search`` searches for one that meets the deadline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palmette.errors import Fault, InputError
from palmette.plan.pact.actions import TOLERANCE, EpochActions, Floats, Ints
from palmette.spec.problem import Problem

MAX_CELLS = 2e7
"""Numbers that the layers of a graph may hold in all."""
_FAR = 1e15


@dataclass(frozen=True, eq=False)
class ExpandedGraph:
    """A problem's actions in whole steps of loss and time, for one kind of estimates."""

    actions: EpochActions
    losses: Floats
    loss_step: float
    time_step_s: float
    target_loss: float
    deadline_s: float
    start_loss: float

    @cached_property
    def steps(self) -> Ints:
        """Steps by which every action changes the loss in every epoch, rounded up."""
        rows = self.losses[: self._epochs_in_time()]
        return _up(rows / self.loss_step)

    @cached_property
    def time_steps(self) -> Ints:
        """Time steps of every action, rounded up."""
        return _up(self.actions.time_s / self.time_step_s)

    @cached_property
    def deadline(self) -> int:
        """The last time step."""
        return math.floor(self.deadline_s / self.time_step_s + TOLERANCE)

    def above_target(self, loss: float) -> int:
        """Steps from a loss down to the target, both rounded to the safe side."""
        target = math.floor(self.target_loss / self.loss_step + TOLERANCE)
        return math.ceil(loss / self.loss_step - TOLERANCE) - target

    def time_step(self, time_s: float) -> int:
        """The time step of a time, rounded up."""
        return math.ceil(time_s / self.time_step_s - TOLERANCE)

    @cached_property
    def top(self) -> int:
        """The highest loss that has vertices: the start's plus the worst action once for every pair."""
        return max(self.above_target(self.start_loss), 1) + self.below

    @cached_property
    def below(self) -> int:
        """How far below the target vertices are distinguished: lower ones stay at or below it whatever happens.

        An action that raises the loss by more than the whole distance to the target counts as raising it by that.
        """
        worst = max(int(self.steps.max()), math.ceil(min(float(self.actions.true.max()) / self.loss_step, _FAR)), 0)
        return len(self.actions.pairs) * min(worst, max(self.above_target(self.start_loss), 1))

    @property
    def columns(self) -> int:
        """Losses that a layer distinguishes."""
        return self.below + self.top + 1

    @property
    def cells(self) -> float:
        """Numbers that the cost-to-go of every vertex takes."""
        return float(len(self.steps)) * len(self.actions.pairs) * self.columns

    def _epochs_in_time(self) -> int:
        """The most epochs that can begin before the deadline."""
        shortest_s = float(self.actions.time_s.min())
        return max(1, math.floor(self.deadline_s / shortest_s) + 1) if shortest_s * 1e9 > self.deadline_s else 10**9


def build_graph(problem: Problem, actions: EpochActions, losses: Floats, finer: int = 1) -> ExpandedGraph:
    """The graph of a problem for these estimates, at its resolutions or ``finer`` times finer ones."""
    return ExpandedGraph(
        actions=actions,
        losses=losses,
        loss_step=problem.loss_step / finer,
        time_step_s=problem.time_step_s / finer,
        target_loss=problem.target_loss,
        deadline_s=problem.deadline_s,
        start_loss=problem.start.loss,
    )


def check_size(graph: ExpandedGraph) -> None:
    """Make sure that the graph fits in memory.

    Raises:
        InputError: the resolution of the loss is too fine.
    """
    if graph.cells > MAX_CELLS:
        coarser = graph.loss_step * graph.cells / MAX_CELLS
        expected = f"the graph would hold {graph.cells:.3g} numbers; expected at least {coarser:.3g}"
        raise InputError(Fault("loss_step", graph.loss_step, expected))


class GraphCostToGo:
    """The least of one cost from every vertex to the target.

    With ``via`` a path counts only if it visits one of those pairs; from there on ``unconstrained`` has the cost.
    """

    def __init__(
        self, graph: ExpandedGraph, cost: Floats, via: Iterable[int] = (), unconstrained: GraphCostToGo | None = None
    ) -> None:
        self.graph = graph
        self.cost, self._via, self._unconstrained = cost, list(via), unconstrained
        self._width = graph.columns
        self._steps = np.clip(graph.steps, -self._width, self._width)
        self._down, self._up = max(0, -int(self._steps.min())), max(0, int(self._steps.max()))
        self._to_pair, padded, self._action_cost = self._padded_actions()
        self._offsets = self._steps[:, padded] + self._down
        self._wide = self._padded_layer(np.full((len(graph.actions.pairs), self._width), np.inf))
        self._windows = np.lib.stride_tricks.sliding_window_view(self._wide, self._width, axis=1)
        self.layers = self._compute_layers()

    def at(self, epochs: int, pair: int, above: int) -> float:
        """The least cost from a vertex; infinite where there is no path."""
        column = max(above + self.graph.below, 0)
        return float(self._layer(epochs)[pair, column]) if column < self._width else math.inf

    def farthest(self, epochs: int, pair: int, cost: float) -> int:
        """The highest vertex, in steps above the target, from which the cost suffices."""
        return int(np.searchsorted(self._layer(epochs)[pair], cost, side="right")) - 1 - self.graph.below

    def _layer(self, epochs: int) -> Floats:
        return self.layers[min(epochs, len(self.layers) - 1)]

    def _padded_actions(self) -> tuple[Ints, Ints, Floats]:
        """For every pair the actions from it, side by side; where there are fewer, padding of infinite cost."""
        outgoing = self.graph.actions.outgoing
        width = max(1, *map(len, outgoing))
        padded = np.array([[*actions, *[0] * (width - len(actions))] for actions in outgoing])
        missing = np.array([[k >= len(actions) for k in range(width)] for actions in outgoing])
        return self.graph.actions.to_pair[padded], padded, np.where(missing, np.inf, self.cost[padded])[:, :, None]

    def _compute_layers(self) -> list[Floats]:
        last = len(self._steps) - 1
        layers = [self._fixed_point(last)]
        for row in range(last - 1, -1, -1):
            layers.append(self._previous_layer(layers[-1], row))
        return layers[::-1]

    def _fixed_point(self, row: int) -> Floats:
        """The layer that the actions of a row map to itself.

        Actions that lower the loss do so by some steps at least; so many columns at a time follow from those below
        them. Only actions that raise the loss take another sweep.
        """
        layer = self._with_terminals(np.full((len(self.graph.actions.pairs), self._width), np.inf), row)
        offsets = self._offsets[row][:, :, None]
        falls = -self._steps[row][self._steps[row] < 0]
        block = np.arange(int(falls.min()) if falls.size else self._width)
        converged = False
        while not converged:
            wide, before = self._padded_layer(layer), layer
            layer = wide[:, self._down : self._down + self._width]
            for first in range(0, self._width, len(block)):
                columns = first + block[: self._width - first]
                costs = wide[self._to_pair[:, :, None], offsets + columns]
                costs += self._action_cost
                best = np.minimum(layer[:, columns], costs.min(axis=1))
                best[self._via] = layer[self._via][:, columns]
                layer[:, columns] = best
            layer = self._with_terminals(layer.copy(), row)
            converged = np.array_equal(layer, before)
        return layer

    def _padded_layer(self, layer: Floats) -> Floats:
        """A layer padded on both sides: losses below its lowest count as that, from above it there are no paths."""
        lower = np.broadcast_to(layer[:, :1], (len(layer), self._down))
        return np.concatenate((lower, layer, np.full((len(layer), self._up), np.inf)), axis=1)

    def _previous_layer(self, later: Floats, row: int) -> Floats:
        """The layer whose actions of this row lead to a later layer."""
        self._wide[:, : self._down] = later[:, :1]
        self._wide[:, self._down : self._down + self._width] = later
        costs = self._windows[self._to_pair, self._offsets[row]]
        costs += self._action_cost
        return self._with_terminals(costs.min(axis=1), row)

    def _with_terminals(self, layer: Floats, row: int) -> Floats:
        """Set what needs no action: the target is reached, or the unconstrained path continues from here."""
        if self._unconstrained is None:
            layer[:, : self.graph.below + 1] = 0.0
        else:
            layer[self._via] = self._unconstrained.layers[row][self._via]
        return layer


def _up(ratios: Floats) -> Ints:
    return np.ceil(np.clip(ratios, -_FAR, _FAR) - TOLERANCE).astype(np.int64)
