"""The next move: feasible paths on the expanded graph (Alg. 2), and the one with the lowest score (Alg. 3).

For every first move there is one path, the cheapest that reaches the target in time by the estimates of the graph.

    score = weight · risk / opportunity        opportunity = Σ expected / Σ robust changes of the loss on the path
                                               risk = max(1, Wr / weight)

Wr is what the cheapest way takes that leads, from the vertex after the first move, by the model in use now to the
target. Where there is no such way there is nothing to undo, and risk is 1.
"""

from __future__ import annotations

import math

from palmette.plan.pact.expanded_graph import Grid
from palmette.plan.pact.paths import Path, Paths
from palmette.plan.pact.simulation import State

Vertex = tuple[int, int, int, int]
"""Epochs done, pair, steps above the target, steps of time left."""


class Chooser:
    """Chooses moves on one grid; what is worked out for one epoch serves all others."""

    def __init__(self, grid: Grid, *, factors: bool) -> None:
        self.grid, self._factors = grid, factors
        self._paths = Paths(grid)
        self._back: dict[str, Paths] = {}

    def move(self, state: State) -> int | None:
        """The move with the lowest score; None if no path reaches the target in time."""
        best, lowest = None, math.inf
        for move in sorted(self.grid.moves.out[state.pair], key=lambda move: self._at_least(state, move)):
            if not self._factors and self._at_least(state, move) >= lowest:
                continue
            score = self._score(state, move)
            if score < lowest:
                best, lowest = move, score
        return best

    def _at_least(self, state: State, move: int) -> float:
        """A lower bound of the weight of the paths that begin with a move."""
        return float(self.grid.moves.energy_j[move]) + self._paths.at_least(*self._vertex(state, move))

    def fall(self, state: State, move: int) -> float:
        """How far the loss may fall by the deadline if this is the next move; minus infinity if it takes too long."""
        epochs, pair, _, left = self._vertex(state, move)
        if left < 0:
            return -math.inf
        first = -float(self.grid.losses[self.grid.moves.row(state.epochs), move])
        return first + self.grid.loss_step * self._paths.most_steps(epochs, pair, left)

    def _score(self, state: State, move: int) -> float:
        vertex = self._vertex(state, move)
        path = self._paths.cheapest(*vertex)
        if path is None:
            return math.inf
        weight = float(self.grid.moves.energy_j[move]) + path.energy_j
        if not self._factors:
            return weight
        return max(weight, self._way_back_j(state.pair, vertex)) / self._opportunity(state, move, path)

    def _vertex(self, state: State, move: int) -> Vertex:
        """Where a move leads by the grid's estimates."""
        grid, moves = self.grid, self.grid.moves
        loss = state.loss + float(grid.losses[moves.row(state.epochs), move])
        moment = grid.moment(state.time_s + float(moves.time_s[move]))
        return state.epochs + 1, int(moves.there[move]), grid.above_target(loss), grid.deadline - moment

    def _opportunity(self, state: State, move: int, path: Path) -> float:
        """How much more the loss should fall than the robust estimates promise, as a factor from 1 on."""
        moves, row = self.grid.moves, self.grid.moves.row(state.epochs)
        robust = path.robust + float(moves.robust[row, move])
        expected = path.expected + float(moves.expected[row, move])
        return max(1.0, expected / robust) if robust < 0 else 1.0

    def _way_back_j(self, pair: int, vertex: Vertex) -> float:
        """Wr: joules of the cheapest way from a vertex by a pair's model to the target; 0 where there is none."""
        moves = self.grid.moves
        model = moves.model(pair)
        if model not in self._back:
            through = [number for number in range(len(moves.pairs)) if moves.model(number) == model]
            self._back[model] = Paths(self.grid, through, self._paths)
        path = self._back[model].cheapest(*vertex)
        return 0.0 if path is None else path.energy_j
