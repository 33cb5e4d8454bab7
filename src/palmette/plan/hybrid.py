"""Hybrid: the best instance tree by the event clock, on any number of nodes and sources.

HierTrain stops at three workers, lets every phase wait for the slowest and overlooks links that carry two transfers at
once. Here the event clock judges, and any tree will do: which nodes take part, where each branch joins, how many
samples each gets, how outputs travel. The search starts from the plans of all rivals, so it is never worse than any of
them, and goes downhill from there (``hybrid_search``); a linear program says how far the plan may be from the best.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.errors import Fault, Infeasible, InputError, too_late
from palmette.plan.choice import best
from palmette.plan.strategy import Decision, Task
from palmette.spec.plan import Phase

if TYPE_CHECKING:
    from palmette.plan.hybrid_search.judge import Cost, Judge, Objective
    from palmette.plan.hybrid_search.paths import State
    from palmette.plan.hybrid_search.world import World

EFFORT, EFFORT_A_NODE = 30_000, 6_000
"""What a search may spend, in operations played on the event clock, and more for each node of the cluster."""


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """Any tree that the event clock finds best for the goal."""

    name: ClassVar[str] = "hybrid"
    summary: ClassVar[str] = "any tree on any nodes and sources, the best that the event clock finds for the goal"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    lossless: bool = field(default=False, metadata={"help": "Never send outputs as 8-bit integers."})
    seconds: float | None = field(
        default=None,
        metadata={"help": "Search for so long; by default for a fixed effort, so that a seed gives the same plan."},
    )

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise InputError(Fault("--seconds", self.seconds, "expected more than 0"))
        import scipy.optimize  # noqa: F401 -- imports are no part of plan_s

        from palmette.plan.hiertrain_search import exact  # noqa: F401

    def decide(self, task: Task) -> Decision:
        """Search, and say how far from a lower bound the plan is."""
        from palmette.plan.hybrid_search.world import world

        return _Planning(world(task, self.lossless), self.seconds).decision()


STRATEGIES = (Hybrid,)


class _Planning:
    """One planning: the rivals' plans, the search for each quantity that the goal needs, the verdict."""

    def __init__(self, world: World, seconds: float | None) -> None:
        from palmette.plan.hybrid_search.judge import Judge
        from palmette.plan.hybrid_search.starts import rivals, starts

        began = time.perf_counter()
        self._world, self._goal = world, world.task.goal
        self._judge: Judge = Judge(world, needs_energy=self._goal.single != "time")
        self._rivals = rivals(world)
        self._states: list[State] = starts(world, self._rivals)
        self._draw = random.Random(world.task.seed)  # noqa: S311 -- no secret
        self._stages = 1 if self._goal.single else 1 + len(self._goal.weights)
        self._end_s = None if seconds is None else began + seconds

    def decision(self) -> Decision:
        """The best plan found, and its distance from the bound."""
        from palmette.plan.hybrid_search.bound import lower_bounds

        bounds = lower_bounds(self._world)
        objective = self._objective()
        name, phase, cost = self._search(objective)
        if objective.score(cost)[0] > 0:
            self._fastest_in_time(cost[0])
            name, phase, cost = self._search(objective)
        value, least = (
            objective.value(cost),
            sum(
                weight * bounds.of(quantity) / objective.units.get(quantity, 1.0)
                for quantity, weight in objective.weights.items()
            ),
        )
        variables: dict[str, Any] = {
            "goal": str(self._goal),
            "value": value,
            "lower_bound": min(least, value),
            "gap": max(0.0, (value - least) / value) if value else 0.0,
            "from": name,
            "prices": self._judge.priced,
        }
        if objective.units:
            variables["units"] = dict(objective.units)
        return Decision((Phase.model_validate(phase.model_dump()),), variables)

    def _objective(self) -> Objective:
        """What to minimise; for a weighted sum, each quantity's best value is searched for first."""
        from palmette.plan.hybrid_search.judge import Objective

        deadline_s = self._goal.iteration_deadline_s
        if self._goal.single:
            return Objective(self._goal.weights, deadline_s=deadline_s)
        units = {}
        for quantity in self._goal.weights:
            alone = Objective({quantity: 1.0}, deadline_s=deadline_s)
            units[quantity] = alone.value(self._search(alone)[2]) or 1.0
        return Objective(self._goal.weights, units, deadline_s)

    def _search(self, objective: Objective) -> tuple[str, Phase, Cost]:
        """The best plan for an objective: where it comes from, the phase, its cost."""
        from palmette.plan.hybrid_search.descent import Descent, without_needless_codecs
        from palmette.plan.hybrid_search.judge import Budget

        judge = self._judge
        effort = judge.spent + EFFORT + EFFORT_A_NODE * len(self._world.shares)
        end_s = None
        if self._end_s is not None:
            now = time.perf_counter()
            end_s = now + max(0.0, self._end_s - now) / self._stages
            self._stages = max(1, self._stages - 1)
        descent = Descent(judge, objective, Budget(judge, effort, end_s), self._draw)
        descent.run(self._states)
        found: list[tuple[Any, str, Phase, Cost]] = []
        for name, phase in self._rivals.items():
            cost = judge.price(phase)
            if cost is not None:
                found.append((objective.score(cost), name, phase, cost))
        if descent.best is not None:
            self._states.append(descent.best)
            state = without_needless_codecs(judge, objective, descent.best, self._world)
            cost = judge.cost(state)
            assert cost is not None, "the search keeps only states that may run"
            found.append((objective.score(cost), "search", judge.phase(state), cost))
        if not found:
            self._refuse()
        _, name, phase, cost = min(found, key=lambda each: each[0])
        return name, phase, cost

    def _refuse(self) -> None:
        """Nothing may run: say what stands against the simplest plans."""
        from palmette.plan.whole import on_one_node

        best([on_one_node(node, self._world.task) for node in self._world.nodes], self._world.task)
        raise Infeasible("no tree that hybrid tried may run")

    def _fastest_in_time(self, least_s: float) -> None:
        """Search for the least time alone; what it finds is a start for the next search."""
        from palmette.plan.hybrid_search.judge import Objective

        _, _, (time_s, _) = self._search(Objective({"time": 1.0}))
        least_s, limit_s = min(least_s, time_s), self._goal.iteration_deadline_s
        if limit_s is not None and least_s > limit_s:
            raise too_late("--iteration-deadline", limit_s, least_s)
