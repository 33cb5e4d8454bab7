"""PACT's expanded graph (Alg. 1), backwards: what each of its vertices still needs on the way to the target.

A vertex is an epoch, a pair of model and nodes, a loss and a time, the last two as multiples of γ_ℓ and γ_T, rounded
up. From a multiple, a move leads a whole number of steps on, whatever the vertex; so the graph repeats itself:

    loss   0 ─────── target ───────── start ──────► top
           a layer holds a column for each loss, counted from the target, and a row for each pair;
           layer k = min over moves of (energy + layer k + 1, shifted by the move's steps in epoch k + 1)

One layer is kept for every row of the losses. Beyond the last row nothing changes any more, and one layer, iterated
until it stands still, holds for all epochs to come. Time is not an axis: ``paths`` follows the cheapest way, and only
where that takes too long ``search`` looks for one that is in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palmette.errors import Fault, InputError
from palmette.plan.pact.actions import FORGIVEN, Floats, Ints, Moves
from palmette.spec.problem import Problem

MOST_CELLS = 2e7
"""Numbers that the layers of a graph may hold."""
_FAR = 1e15


@dataclass(frozen=True, eq=False)
class Grid:
    """A problem's moves in whole steps of loss and time, by one kind of estimates."""

    moves: Moves
    losses: Floats
    loss_step: float
    time_step_s: float
    target_loss: float
    deadline_s: float
    start_loss: float

    @cached_property
    def steps(self) -> Ints:
        """Steps of the loss of every move in every epoch, rounded up."""
        rows = self.losses[: self._epochs_in_time()]
        return _up(rows / self.loss_step)

    @cached_property
    def time_steps(self) -> Ints:
        """Steps of time of every move, rounded up."""
        return _up(self.moves.time_s / self.time_step_s)

    @cached_property
    def deadline(self) -> int:
        """The last step of time."""
        return math.floor(self.deadline_s / self.time_step_s + FORGIVEN)

    def above_target(self, loss: float) -> int:
        """Steps from a loss down to the target, both rounded against us."""
        target = math.floor(self.target_loss / self.loss_step + FORGIVEN)
        return math.ceil(loss / self.loss_step - FORGIVEN) - target

    def moment(self, time_s: float) -> int:
        """The step of time that a moment falls into, rounded up."""
        return math.ceil(time_s / self.time_step_s - FORGIVEN)

    @cached_property
    def top(self) -> int:
        """The highest loss that has vertices: the start's, and as many of the worst moves as there are pairs."""
        return max(self.above_target(self.start_loss), 1) + self.below

    @cached_property
    def below(self) -> int:
        """How far below the target vertices differ: from there every way back ends at the target or lower.

        A move that lifts the loss by more than the whole way to the target counts as if it did by that.
        """
        worst = max(int(self.steps.max()), math.ceil(min(float(self.moves.true.max()) / self.loss_step, _FAR)), 0)
        return len(self.moves.pairs) * min(worst, max(self.above_target(self.start_loss), 1))

    @property
    def columns(self) -> int:
        """Losses that a layer tells apart."""
        return self.below + self.top + 1

    @property
    def cells(self) -> float:
        """Numbers that hold what is ahead of every vertex."""
        return float(len(self.steps)) * len(self.moves.pairs) * self.columns

    def _epochs_in_time(self) -> int:
        """Epochs that can begin before the deadline, at most."""
        shortest_s = float(self.moves.time_s.min())
        return max(1, math.floor(self.deadline_s / shortest_s) + 1) if shortest_s * 1e9 > self.deadline_s else 10**9


def grid_of(problem: Problem, moves: Moves, losses: Floats, finer: int = 1) -> Grid:
    """The grid of a problem by these estimates, at its resolutions or ``finer`` times finer ones."""
    return Grid(
        moves=moves,
        losses=losses,
        loss_step=problem.loss_step / finer,
        time_step_s=problem.time_step_s / finer,
        target_loss=problem.target_loss,
        deadline_s=problem.deadline_s,
        start_loss=problem.start.loss,
    )


def check_size(grid: Grid) -> None:
    """Make sure that the graph can be held.

    Raises:
        InputError: the resolution of the loss is too fine.
    """
    if grid.cells > MOST_CELLS:
        coarser = grid.loss_step * grid.cells / MOST_CELLS
        expected = f"the graph would hold {grid.cells:.3g} numbers; expected at least {coarser:.3g}"
        raise InputError(Fault("loss_step", grid.loss_step, expected))


class Ahead:
    """The least of one cost from every vertex to the target.

    With ``through`` a way counts only if it comes by one of those pairs; from there on it is ``plain``'s way.
    """

    def __init__(self, grid: Grid, cost: Floats, through: Iterable[int] = (), plain: Ahead | None = None) -> None:
        self.grid = grid
        self.cost, self._through, self._plain = cost, list(through), plain
        self._width = grid.columns
        self._steps = np.clip(grid.steps, -self._width, self._width)
        self._down, self._up = max(0, -int(self._steps.min())), max(0, int(self._steps.max()))
        self._there, arc, self._own = self._padded()
        self._leads = self._steps[:, arc] + self._down
        self._wide = self._widened(np.full((len(grid.moves.pairs), self._width), np.inf))
        self._windows = np.lib.stride_tricks.sliding_window_view(self._wide, self._width, axis=1)
        self.layers = self._worked_out()

    def at(self, epochs: int, pair: int, above: int) -> float:
        """The least cost from a vertex; infinite where there is no way."""
        column = max(above + self.grid.below, 0)
        return float(self._layer(epochs)[pair, column]) if column < self._width else math.inf

    def farthest(self, epochs: int, pair: int, cost: float) -> int:
        """The highest vertex, in steps above the target, from where the cost suffices."""
        return int(np.searchsorted(self._layer(epochs)[pair], cost, side="right")) - 1 - self.grid.below

    def _layer(self, epochs: int) -> Floats:
        return self.layers[min(epochs, len(self.layers) - 1)]

    def _padded(self) -> tuple[Ints, Ints, Floats]:
        """For every pair the moves from it, side by side; where there are fewer, some that cost too much."""
        out = self.grid.moves.out
        many = max(1, *map(len, out))
        arc = np.array([[*moves, *[0] * (many - len(moves))] for moves in out])
        missing = np.array([[k >= len(moves) for k in range(many)] for moves in out])
        return self.grid.moves.there[arc], arc, np.where(missing, np.inf, self.cost[arc])[:, :, None]

    def _worked_out(self) -> list[Floats]:
        last = len(self._steps) - 1
        layers = [self._for_ever(last)]
        for row in range(last - 1, -1, -1):
            layers.append(self._before(layers[-1], row))
        return layers[::-1]

    def _for_ever(self, row: int) -> Floats:
        """The layer that leads into itself by the moves of a row.

        Moves that lower the loss do so by some steps at least; so many columns at a time are settled by those below
        them. Only moves that lift the loss take another sweep.
        """
        layer = self._ends(np.full((len(self.grid.moves.pairs), self._width), np.inf), row)
        leads = self._leads[row][:, :, None]
        falls = -self._steps[row][self._steps[row] < 0]
        block = np.arange(int(falls.min()) if falls.size else self._width)
        settled = False
        while not settled:
            wide, before = self._widened(layer), layer
            layer = wide[:, self._down : self._down + self._width]
            for first in range(0, self._width, len(block)):
                columns = first + block[: self._width - first]
                costs = wide[self._there[:, :, None], leads + columns]
                costs += self._own
                best = np.minimum(layer[:, columns], costs.min(axis=1))
                best[self._through] = layer[self._through][:, columns]
                layer[:, columns] = best
            layer = self._ends(layer.copy(), row)
            settled = np.array_equal(layer, before)
        return layer

    def _widened(self, layer: Floats) -> Floats:
        """A layer with room on both sides: losses below its lowest count as that, there are no ways above it."""
        lower = np.broadcast_to(layer[:, :1], (len(layer), self._down))
        return np.concatenate((lower, layer, np.full((len(layer), self._up), np.inf)), axis=1)

    def _before(self, later: Floats, row: int) -> Floats:
        """The layer whose moves of this row lead into a later layer."""
        self._wide[:, : self._down] = later[:, :1]
        self._wide[:, self._down : self._down + self._width] = later
        costs = self._windows[self._there, self._leads[row]]
        costs += self._own
        return self._ends(costs.min(axis=1), row)

    def _ends(self, layer: Floats, row: int) -> Floats:
        """Put in what needs no move: the target is reached, or the plain way goes on from here."""
        if self._plain is None:
            layer[:, : self.grid.below + 1] = 0.0
        else:
            layer[self._through] = self._plain.layers[row][self._through]
        return layer


def _up(ratios: Floats) -> Ints:
    return np.ceil(np.clip(ratios, -_FAR, _FAR) - FORGIVEN).astype(np.int64)
