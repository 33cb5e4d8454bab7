"""PACT epoch by epoch: plan from the state that was really reached, make the first move, look again.

Where no path reaches the target by the robust estimates, the training does not end: it goes on by the first of these
that knows a path, from the most careful on, and if none does, by what should bring the loss lowest by the deadline.

    1  robust estimates at the problem's resolutions, with the factors of risk and opportunity (Algs. 1 to 3)
    2  robust estimates at finer resolutions: rounding up alone may stand in the way
    3  halfway between the robust and the expected estimates
    4  the expected estimates
"""

from __future__ import annotations

from collections.abc import Iterator

from palmette.plan.pact.action_selection import Chooser
from palmette.plan.pact.actions import Moves
from palmette.plan.pact.expanded_graph import Grid, check_size, grid_of
from palmette.plan.pact.simulation import MOST_EPOCHS, State, start_of
from palmette.spec.problem import Problem

FINER = 16
TRUSTS = (0.0, 0.5, 1.0)
_FINE_CELLS = 2e7


class Planner:
    """Decides moves for a problem."""

    def __init__(self, problem: Problem, moves: Moves, *, factors: bool = True) -> None:
        self.problem, self.moves = problem, moves
        grid = grid_of(problem, moves, moves.robust)
        check_size(grid)
        self._choosers = [Chooser(grid, factors=factors)]

    def move(self, state: State) -> int | None:
        """The move for a state; None where nothing more is to be gained by the deadline."""
        for chooser in self._ladder():
            move = chooser.move(state)
            if move is not None:
                return move
        return self._lowest(state)

    def _ladder(self) -> Iterator[Chooser]:
        """The choosers, from the most careful on; made when they are first needed."""
        for number in range(1 + len(TRUSTS)):
            if number == len(self._choosers):
                self._choosers.append(Chooser(self._fine(TRUSTS[number - 1]), factors=False))
            yield self._choosers[number]

    def _fine(self, trust: float) -> Grid:
        """A finer grid, as far as it can be held."""
        finer = FINER
        losses = self.moves.blend(trust)
        while finer > 1 and grid_of(self.problem, self.moves, losses, finer).cells > _FINE_CELLS:
            finer //= 2
        return grid_of(self.problem, self.moves, losses, finer)

    def _lowest(self, state: State) -> int | None:
        """The move that should bring the loss lowest by the deadline, if lower than it is."""
        chooser = self._choosers[-1]
        falls = {move: chooser.fall(state, move) for move in self.moves.out[state.pair]}
        best = max(falls, key=falls.__getitem__, default=None)
        return None if best is None or falls[best] <= 0 else best


def decided(problem: Problem, moves: Moves, *, factors: bool = True) -> list[int]:
    """The moves of a training that is planned again before every epoch."""
    planner = Planner(problem, moves, factors=factors)
    state = start_of(problem)
    made: list[int] = []
    while not state.meets(problem) and len(made) < MOST_EPOCHS:
        move = planner.move(state)
        if move is None:
            break
        made.append(move)
        state = state.after(moves, move)
    return made
