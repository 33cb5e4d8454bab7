"""The search for all goals at once: stages for time, energy and what lies between, the same for every goal.

The requested goal then picks from everything that any stage has priced. So with the same seed and effort a deadline
never improves the answer, nor does a tighter one, and no plan uses less energy than that of the goal energy:

    time ─▶ energy ─▶ energy × time ─▶ energy under deadlines between the two ─▶ power        one goal or another
      └────────┴──────────┴──────────────────────┴─────────────────────────────────┴───▶ all prices ─▶ the best for it

With few nodes, pipelines of many microbatches and networks side by side follow; in a small problem all plans of few
paths, as far as no bound rules them out.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from palmette.plan.core.delivery import fits
from palmette.plan.core.order import in_halves, in_turns
from palmette.plan.hybrid.deltas import with_deltas
from palmette.plan.hybrid.descent import MOST_PATHS, Descent, simplest
from palmette.plan.hybrid.edits import split_into_microbatches
from palmette.plan.hybrid.paths import SearchState, paths_of
from palmette.plan.hybrid.pipelines import PipelineSearch
from palmette.plan.hybrid.pricing import LONGEST_S, Budget, Cost, Objective, Pricer, simplest_best
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.plan.hybrid.side_by_side import SideBySideSearch
from palmette.plan.hybrid.small_search import SmallSearch
from palmette.plan.hybrid.starts import MICROBATCHES, UPLOAD, rival_phases, starts
from palmette.spec.goal import Quantity
from palmette.spec.plan import Phase

EFFORT, EFFORT_PER_NODE, EFFORT_PER_SOURCE, MOST_EFFORT = 30_000, 8_000, 10_000, 450_000
"""What a search may spend, in operations played on the event clock: more for each node and each source, up to what a
user would wait for."""
SMALL_EFFORT = 400_000
"""What looking at all plans of a small problem may take beside that."""
PIPELINE_EFFORT = 200_000
SIDE_BY_SIDE_EFFORT = 80_000
"""What pipelines of many microbatches, and networks side by side, may take beside that."""
_STAGE_STARTS, _MOST_UPLOADS = 48, 8
_STAGES_PART, _PIPELINES_PART = 0.4, 0.3  # of the time, for a bar; the rest goes into small plans
TIME, ENERGY, PRODUCT, POWER = (
    Objective({"time": 1.0}),
    Objective({"energy": 1.0}),
    Objective({"edp": 1.0}),
    Objective({"power": 1.0}),
)
_SHARES = {"time": 0.35, "energy": 0.3, "between": 0.3, "power": 0.05}
_MORE_SHARE = 0.2  # of each of money and carbon, where the cluster knows them
_DEADLINES_BETWEEN = (0.33, 0.67)  # deadlines between the fastest plan and the most frugal one, in equal ratios


class FoundPlan(NamedTuple):
    """A plan: where it comes from, its phase and its cost."""

    name: str
    phase: Phase
    cost: Cost


class HybridSearch:
    """A search for the plans of one problem; ``pricer`` knows all prices."""

    def __init__(self, problem: HybridProblem, *, seconds: float | None, effort: float) -> None:
        self._problem, self._seconds, self._effort = problem, seconds, effort
        self._end_s: float | None = None
        self._latest_s = math.inf
        most = EFFORT + EFFORT_PER_NODE * len(problem.cpu_shares) + EFFORT_PER_SOURCE * len(problem.samples)
        self._most = round(effort * min(most, MOST_EFFORT))
        self.pricer, self._quick_bound = Pricer(problem), QuickBound(problem)
        self._rival_phases = {name: problem.with_batch_norm(phase) for name, phase in rival_phases(problem).items()}
        self._knows_powers = problem.knows_powers
        self._more = [Objective({quantity: 1.0}) for quantity in problem.quantities_apart]
        apart = [TIME, *([ENERGY] if self._knows_powers else []), *self._more]
        self._states = starts(problem, self._rival_phases, self._quick_bound, apart)
        self._priced: list[FoundPlan] = []
        for name, phase in self._rival_phases.items():
            self._priced += self._rival_plans(name, phase)

    def _rival_plans(self, name: str, phase: Phase) -> Iterator[FoundPlan]:
        """A rival's plan as it is, and with its samples delivered as well as may be where that may be better."""
        as_it_is = self.pricer.price(phase) if fits(phase, self._problem.task) else None
        if as_it_is is not None:
            yield FoundPlan(name, phase, as_it_is)
        least = self._quick_bound.least(SearchState(paths_of(phase)))
        if any(found.cost.is_no_worse(least) for found in self._priced):
            return
        best, cost = self.pricer.delivered(phase)
        if cost is not None and best != phase:
            yield FoundPlan(name, best, cost)

    def run(self) -> None:
        """Search for each objective; every stage starts from the best that those before have found."""
        began, done = time.perf_counter(), 0.0
        self._end_s = None if self._seconds is None else began + self._seconds
        self._latest_s = began + LONGEST_S
        if any(node.memory_bytes is not None for node in self._problem.task.cluster.nodes.values()):
            self._split_if_none_fits()
        likely = {state: self._quick_bound.likely(state) for state in self._states}
        tell = self._problem.task.tell
        for number, (objective, share) in enumerate(self._objectives()):
            tell(f"searching for {' and '.join(objective.weights)}", _STAGES_PART * done)
            done += share
            ranked = sorted(self._states, key=lambda state: objective.score(likely[state]))[:_STAGE_STARTS]
            known = self.pricer.best(objective)
            draw = random.Random(f"{self._problem.task.seed} {number}")  # noqa: S311 -- no secret
            descent = Descent(self.pricer, self._quick_bound, objective, self._budget(share, done), draw)
            descent.run([*([known[0]] if known else []), *ranked])
        tell("looking at pipelines", _STAGES_PART)
        if self._problem.knows_calls:
            PipelineSearch(self.pricer, self._quick_bound).run(self._budget_beside(PIPELINE_EFFORT))
            SideBySideSearch(self.pricer, self._quick_bound).run(self._budget_beside(SIDE_BY_SIDE_EFFORT))
        tell("looking at small plans", _STAGES_PART + _PIPELINES_PART)
        self._try_small_space()
        self._priced += list(self._in_turns())
        self._priced += list(self._in_halves())
        self._priced += list(self._as_deltas())

    def _split_if_none_fits(self) -> None:
        """Begin with more microbatches where memory forbids every start: in turns they may fit."""
        if any(self.pricer.cost(state) is not None for state in self._states):
            return
        split = [split_into_microbatches(state, many) for many in MICROBATCHES for state in self._states]
        few = [state for state in dict.fromkeys(split) if state is not None and len(state.paths) <= MOST_PATHS]
        self._states += [state for state in few if self.pricer.cost(state) is not None]

    def _in_turns(self) -> Iterator[FoundPlan]:
        """The best plans for some goals with their microbatches in turns, which may be faster."""
        for goal in self._goals():
            found = self.best(goal)
            turns = None if found is None else in_turns(found.phase)
            phase, cost = (None, None) if turns is None else self.pricer.delivered(turns)
            if phase is not None and cost is not None:
                yield FoundPlan("search", phase, cost)

    def _in_halves(self) -> Iterator[FoundPlan]:
        """The best plans for some goals with backward in halves, where that is clearly faster."""
        for goal in self._goals():
            found = self.best(goal)
            halves = None if found is None else in_halves(found.phase, self._problem.task)
            cost = self._cost_if_it_fits(halves)
            if halves is not None and cost is not None:
                yield FoundPlan("search", halves, cost)

    def _as_deltas(self) -> Iterator[FoundPlan]:
        """The best plans for some goals with coded outputs as deltas to kept ones, where memory allows that."""
        for goal in self._goals() if self._problem.deltas else ():
            found = self.best(goal)
            coded = None if found is None else with_deltas(found.phase)
            cost = self._cost_if_it_fits(coded)
            if coded is not None and cost is not None:
                yield FoundPlan("search", coded, cost)

    def _cost_if_it_fits(self, phase: Phase | None) -> Cost | None:
        return self.pricer.price(phase) if phase is not None and fits(phase, self._problem.task) else None

    def _goals(self) -> list[Objective]:
        """What any request may be about, one quantity each."""
        return [TIME, *([ENERGY, PRODUCT, POWER] if self._knows_powers else []), *self._more]

    def _try_small_space(self) -> None:
        """Price what may be better for a goal of all plans of a small problem."""
        goals = self._goals()
        best = [found for objective in goals if (found := self.best(objective)) is not None]
        if len(best) < len(goals):
            return  # nothing to beat
        known = [goal.value(found.cost) for goal, found in zip(goals, best, strict=True)]
        SmallSearch(self.pricer, self._quick_bound, goals, known).run(self._budget_beside(SMALL_EFFORT))

    def _budget_beside(self, more: int) -> Budget:
        """What may be spent beside the effort of the stages."""
        most = self.pricer.spent + round(self._effort * more)
        return Budget(self.pricer, most, self._end_s, self._latest_s)

    def _objectives(self) -> Iterator[tuple[Objective, float]]:
        """Objectives, each with its share of the effort; those between are known once both ends are."""
        left = 1.0 - _MORE_SHARE * len(self._more)
        yield from ((objective, left * share) for objective, share in self._time_and_energy())
        for objective in self._more:
            yield objective, _MORE_SHARE / 2
            yield self._with_time(objective), _MORE_SHARE / 2

    def _time_and_energy(self) -> Iterator[tuple[Objective, float]]:
        if not self._knows_powers:
            yield TIME, 1.0
            return
        yield TIME, _SHARES["time"]
        yield ENERGY, _SHARES["energy"]
        between = [PRODUCT, *(Objective({"energy": 1.0}, deadline_s=limit_s) for limit_s in self._deadlines_between())]
        yield from ((objective, _SHARES["between"] / len(between)) for objective in between)
        yield POWER, _SHARES["power"]

    def _with_time(self, objective: Objective) -> Objective:
        """The objective and time in equal parts, each over the best that was found."""
        weights = {"time": 1.0, **objective.weights}
        return Objective(weights, {quantity: self.least(quantity) or 1.0 for quantity in weights})

    def _deadlines_between(self) -> list[float]:
        fastest, frugal = self.pricer.best(TIME), self.pricer.best(ENERGY)
        if fastest is None or frugal is None or not 0 < fastest[1].steady_s < frugal[1].steady_s:
            return []
        low_s, high_s = fastest[1].steady_s, frugal[1].steady_s
        return [low_s * (high_s / low_s) ** part for part in _DEADLINES_BETWEEN]

    def _budget(self, share: float, done: float) -> Budget:
        """What a stage may spend: of the effort, all that the stages up to it have left; of the time, its share."""
        if self._end_s is None:
            return Budget(self.pricer, round(done * self._most), None, self._latest_s)
        now = time.perf_counter()
        part = share / max(share, 1.0 - done + share)
        return Budget(self.pricer, 0, now + part * max(0.0, self._end_s - now))

    def best(self, objective: Objective) -> FoundPlan | None:
        """The best plan of all that were priced, of equals that with the fewest instances; None where none may run."""
        found = list(self._priced)
        known = self.pricer.best(objective)
        if known is not None:
            state = simplest(self.pricer, objective, known[0], self._problem)
            phase, cost = self.pricer.delivered(self.pricer.phase(state))
            assert cost is not None, "the search keeps only states that may run"
            found.append(FoundPlan("search", phase, cost))
        return simplest_best(found, lambda each: objective.score(each.cost), lambda each: len(each.phase.instances))

    def best_uploads(self, objective: Objective) -> list[str]:
        """The nodes of the best uploads: all of a small cluster."""
        uploads = [found for found in self._priced if found.name.startswith(UPLOAD)]
        ranked = sorted(uploads, key=lambda found: objective.score(found.cost))
        return list(dict.fromkeys(found.name.removeprefix(UPLOAD) for found in ranked))[:_MOST_UPLOADS]

    def least(self, quantity: Quantity) -> float:
        """The least value of a quantity among all plans that were priced."""
        found = self.best(Objective({quantity: 1.0}))
        return math.inf if found is None else found.cost.value(quantity)

    def least_steady_s(self) -> float:
        """The shortest steady iteration of all plans that were priced."""
        found = self.best(Objective({"time": 1.0}, deadline_s=0.0))
        return math.inf if found is None else found.cost.steady_s
