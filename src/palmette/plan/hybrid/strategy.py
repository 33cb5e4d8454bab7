"""Hybrid: the best instance tree by the event clock, on any number of nodes and sources.

HierTrain stops at three workers, lets every phase wait for the slowest and ignores that transfers share links. Here the
event clock prices any tree: which nodes take part, where each branch joins, how many samples each gets, how outputs
travel. The search starts from the plans of the other strategies, so it is never worse than any of them, and improves
them (``descent``); a linear program says how far the plan may be from the best.

It searches for all goals at once and lets the requested one pick, so that a constraint never improves the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.cost.batch_norm import FLOOR, shared_norms
from palmette.errors import ArgumentFault, Infeasible, InputError, too_late
from palmette.plan.core.choice import best
from palmette.plan.core.order import order_price, with_first_halves
from palmette.plan.core.recompute import recompute_price
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.core.upload import ways_to_begin
from palmette.spec.goal import Quantity
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase

if TYPE_CHECKING:
    from palmette.plan.hybrid.bound import HybridBounds
    from palmette.plan.hybrid.pricing import Objective
    from palmette.plan.hybrid.problem import HybridProblem
    from palmette.plan.hybrid.stages import FoundPlan, HybridSearch


_ROUNDING = 1 + 1e-6


@dataclass(frozen=True, kw_only=True)
class Hybrid(Strategy):
    """Any tree that the event clock finds best for the goal."""

    name: ClassVar[str] = "hybrid"
    summary: ClassVar[str] = "any tree on any nodes and sources, the best that the event clock finds for the goal"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    starts_from_others: ClassVar[bool] = True

    lossy: bool = field(
        default=False,
        metadata={"help": "Allow layer outputs of 8 or 4 bits and, with --loss, codecs that the learning curve knows."},
    )
    seconds: float | None = field(
        default=None,
        metadata={"help": "Seconds to search; if not given, a fixed effort, so that a seed gives the same plan."},
    )
    effort: float = field(
        default=1.0,
        metadata={"help": "Search effort as a multiple of the default; a seed still gives the same plan."},
    )

    resend: bool = field(
        default=False,
        metadata={"help": "Send each sample for every iteration that uses it, which waits for it, as the papers do."},
    )
    batch_norm_floor: int = field(
        default=FLOOR,
        metadata={"help": "Fewest samples for batch norm statistics of their own; smaller parts share theirs."},
    )

    learning: Learning | None = field(
        default=None, metadata={"help": "A learning curve for --loss, which also decides the window (JSON)."}
    )

    def __post_init__(self) -> None:
        refuse_floor(self.batch_norm_floor)
        refuse_effort(self.seconds, self.effort)
        import scipy.optimize  # noqa: F401 -- imports are no part of plan_s

        from palmette.plan.hiertrain import exact_search  # noqa: F401 -- imports are no part of plan_s
        from palmette.plan.hybrid import stages  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """Search, and say how far from a lower bound the plan is."""
        from palmette.plan.hybrid.bound import lower_bounds
        from palmette.plan.hybrid.problem import make_problem
        from palmette.plan.hybrid.stages import HybridSearch

        floor = self.batch_norm_floor
        codecs = (False, True) if self.lossy else (False,)
        problems = [make_problem(task, lossy, floor, resend=self.resend, deltas=self._deltas) for lossy in codecs]
        seconds = None if self.seconds is None else self.seconds / len(problems)
        searches = [
            HybridSearch(problem, seconds=seconds, effort=self.effort) for problem in problems
        ]  # allowing a codec must never make the answer worse: the search without it is made as well
        for search in searches:
            search.run()
        objective = _objective(problems[0], searches)
        found = [best for search in searches if (best := search.best(objective)) is not None]
        if not found:
            raise _refusal(problems[0])
        chosen = min(found, key=lambda each: objective.score(each.cost))
        if objective.score(chosen.cost)[0] > 0:
            raise _too_late(objective, problems[0], searches)
        phase = Phase.model_validate(chosen.phase.model_dump())
        prices = sum(search.pricer.priced for search in searches)
        bounds = lower_bounds(self._bounded(phase, problems[-1]), objective.weights, self.effort, self.seconds)
        variables = _variables(chosen, objective, bounds, task) | _batch_norm(phase, task) | {"prices": prices}
        variables |= recompute_price(phase, task) | order_price(phase, task)
        ways = None if self.resend else ways_to_begin(task, searches[0].best_uploads(objective))
        return Decision((phase,), variables | ({"on_the_way": ways} if ways else {}))

    def _bounded(self, phase: Phase, problem: HybridProblem) -> HybridProblem:
        """The problem whose bounds hold for a phase: where backward falls into halves, only the first count."""
        from palmette.plan.hybrid.problem import make_problem

        if phase.order != "zero-bubble":
            return problem
        task = replace(problem.task, profile=with_first_halves(problem.task.profile))
        floor, resend = self.batch_norm_floor, self.resend
        return make_problem(task, self.lossy, floor, resend=resend, deltas=self._deltas)

    @property
    def _deltas(self) -> bool:
        """Whether coded outputs may be kept, and travel as deltas; where a curve weighs codecs, that is tried later."""
        return self.lossy and not self.resend and self.learning is None


STRATEGIES = (Hybrid,)


def _least(quantity: Quantity, searches: Sequence[HybridSearch]) -> float:
    return min(search.least(quantity) for search in searches)


def _too_late(objective: Objective, problem: HybridProblem, searches: Sequence[HybridSearch]) -> Infeasible:
    """Which deadline cannot be met, and the closest time that was found."""
    least_s = min(search.least_steady_s() for search in searches)
    if objective.deadline_s is not None and least_s > objective.deadline_s:
        return too_late("iteration_deadline_s", objective.deadline_s, least_s)
    assert problem.task.goal.deadline_s is not None, "one of the deadlines is missed"
    return too_late("deadline_s", problem.task.goal.deadline_s, problem.iterations * _least("time", searches))


def _objective(problem: HybridProblem, searches: Sequence[HybridSearch]) -> Objective:
    """What to minimise; a weighted sum is over the best of each quantity that was found, in time or not."""
    from palmette.plan.hybrid.pricing import Objective

    goal = problem.task.goal
    units = (
        {} if goal.single else goal.units or {quantity: _least(quantity, searches) or 1.0 for quantity in goal.weights}
    )
    mean_s = None if goal.deadline_s is None else goal.deadline_s / problem.iterations
    return Objective(goal.weights, units, goal.iteration_deadline_s, mean_s)


def _variables(found: FoundPlan, objective: Objective, bounds: HybridBounds, task: Task) -> dict[str, Any]:
    value = objective.value(found.cost)
    least = sum(
        w * bounds.of(quantity) / objective.units.get(quantity, 1.0) for quantity, w in objective.weights.items()
    )
    variables: dict[str, Any] = {
        "goal": str(task.goal),
        "epochs": task.horizon,
        "value": value,
        **stated_bound(least, value),
        "from": found.name,
    }
    return variables | ({"units": dict(objective.units)} if objective.units else {})


def stated_bound(least: float, value: float) -> dict[str, float]:
    """A lower bound and the gap to a plan's value; nothing where the plan is below: it does not bound such plans."""
    if least > value * _ROUNDING:
        return {}
    least = min(least, value)
    return {"lower_bound": least, "gap": (value - least) / value if value else 0.0}


def refuse_effort(seconds: float | None, effort: float) -> None:
    """Refuse a search that may not even begin, or never ends.

    Raises:
        InputError: says so.
    """
    for option, value in (("seconds", seconds), ("effort", effort)):
        if value is not None and not 0 < value < float("inf"):
            raise InputError(ArgumentFault(option, value, "expected more than 0"))


def refuse_floor(floor: int) -> None:
    """Refuse a part of no samples.

    Raises:
        InputError: says so.
    """
    if floor < 1:
        raise InputError(ArgumentFault("batch_norm_floor", floor, "expected at least 1"))


def _batch_norm(phase: Phase, task: Task) -> dict[str, Any]:
    """What an iteration of the plan takes with statistics of the whole batch and of parts, where they differ."""
    prices = task.evaluator
    whole, parts = (phase.model_copy(update={"batch_norm": how}) for how in ("whole", "parts"))
    if not shared_norms(whole, prices.sizes(), prices.routes):
        return {}
    seconds = {how: prices.price(each).iteration_s for how, each in (("whole", whole), ("parts", parts))}
    return {"batch_norm": {"chosen": phase.batch_norm, "iteration_s": seconds}}


def _refusal(problem: HybridProblem) -> Infeasible:
    """Why nothing may run: what is wrong with the simplest plans."""
    from palmette.plan.core.one_node import on_one_node
    from palmette.plan.core.recompute import recompute_to_fit

    task = problem.task
    best([recompute_to_fit(on_one_node(node, task), task) for node in problem.nodes], task)
    return Infeasible("no tree that hybrid tried may run")
