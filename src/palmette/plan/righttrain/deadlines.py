"""One search for all deadlines: a looser one never costs more.

A search by itself may end with a worse plan where it is allowed more. So the plans come from searches at deadlines
that depend on the problem alone: none, and multiples of the least time, tight ones first, each starting from what the
tighter ones found. The deadline that is asked for chooses among all of them, with the best CPU shares for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan, MappedTree
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.starts import OtherPlan, others_least_j, plans_of_others, simple_starts
from palmette.plan.righttrain.symmetry import distinct_trees

_MULTIPLES = (1.001, 1.05, 1.2, 1.5, 2.0, 3.0, 6.0, 15.0)
"""Deadlines, in multiples of the least time."""
_PROVEN = 1e-5
"""A gap that counts as none."""
_EFFORT_PARTS = (0.5, 0.12)
"""The parts of the effort: without a deadline and for the least time, and for each deadline."""


@dataclass
class DeadlineSearch:
    """The searches for one problem, whatever its deadline."""

    problem: RightTrainProblem
    epsilon: float | None
    ask_others: bool = True
    """Whether plans of other strategies are considered."""
    search: RightTrainSearch = field(init=False)
    """The search with the deadline that is asked for."""
    _found: list[EvaluatedPlan] = field(default_factory=list)
    _candidates: dict[MappedTree, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.search = RightTrainSearch(self.problem, self.epsilon)

    def best(self) -> SearchResult:
        """The best plan for the deadline, and a lower bound of all."""
        self._candidates = dict.fromkeys(simple_starts(self.problem))
        free = self._search_by(None, _EFFORT_PARTS[0])
        result = free.best(self._candidates)
        if result.plan is None:
            return result
        self._keep(free, result.plan)
        if not self._is_settled(result, result.plan):
            self._search_deadlines(result.plan)
            best = self._best_in_time()
            result = SearchResult(best, max(result.bound_j, self.search.raised_bound_j(best)))
        return self._with_others(result)

    def first_feasible(self) -> SearchResult:
        """The paper's own answer; where its mapping finds none, the best of its trees."""
        found = self.search.first_feasible()
        return found if found.plan is not None else replace(self, ask_others=False).best()

    def _is_settled(self, result: SearchResult, plan: EvaluatedPlan) -> bool:
        """Whether the best plan without a deadline is in time, and proven."""
        return not self.search.allocator.misses_deadline(plan) and result.bound_j >= plan.total_j * (1 - _PROVEN)

    def _search_deadlines(self, loosest: EvaluatedPlan) -> None:
        """Search at multiples of the least time, as far as they are tighter than a plan without a deadline."""
        fastest = self._search_by(None, _EFFORT_PARTS[0]).min_time_search().search(distinct_trees(self.problem))
        assert fastest is not None, "there is a plan"
        self._candidates[fastest.candidate] = None
        for multiple in _MULTIPLES:
            if multiple * fastest.total_s < loosest.total_s:
                search = self._search_by(multiple * fastest.total_s, _EFFORT_PARTS[1])
                plan = search.best(self._candidates).plan
                if plan is not None:
                    self._keep(search, plan)

    def _keep(self, search: RightTrainSearch, plan: EvaluatedPlan) -> None:
        """Keep what a search found on the way, too: it may be the best for a deadline in between."""
        self._found.append(plan)
        self._candidates.update(dict.fromkeys(found.candidate for found in [*search.improvements, plan]))

    def _best_in_time(self) -> EvaluatedPlan | None:
        """The best of all that was found: with the best shares for the deadline, or for a tighter one."""
        allocator = self.search.allocator
        plans = [plan for plan in self._found if not allocator.misses_deadline(plan)]
        again = self.search.best_of(self._candidates)
        best = min([*plans, *([] if again is None else [again])], key=lambda plan: plan.total_j, default=None)
        return best or self.search.meet_deadline(distinct_trees(self.problem))

    def _search_by(self, deadline_s: float | None, part: float) -> RightTrainSearch:
        """A search by a deadline, with a part of the effort."""
        task = replace(self.problem.task, goal=replace(self.problem.task.goal, deadline_s=deadline_s))
        effort = round(part * self.search.allocator.effort_budget)
        return RightTrainSearch(replace(self.problem, task=task), self.epsilon, effort)

    def _with_others(self, result: SearchResult) -> SearchResult:
        """The plan of another strategy where that is better: one that a bound cannot rule out."""
        best_j = math.inf if result.plan is None else result.plan.total_j
        if not self.ask_others or others_least_j(self.problem) >= best_j:
            return result
        in_time = [other for other in plans_of_others(self.problem) if self._is_in_time(other)]
        best = min(in_time, key=lambda other: other.total_j, default=None)
        return result if best is None or best.total_j >= best_j else replace(result, other=best)

    def _is_in_time(self, other: OtherPlan) -> bool:
        max_s = self.problem.max_iteration_s(other.schedule) * other.schedule.iterations
        return other.total_s <= max_s * (1 + 1e-12)
