"""Auto: the best of all strategies for the goal, why it wins, and what would change the answer.

All strategies plan in parallel; those that search on from the plans of others (``hybrid``) plan again without each kind
of node, so that the answer says what each contributes; a plan that turns out to be better is taken. Then each kind of
link is made faster and slower until another strategy wins. Plans that change numbers in transit (as coded outputs) are
taken only where that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.cost.batch_norm import FLOOR
from palmette.errors import Infeasible
from palmette.plan.core.comparison import Comparison, changes_learning, is_lossy, small_norm_parts
from palmette.plan.core.registry import find, strategies
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.hybrid.strategy import refuse_effort, refuse_floor
from palmette.spec.learning import Learning
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.problem import Problem

if TYPE_CHECKING:
    from palmette.plan.auto.explanation import Findings
    from palmette.plan.auto.horizon import BestFrom
    from palmette.plan.auto.links import LinkThreshold
    from palmette.plan.auto.nodes import PlanWithout
    from palmette.plan.auto.objective import PlanObjective

_EQUAL = 1 + 1e-9
_COMPARING_SHARE, _WITHOUT_SHARE = 0.5, 0.4  # shares of --seconds: the search itself, and those without a node


@dataclass(frozen=True, kw_only=True)
class Auto(Strategy):
    """The best of all strategies."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the best of all strategies for the goal, why, and what would change the answer"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True
    composed: ClassVar[bool] = True

    lossy: bool = field(
        default=False,
        metadata={"help": "Allow layer outputs of 8 or 4 bits and, with --loss, codecs that the learning curve knows."},
    )
    seconds: float | None = field(
        default=None,
        metadata={"help": "Seconds to plan, about; if not given, a fixed effort, so that a seed gives the same plan."},
    )
    effort: float = field(
        default=1.0,
        metadata={"help": "Search effort as a multiple of the default; a seed still gives the same plan."},
    )
    batch_norm_floor: int = field(
        default=FLOOR,
        metadata={"help": "Fewest samples for batch norm statistics of their own; smaller parts share theirs."},
    )
    learning: Learning | None = field(default=None, metadata={"help": "A learning curve, for --loss (JSON)."})
    measurements: Measurements | None = field(
        default=None, metadata={"help": "Measurements, for the strategy cluster (JSON)."}
    )
    problem: Problem | None = field(default=None, metadata={"help": "Tables, for PACT (JSON)."})

    def __post_init__(self) -> None:
        refuse_floor(self.batch_norm_floor)
        refuse_effort(self.seconds, self.effort)
        from palmette.plan.auto import explanation  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """Take the best, and find out why."""
        from palmette.plan.auto.explanation import Findings
        from palmette.plan.auto.nodes import of_computing_nodes
        from palmette.plan.auto.objective import plan_objective
        from palmette.plan.core.comparison import compare

        progress, task = task.tell, replace(task, progress=None)  # searches are in processes of their own
        found = compare(
            task, self._options(_COMPARING_SHARE), progress=lambda what, done: progress(what, _COMPARING_SHARE * done)
        )
        left_out = {
            plan.strategy: why for plan in found.plans if (why := self._reason_to_leave_out(plan, task)) is not None
        }
        plans = [plan for plan in found.plans if plan.strategy not in left_out]
        if not plans and not _are_late(found):
            found.refuse()
        objective = plan_objective(task, plans, self._options())
        without = self._plans_without_nodes(plans[:1], objective, progress)
        candidates = [*plans, *(each.plan for each in without if each.plan is not None)]
        if not candidates:
            found.refuse()
        objective = objective if plans else plan_objective(task, candidates, self._options())
        chosen = simplest_best(candidates, objective)
        shown = of_computing_nodes(without, chosen)
        progress("trying other links", _COMPARING_SHARE + _WITHOUT_SHARE)
        findings = Findings(_thresholds(chosen, objective), shown, _by_epochs(chosen, plans, objective), found.skipped)
        variables = _variables(chosen, plans, objective, findings)
        if left_out:
            variables["left_out"] = left_out
        return Decision(chosen.phases, variables, chosen.model, chosen.batch, _warnings(chosen, task))

    def _reason_to_leave_out(self, plan: Plan, task: Task) -> str | None:
        """What a plan would do to the training that the options do not allow; None where it may be taken."""
        if is_lossy(plan) and not self.lossy:
            return "coded outputs; --lossy allows them"
        if task.goal.loss is None and changes_learning(plan) and not find(plan.strategy).plans_epochs:
            return "replicas that train apart need other numbers of epochs; --loss with --learning counts them"
        small = small_norm_parts(plan, task.evaluator, self.batch_norm_floor)
        if small:
            least = min(part.samples for part in small)
            return f"batch norm over {least} samples by themselves; --batch-norm-floor {least} allows them"
        return None

    def _options(self, share: float | None = None) -> dict[str, Any]:
        """The options that strategies are given; of the seconds a share."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given["seconds"] = None if self.seconds is None or share is None else share * self.seconds
        return {name: value for name, value in given.items() if value is not None}

    def _plans_without_nodes(
        self, first: Sequence[Plan], objective: PlanObjective, progress: Callable[[str, float], None]
    ) -> list[PlanWithout]:
        """The best plan without each kind of node, all tried in parallel; ``first`` is the best with all, if any."""
        from palmette.plan.auto.nodes import needed_for_their_data, nodes_to_try, plan_without
        from palmette.plan.core.parallel import parallel_jobs, run_parallel

        tried = nodes_to_try(objective.task)
        rounds = math.ceil(len(tried) / parallel_jobs()) or 1
        options = self._options(_WITHOUT_SHARE / rounds)
        searching = [name for name, kind in strategies().items() if kind.starts_from_others]
        names = list(dict.fromkeys([*searching, *(plan.strategy for plan in first)]))
        jobs: list[Callable[[], PlanWithout]] = [
            partial(plan_without, group, names, objective, options) for group in tried
        ]
        needed = needed_for_their_data(objective.task)

        def tell(many: int) -> None:
            done = _COMPARING_SHARE + _WITHOUT_SHARE * (many / max(1, len(jobs)))
            progress(f"planning without each node: {many} of {len(jobs)}", done)

        tell(0)
        found = [done.result for done in run_parallel(jobs, tell)]
        return [each for each in [needed, *found] if each is not None]


STRATEGIES = (Auto,)


def _warnings(chosen: Plan, task: Task) -> tuple[str, ...] | None:
    """What whoever made a plan for a loss says of its codecs, data and margin, which the price alone does not tell."""
    return None if task.goal.loss is None or chosen.estimate is None else chosen.estimate.warnings


def _are_late(found: Comparison) -> bool:
    """Whether a deadline rules plans out: one that leaves a node out may meet it, as it may be the fastest of all."""
    return any(isinstance(error, Infeasible) and error.least_s is not None for error in found.skipped.values())


def simplest_best(plans: Sequence[Plan], objective: PlanObjective) -> Plan:
    """The best plan; of several that are as good, the first with the fewest instances."""
    least = min(map(objective.of, plans))
    best = [plan for plan in plans if objective.of(plan) <= least * _EQUAL]
    return min(best, key=lambda plan: sum(len(phase.instances) for phase in plan.phases))


def _thresholds(chosen: Plan, objective: PlanObjective) -> list[LinkThreshold]:
    """Where the answer changes with each kind of link, all tried in parallel."""
    from palmette.plan.auto.links import link_thresholds, links_to_try
    from palmette.plan.core.parallel import run_parallel

    jobs: list[Callable[[], list[LinkThreshold]]] = [
        partial(link_thresholds, chosen, group, objective) for group in links_to_try(chosen, objective.task)
    ]
    return [found for done in run_parallel(jobs) for found in done.result or []]


def _variables(chosen: Plan, others: Sequence[Plan], objective: PlanObjective, found: Findings) -> dict[str, Any]:
    from palmette.plan.auto.explanation import explain

    variables: dict[str, Any] = {
        "strategy": chosen.strategy,
        "goal": str(objective.task.goal),
        "value": objective.of(chosen),
        "epochs": objective.task.horizon,
        "by_epochs": [each.as_json() for each in found.ranges],
        "why": explain(chosen, others, objective, found),
        "compared": {plan.strategy: objective.of(plan) for plan in others},
        "links": [each.as_json() for each in found.thresholds],
        "nodes": [each.as_json(chosen, objective) for each in found.without],
        "decision": chosen.decision,
    }
    return variables | _distance(objective.of(chosen), others, objective) | _ways_to_begin(others)


def _by_epochs(chosen: Plan, others: Sequence[Plan], objective: PlanObjective) -> list[BestFrom]:
    """Which plan is best from how many epochs on, where that matters and no loss or deadline decides it."""
    from palmette.plan.auto.horizon import best_by_epochs, depends_on_epochs

    goal = objective.task.goal
    if goal.loss is not None or goal.deadline_s is not None or not depends_on_epochs([chosen, *others]):
        return []
    return best_by_epochs(chosen, others, objective)


def _ways_to_begin(others: Sequence[Plan]) -> dict[str, Any]:
    """What a search says about training on the way and upload first."""
    from palmette.plan.auto.objective import found_by_search

    ways = [plan.decision["on_the_way"] for plan in found_by_search(others) if "on_the_way" in plan.decision]
    return {"on_the_way": ways[0]} if ways else {}


def _distance(value: float, others: Sequence[Plan], objective: PlanObjective) -> dict[str, Any]:
    """How far the plan may be from the best possible: a search has a bound of an iteration, on the whole cluster.

    A plan below the bound is of another kind than those that the search is about; nothing is known of its distance.
    """
    from palmette.plan.auto.objective import found_by_search
    from palmette.plan.hybrid.strategy import stated_bound

    bounds = [plan.decision["lower_bound"] for plan in found_by_search(others) if "lower_bound" in plan.decision]
    if not bounds or objective.task.goal.deadline_s is not None or objective.task.goal.loss is not None:
        return {}
    return stated_bound(bounds[0], value)
