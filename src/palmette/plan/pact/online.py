"""PACT epoch by epoch: plan from the state that was really reached, take the first action, plan again.

Where no path reaches the target by the robust estimates, training continues by the first of these that finds a path,
the most cautious first; if none does, by the action that should bring the loss lowest by the deadline.

    1  robust estimates at the problem's resolutions, weighing risk and opportunity (Algs. 1 to 3)
    2  robust estimates at finer resolutions: rounding up alone may hide a path
    3  estimates of epochs halfway between the robust and the expected ones, those of switches robust
    4  the expected estimates of epochs, those of switches robust
    5  the expected estimates
"""

from __future__ import annotations

from collections.abc import Iterator

from palmette.plan.pact.action_selection import ActionSelector
from palmette.plan.pact.actions import EpochActions, Floats
from palmette.plan.pact.expanded_graph import ExpandedGraph, build_graph, check_size
from palmette.plan.pact.simulation import MAX_EPOCHS, TrainingState, initial_state
from palmette.spec.problem import Problem

FINER = 16
EXPECTED_WEIGHTS = (0.0, 0.5, 1.0)


def estimates_by_caution(actions: EpochActions) -> list[Floats]:
    """Changes of the loss to plan with, the most cautious first."""
    return [*(actions.blend(weight) for weight in EXPECTED_WEIGHTS), actions.expected]


_FINE_CELLS = 2e7


class OnlinePlanner:
    """Selects the actions of a problem, one epoch at a time."""

    def __init__(self, problem: Problem, actions: EpochActions, *, weigh_risk: bool = True) -> None:
        self.problem, self.actions = problem, actions
        graph = build_graph(problem, actions, actions.robust)
        check_size(graph)
        self._selectors = [ActionSelector(graph, weigh_risk=weigh_risk)]

    def select(self, state: TrainingState) -> int | None:
        """The action for a state; None where nothing lowers the loss by the deadline."""
        for selector in self._by_caution():
            action = selector.select(state)
            if action is not None:
                return action
        return self._lowest_loss(state)

    def _by_caution(self) -> Iterator[ActionSelector]:
        """The selectors, the most cautious first; made when they are first needed."""
        estimates = estimates_by_caution(self.actions)
        for number in range(1 + len(estimates)):
            if number == len(self._selectors):
                self._selectors.append(ActionSelector(self._fine_graph(estimates[number - 1]), weigh_risk=False))
            yield self._selectors[number]

    def _fine_graph(self, losses: Floats) -> ExpandedGraph:
        """A finer graph, as fine as memory allows."""
        finer = FINER
        while finer > 1 and build_graph(self.problem, self.actions, losses, finer).cells > _FINE_CELLS:
            finer //= 2
        return build_graph(self.problem, self.actions, losses, finer)

    def _lowest_loss(self, state: TrainingState) -> int | None:
        """The action that should bring the loss lowest by the deadline, if lower than now."""
        selector = self._selectors[-1]
        falls = {action: selector.max_fall(state, action) for action in self.actions.outgoing[state.pair]}
        best = max(falls, key=falls.__getitem__, default=None)
        return None if best is None or falls[best] <= 0 else best


def plan_online(problem: Problem, actions: EpochActions, *, weigh_risk: bool = True) -> list[int]:
    """The actions of a training that is planned again before every epoch."""
    planner = OnlinePlanner(problem, actions, weigh_risk=weigh_risk)
    state = initial_state(problem)
    chosen: list[int] = []
    while not state.meets(problem) and len(chosen) < MAX_EPOCHS:
        action = planner.select(state)
        if action is None:
            break
        chosen.append(action)
        state = state.after(actions, action)
    return chosen
