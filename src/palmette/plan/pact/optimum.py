"""The exact optimum: the cheapest schedule by the true losses, and how close the goal can be met.

On huge problems the search accepts a schedule that may cost a little more than the cheapest; a lower bound of the
energy then gives the gap at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from palmette.errors import Infeasible, not_below
from palmette.plan.pact.actions import TOLERANCE, EpochActions
from palmette.plan.pact.exact_cost_to_go import ExactCostToGo
from palmette.plan.pact.label_search import LowerBound, SearchBudget, SearchGraph, best_price, cheapest_path
from palmette.plan.pact.rivals import RivalSearch
from palmette.plan.pact.simulation import epochs_within, initial_state, simulate
from palmette.spec.problem import Problem

_NO_DEADLINE_S = 1e300
_MAX_LABELS = 300_000
_MOST_LATER_EPOCHS = 1000
"""Epochs up to which it is said when a target could be reached."""


class OptimalSchedule(NamedTuple):
    """The actions of the cheapest schedule; ``gap`` is the fraction that another could save at most, None if exact."""

    actions: list[int]
    gap: float | None


def optimal_schedule(problem: Problem, actions: EpochActions) -> OptimalSchedule:
    """The cheapest schedule that meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    known = RivalSearch(problem, actions).at_most_one_switch()
    if known is None:
        require_feasible(problem, actions)
        most_j = float(actions.energy_j.max()) * epochs_within(problem.deadline_s, actions)
    else:
        most_j = simulate(problem, actions, known).energy_j
    found = _cheapest(problem, actions, _CostBounds(problem, actions, most_j), _NO_DEADLINE_S, known)
    if not simulate(problem, actions, found.actions).in_time(problem):
        found = _cheapest(
            problem, actions, _CostBounds(problem, actions, most_j, in_time=True), problem.deadline_s, known
        )
    return found


def require_feasible(problem: Problem, actions: EpochActions) -> None:
    """Make sure that some schedule meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    above = problem.start.loss - problem.target_loss
    time = _time_to_go(problem, actions, problem.deadline_s, attainable=True)
    if time.at(0, 0, above) <= problem.deadline_s + TOLERANCE:
        return
    least = problem.start.loss - time.max_fall(0, problem.deadline_s)
    message = f"target_loss: {problem.target_loss:g}: cannot be reached within {problem.deadline_s:g} s; "
    message += f"the least loss that can be reached by then is {not_below(least)}"
    times = (
        _time_to_go(problem, actions, most_s, attainable=True).at(0, 0, above) for most_s in _later(problem, actions)
    )
    later_s = next((found for found in times if found < math.inf), None)
    if later_s is not None:
        message += f", and the target can be reached after {not_below(later_s)} s"
    raise Infeasible(message)


def _later(problem: Problem, actions: EpochActions) -> Iterator[float]:
    """Later deadlines to look for a target by, as long as they leave no more than some epochs."""
    later_s = 4 * problem.deadline_s
    yield later_s
    while epochs_within(4 * later_s, actions) <= _MOST_LATER_EPOCHS:
        later_s *= 4
        yield later_s


class _CostBounds:
    """Lower bounds to the target: of energy; and where the deadline binds, of time, and of both at the best price."""

    def __init__(self, problem: Problem, actions: EpochActions, most_j: float, *, in_time: bool = False) -> None:
        self._problem, self._actions, self._most_j = problem, actions, most_j
        self.converged = True
        self.energy = self._priced(0.0)
        self.time: LowerBound = lambda *_: 0.0
        self.price, self.priced = 0.0, self.energy
        if in_time:
            above = problem.start.loss - problem.target_loss
            guess = float(actions.energy_j.max() / actions.time_s.max()) or 1.0
            time = _time_to_go(problem, actions, problem.deadline_s)
            self.time, self.converged = time.at, self.converged and time.converged
            self.price = best_price(lambda price: self._priced(price)(0, 0, above) - price * problem.deadline_s, guess)
            self.priced = self._priced(self.price)

    def _priced(self, price: float) -> LowerBound:
        actions, deadline_s = self._actions, self._problem.deadline_s
        cost_to_go = ExactCostToGo(
            actions,
            actions.energy_j + price * actions.time_s,
            highest=self._problem.start.loss - self._problem.target_loss,
            max_cost=self._most_j + price * deadline_s,
            epochs=epochs_within(deadline_s, actions),
        )
        self.converged = self.converged and cost_to_go.converged
        return cost_to_go.at


def _cheapest(
    problem: Problem, actions: EpochActions, bounds: _CostBounds, deadline_s: float, known: list[int] | None
) -> OptimalSchedule:
    """The cheapest schedule; ``known`` where bounds that did not converge exclude all of them."""
    graph = SearchGraph(
        loss=actions.true.tolist(),
        time=actions.time_s.tolist(),
        energy=actions.energy_j.tolist(),
        to_pair=actions.to_pair.tolist(),
        outgoing=actions.outgoing,
        least_energy=bounds.energy,
        least_time=bounds.time,
        least_priced=bounds.priced,
        price=bounds.price,
    )
    start = initial_state(problem)
    above = start.loss - problem.target_loss
    budget = SearchBudget(_MAX_LABELS)
    found = cheapest_path(graph, (0, start.pair, above), deadline_s, budget)
    if found is None and not bounds.converged:
        found = known
    assert found is not None, "some schedule is in time"
    if bounds.converged and budget.slacks[0] == 0:
        return OptimalSchedule(found, None)
    least_j = _energy_lower_bound_j(actions, above)
    if bounds.converged:
        least_j = max(least_j, graph.lower_bound(0, start.pair, above, deadline_s))
    energy_j = simulate(problem, actions, found).energy_j
    return OptimalSchedule(found, max(0.0, 1 - least_j / energy_j) if energy_j else 0.0)


def _energy_lower_bound_j(actions: EpochActions, above: float) -> float:
    """A lower bound of the joules to lower the loss: as if every epoch were the most efficient one."""
    falls = -actions.true
    efficiency = (falls / actions.energy_j.clip(1e-300)).max()
    return max(0.0, above) / float(efficiency)


def _time_to_go(problem: Problem, actions: EpochActions, most_s: float, *, attainable: bool = False) -> ExactCostToGo:
    return ExactCostToGo(
        actions,
        actions.time_s,
        highest=problem.start.loss - problem.target_loss,
        max_cost=most_s,
        epochs=epochs_within(most_s, actions),
        attainable=attainable,
    )
