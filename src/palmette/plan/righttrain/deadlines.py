"""A plan for a deadline: a looser one never costs more.

A search by itself may end with a worse plan where it is allowed more. So the deadline only chooses among plans of
searches that do not depend on it (``plan_pool``), with the best CPU shares for it; and then among those of other
strategies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan
from palmette.plan.righttrain.plan_pool import PlanPool, plan_pool
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.starts import others_least_j, plans_of_others

_PROVEN = 1e-5
"""A gap that counts as none."""


@dataclass
class DeadlineSearch:
    """The choice for one problem and its deadline."""

    problem: RightTrainProblem
    epsilon: float | None
    ask_others: bool = True
    """Whether plans of other strategies are considered."""
    search: RightTrainSearch = field(init=False)
    """The search with the deadline."""

    def __post_init__(self) -> None:
        self.search = RightTrainSearch(self.problem, self.epsilon, known=plan_pool(self.problem, self.epsilon).known)

    def best(self) -> SearchResult:
        """The best plan for the deadline, and a lower bound of all."""
        pool, best = plan_pool(self.problem, self.epsilon), self.best_plan()
        result = SearchResult(best, pool.free.bound_j)
        if best is not pool.free.plan or not self._is_settled(pool.free, best):
            self.search.roots = pool.roots
            result = SearchResult(best, max(result.bound_j, self.search.raised_bound_j(best)))
        return self._with_others(result)

    def best_plan(self) -> EvaluatedPlan | None:
        """The best plan of the pool for the deadline."""
        pool = plan_pool(self.problem, self.epsilon)
        if self._is_settled(pool.free, pool.free.plan):
            return pool.free.plan
        return self.known_in_time() or self.search.meet_deadline()

    def first_feasible(self) -> SearchResult:
        """The paper's own answer; where its mapping finds none, the best of its trees."""
        found = self.search.first_feasible()
        return found if found.plan is not None else replace(self, ask_others=False).best()

    def _is_settled(self, result: SearchResult, plan: EvaluatedPlan | None) -> bool:
        """Whether the best plan without a deadline is in time and proven, or there is none."""
        if plan is None:
            return True
        return not self.search.allocator.misses_deadline(plan) and result.bound_j >= plan.total_j * (1 - _PROVEN)

    def known_in_time(self) -> EvaluatedPlan | None:
        """The best of all that was found: with the best shares for the deadline, for a tighter one, or for none."""
        pool = plan_pool(self.problem, self.epsilon)
        pool.search_deadlines()
        plans = [plan for plan in pool.found if not self.search.allocator.misses_deadline(plan)]
        again = self.search.best_of(pool.candidates)
        best = min([*plans, *([] if again is None else [again])], key=lambda plan: plan.total_j, default=None)
        return None if best is None else self._unhurried(pool, best)

    def _unhurried(self, pool: PlanPool, best: EvaluatedPlan) -> EvaluatedPlan:
        """The best, or a candidate with its best shares without a deadline, where they are in time and better.

        The same shares may not be found by the deadline, where transfers share links.
        """
        free = pool.unhurried.allocator
        for candidate in pool.candidates:
            if free.quick_bound_j(candidate) >= best.total_j or free.bound_j(candidate) >= best.total_j:
                continue
            found = free.best_plan(candidate)
            if found is not None and found.total_j < best.total_j and not self.search.allocator.misses_deadline(found):
                best = found
        return best

    def _with_others(self, result: SearchResult) -> SearchResult:
        """The plan of another strategy where that is better: one that a bound cannot rule out."""
        best_j = math.inf if result.plan is None else result.plan.total_j
        if not self.ask_others or others_least_j(self.problem) >= best_j:
            return result
        best = min(plans_of_others(self.problem), key=lambda other: other.total_j, default=None)
        return result if best is None or best.total_j >= best_j else replace(result, other=best)
