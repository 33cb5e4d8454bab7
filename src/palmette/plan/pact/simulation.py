"""A schedule as it is played: with the losses that really happen, in real seconds and joules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from palmette.plan.pact.actions import FORGIVEN, Moves
from palmette.spec.problem import Problem

MOST_EPOCHS = 20_000
"""Where a training that costs nothing and leads nowhere ends."""


@dataclass(frozen=True)
class State:
    """How far the training is: epochs done, the pair in use, the loss, the time and the energy so far."""

    epochs: int
    pair: int
    loss: float
    time_s: float = 0.0
    energy_j: float = 0.0

    def after(self, moves: Moves, move: int) -> State:
        """The state after a move, by what really happens."""
        return State(
            self.epochs + 1,
            int(moves.there[move]),
            self.loss + float(moves.true[moves.row(self.epochs), move]),
            self.time_s + float(moves.time_s[move]),
            self.energy_j + float(moves.energy_j[move]),
        )

    def meets(self, problem: Problem) -> bool:
        """Whether the target is reached, and by the deadline."""
        return self.loss <= problem.target_loss + FORGIVEN and self.in_time(problem)

    def in_time(self, problem: Problem) -> bool:
        """Whether the deadline is kept."""
        return self.time_s <= problem.deadline_s + FORGIVEN


def epochs_within(time_s: float, moves: Moves) -> int:
    """Epochs that fit into so much time, at most."""
    shortest_s = float(moves.time_s.min())
    if shortest_s * MOST_EPOCHS <= time_s:
        return MOST_EPOCHS
    return max(1, math.floor(time_s / shortest_s + FORGIVEN))


def start_of(problem: Problem) -> State:
    """The state before the first epoch; its pair is the first of the moves'."""
    return State(0, 0, problem.start.loss)


def played(problem: Problem, moves: Moves, chosen: Iterable[int]) -> State:
    """The state at the end of a schedule."""
    state = start_of(problem)
    for move in chosen:
        state = state.after(moves, move)
    return state


def schedule(moves: Moves, chosen: Iterable[int]) -> list[dict[str, Any]]:
    """The schedule as files hold it: stretches of epochs with the same model and nodes."""
    pairs = [moves.pairs[moves.there[move]] for move in chosen]
    return [{"model": pair[0], "nodes": pair[1], "epochs": len(list(run))} for pair, run in groupby(pairs)]
