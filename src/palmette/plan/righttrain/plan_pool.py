"""The plans that one choice of deadline picks from: searches at deadlines that depend on the problem alone.

The first has no deadline. Where its plan does not settle the question, there are more at multiples of the least time,
tight ones first, each starting from what the others found. The pool of a problem is kept, so that asking for another
deadline is quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from palmette.plan.righttrain.cpu_allocation import EvaluatedPlan, KnownTrees, MappedTree
from palmette.plan.righttrain.mapping_bounds import MappingBounds
from palmette.plan.righttrain.neighbours import Neighbours
from palmette.plan.righttrain.open_bounds import BoundedTree
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.starts import simple_starts
from palmette.plan.righttrain.symmetry import distinct_trees

_MULTIPLES = (1.001, 1.05, 1.15, 1.3, 1.5, 2.0, 3.0, 6.0, 15.0)
"""Deadlines, in multiples of the least time."""
_FEWER_MULTIPLES = (1.001, 1.3, 2.0, 6.0)
"""The same where many nodes compute: a search of those takes seconds."""
_EFFORT_PARTS = (0.5, 0.25)
"""The parts of the effort: without a deadline, and for each deadline; the least time takes all."""
_KEPT = 4
"""Pools that are kept."""


@dataclass
class PlanPool:
    """The plans that searches found for a problem without a deadline, and mapped trees to choose shares for."""

    problem: RightTrainProblem
    epsilon: float | None
    found: list[EvaluatedPlan] = field(default_factory=list)
    candidates: dict[MappedTree, None] = field(default_factory=dict)
    roots: list[BoundedTree] = field(default_factory=list)
    known: KnownTrees = field(default_factory=KnownTrees)
    _searched: bool = False

    @cached_property
    def unhurried(self) -> RightTrainSearch:
        """A search without a deadline, for the best shares of mapped trees that are in time anyway."""
        return self._search_by(None, 1.0)

    @cached_property
    def free(self) -> SearchResult:
        """The result of the search without a deadline."""
        self.candidates = dict.fromkeys(simple_starts(self.problem))
        search = self._search_by(None, _EFFORT_PARTS[0])
        self.roots = search.roots
        return self._searched_by(search)

    def search_deadlines(self) -> None:
        """Search at multiples of the least time, as far as they are tighter than the plan without a deadline."""
        if self._searched or self.free.plan is None:
            return
        self._searched = True
        search = self._search_by(None, 1.0).min_time_search()
        # Each tree is tried on one set of nodes, where there may be too little memory.
        fastest = search.search(distinct_trees(self.problem)) or search.speed_up(self.candidates)
        assert fastest is not None, "there is a plan"
        self.candidates[fastest.candidate] = None
        for multiple in _MULTIPLES if MappingBounds(self.problem).few_nodes else _FEWER_MULTIPLES:
            if multiple * fastest.total_s < self.free.plan.total_s:
                self._searched_by(self._search_by(multiple * fastest.total_s, _EFFORT_PARTS[1]))
        self._add_fewer_sources()

    def _add_fewer_sources(self) -> None:
        """Add what is one source away from a candidate: a deadline between two multiples may ask for it."""
        bounds = MappingBounds(self.problem)
        if bounds.few_nodes:
            neighbours = Neighbours(self.problem, bounds.few_nodes)
            for candidate in list(self.candidates):
                self.candidates.update(dict.fromkeys(neighbours.without_a_source(candidate)))

    def _searched_by(self, search: RightTrainSearch) -> SearchResult:
        """The result of a search; what it found on the way is kept, too: it may be the best for another deadline.

        With many nodes, which a search sees only a part of, it starts from the paper's own plan as well.
        """
        if not search.bounds.few_nodes:
            self._keep([search.first_feasible().plan])
        result = search.best(self.candidates)
        self._keep([*search.improvements, result.plan])
        return result

    def _keep(self, plans: Iterable[EvaluatedPlan | None]) -> None:
        found = [plan for plan in plans if plan is not None]
        self.found += found
        self.candidates.update(dict.fromkeys(each.candidate for each in found))

    def _search_by(self, deadline_s: float | None, part: float) -> RightTrainSearch:
        """A search by a deadline, with a part of the effort."""
        problem = with_deadline(self.problem, deadline_s)
        search = RightTrainSearch(problem, self.epsilon, effort_part=part, known=self.known)
        if self.roots:
            search.roots = self.roots
        return search


def with_deadline(problem: RightTrainProblem, deadline_s: float | None) -> RightTrainProblem:
    """The same problem with another deadline, or none."""
    goal = replace(problem.task.goal, deadline_s=deadline_s)
    return replace(problem, task=replace(problem.task, goal=goal))


@dataclass(frozen=True)
class _PoolKey:
    """A problem, and what tells it from others."""

    problem: RightTrainProblem = field(compare=False)
    epsilon: float | None
    text: str

    @classmethod
    def of(cls, problem: RightTrainProblem, epsilon: float | None) -> _PoolKey:
        free = with_deadline(problem, None)
        task = free.task
        described = (
            task.profile.model_dump_json(),
            task.cluster.model_dump_json(),
            free.target.learning.model_dump_json(),
            repr((task.batch, task.goal, task.optimizer, task.exchange, free.feed_nodes, free.feed_samples)),
        )
        return cls(free, epsilon, "\n".join(described))


def plan_pool(problem: RightTrainProblem, epsilon: float | None) -> PlanPool:
    """The pool of a problem, whatever its deadline."""
    return _kept_pool(_PoolKey.of(problem, epsilon))


@lru_cache(maxsize=_KEPT)
def _kept_pool(key: _PoolKey) -> PlanPool:
    return PlanPool(key.problem, key.epsilon)
