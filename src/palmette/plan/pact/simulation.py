"""Simulates a schedule with the true losses, in seconds and joules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby
from typing import Any

from palmette.plan.pact.actions import TOLERANCE, EpochActions, Floats
from palmette.predict.ideal_curve import IdealCurve
from palmette.spec.problem import Problem

MAX_EPOCHS = 20_000
"""Limits a training that costs nothing and never reaches the target."""


@dataclass(frozen=True)
class TrainingState:
    """How far the training is: epochs done, the pair in use, the loss, the time and the energy so far."""

    epochs: int
    pair: int
    loss: float
    time_s: float = 0.0
    energy_j: float = 0.0

    def after(self, actions: EpochActions, action: int) -> TrainingState:
        """The state after an action, by the true losses."""
        return TrainingState(
            self.epochs + 1,
            int(actions.to_pair[action]),
            max(actions.floor, self.loss + float(actions.true[actions.row(self.epochs), action])),
            self.time_s + float(actions.time_s[action]),
            self.energy_j + float(actions.energy_j[action]),
        )

    def meets(self, problem: Problem) -> bool:
        """Whether the target is reached, and by the deadline."""
        return self.loss <= problem.target_loss + TOLERANCE and self.in_time(problem)

    def in_time(self, problem: Problem) -> bool:
        """Whether the deadline is kept."""
        return self.time_s <= problem.deadline_s + TOLERANCE


def epochs_within(time_s: float, actions: EpochActions) -> int:
    """The most epochs that fit into so much time."""
    shortest_s = float(actions.time_s.min())
    if shortest_s * MAX_EPOCHS <= time_s:
        return MAX_EPOCHS
    return max(1, math.floor(time_s / shortest_s + TOLERANCE))


def initial_state(problem: Problem) -> TrainingState:
    """The state before the first epoch; its pair is the first of ``EpochActions.pairs``."""
    return TrainingState(0, 0, problem.start.loss)


def simulate(problem: Problem, actions: EpochActions, chosen: Iterable[int]) -> TrainingState:
    """The state at the end of a schedule."""
    state = initial_state(problem)
    for action in chosen:
        state = state.after(actions, action)
    return state


def energy_of_staying(problem: Problem, actions: EpochActions, losses: Floats, state: TrainingState) -> float:
    """Joules from a state to the target without any switch, by these estimates; infinite where it is too late."""
    stay = actions.stay(state.pair)
    if stay is None:
        return math.inf
    loss, many = state.loss, epochs_within(problem.deadline_s - state.time_s, actions)
    for epochs in range(1, many + 1):
        loss += float(losses[actions.row(state.epochs + epochs - 1), stay])
        if state.time_s + epochs * float(actions.time_s[stay]) > problem.deadline_s + TOLERANCE:
            break
        if loss <= problem.target_loss + TOLERANCE:
            return epochs * float(actions.energy_j[stay])
    return math.inf


def progress_of(problem: Problem, actions: EpochActions, chosen: Sequence[int]) -> dict[str, Any]:
    """The ideal curve, and the state at the end of each row of the schedule beside it."""
    start = initial_state(problem)
    unit_s = next((run.time_s for run in problem.run if run.pair == actions.pairs[start.pair]), 0.0)
    ideal = IdealCurve(
        start_loss=start.loss,
        target_loss=problem.target_loss,
        deadline_s=problem.deadline_s,
        unit_s=unit_s or problem.deadline_s,  # epochs that take no time have no unit of their own
    )
    states = list(accumulate(chosen, lambda state, action: state.after(actions, action), initial=start))[1:]
    ends = [list(same)[-1] for _, same in groupby(states, key=lambda state: state.pair)]
    return {"ideal": asdict(ideal), "progress": [ideal.state(end.time_s, end.loss) for end in ends]}


def schedule_of(actions: EpochActions, chosen: Iterable[int]) -> list[dict[str, Any]]:
    """The schedule as plan files have it: a row per run of epochs with the same model and nodes.

    A row whose model is distilled says so.
    """
    rows = []
    for pair, run in groupby(chosen, key=lambda action: actions.pairs[actions.to_pair[action]]):
        first, *others = run
        row: dict[str, Any] = {"model": pair[0], "nodes": pair[1], "epochs": 1 + len(others)}
        rows.append(row | ({"compress": "distill"} if actions.compress[first] == "distill" else {}))
    return rows
