"""The best of all plans of a small problem: those that no bound rules out are played, few paths first.

Sets of paths are ruled out by what they take at least wherever gradients meet (``exchange_bound``); then groups of
states, by the longest chain of their operations and by the load of nodes and links (``cost.critical_path``). What is
left is played on the event clock, of sets with as many paths the most promising first. The same states are played
whatever the request is.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.delivery import Sent
from palmette.plan.hybrid.exchange_bound import ExchangeBound
from palmette.plan.hybrid.paths import SearchState
from palmette.plan.hybrid.pricing import Budget, Objective, Pricer
from palmette.plan.hybrid.quick_bound import QuickBound, effort
from palmette.plan.hybrid.small_space import MOST_SETS, PathSet, groups_of, path_sets

_BETTER = 1 - 1e-9


class SmallSearch:
    """Looks at all plans of few paths, for goals whose best values so far are known."""

    def __init__(
        self, pricer: Pricer, quick_bound: QuickBound, goals: Sequence[Objective], known: Sequence[float]
    ) -> None:
        self._pricer, self._quick_bound, self._problem = pricer, quick_bound, pricer.problem
        self._exchange_bound = ExchangeBound(pricer.problem)
        self._goals, self._best = goals, list(known)

    def run(self, budget: Budget) -> None:
        """Price what may be better, as far as a budget allows."""
        ranked: list[tuple[int, float, PathSet]] = []
        for paths in path_sets(self._problem, MOST_SETS):
            if not budget.left():
                return
            state = SearchState(paths)
            if self._may_be_better_anywhere(state):
                ranked.append((len(paths), self._likely(state), paths))
        for *_, paths in sorted(ranked):
            for group in groups_of(paths, self._problem):
                if not budget.left():
                    return
                self._try(group)

    def _try(self, group: tuple[SearchState, ...]) -> None:
        """Price the states of a group if they may be better."""
        first = group[0]
        if not self._may_be_better(first, self._exchange_bound.least_s(first)):
            return
        if not self._may_be_better(first, self._least_s(first)):
            return
        for state in group:
            cost = self._pricer.cost(state)
            if cost is not None:
                self._best = [min(best, goal.value(cost)) for goal, best in zip(self._goals, self._best, strict=True)]

    def _least_s(self, state: SearchState) -> float:
        """Seconds of an iteration at least; samples that travel ahead have arrived."""
        phase = self._pricer.phase(state)
        self._pricer.spent += 2 * effort(state) * len(phase.instances)
        sent = None if self._problem.resend else Sent([0.0] * len(phase.sources))
        return self._problem.task.evaluator.least_s(phase, sent)

    def _may_be_better(self, state: SearchState, iteration_s: float) -> bool:
        """Whether a bound of a state that takes so long or longer is below what is known, for any goal."""
        self._pricer.spent += effort(state)
        least = self._quick_bound.values(state, self._goals, iteration_s)
        return any(each < known * _BETTER for each, known in zip(least, self._best, strict=True))

    def _may_be_better_anywhere(self, state: SearchState) -> bool:
        """The same for all states of a set of paths, wherever gradients meet and whichever path comes first."""
        self._pricer.spent += effort(state)
        least_s = self._exchange_bound.least_anywhere_s(state)
        least = self._quick_bound.values_anywhere(state, self._goals, least_s)
        return any(each < known * _BETTER for each, known in zip(least, self._best, strict=True))

    def _likely(self, state: SearchState) -> float:
        """What a state comes to if it takes little longer than its chains, by the best that is known.

        The least of all goals and meeting nodes: a slow exchange draws little power.
        """
        places = [None, *self._problem.meeting_nodes] if state.shares_layers() else [None]
        return min(self._worth(state._replace(meet=place)) for place in places)

    def _worth(self, state: SearchState) -> float:
        self._pricer.spent += effort(state)
        cost = self._quick_bound.least(state, self._exchange_bound.least_s(state))
        values = [goal.value(cost) for goal in self._goals]
        return min(each / known if known else 1.0 for each, known in zip(values, self._best, strict=True))
