"""Auto: the best of all strategies for the goal, why it wins, and what would change the answer.

All strategies plan in parallel; ``hybrid``, where it applies, has gone downhill from the plans of its rivals. It plans
again without each kind of node, so that the answer says what it stands on; a plan that turns out to be better is taken.
Then each kind of link is made faster and slower until another strategy wins. Plans that change numbers on their way
(8-bit integers) are taken only where that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.cost.batch_norm import FLOOR
from palmette.errors import Fault, InputError
from palmette.plan.core.comparison import is_lossy, small_norm_parts
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.hybrid.strategy import refuse_floor
from palmette.spec.learning import Learning
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.problem import Problem

if TYPE_CHECKING:
    from palmette.plan.auto.links import Turn
    from palmette.plan.auto.nodes import Without
    from palmette.plan.auto.objective import Worth

_EQUAL = 1 + 1e-9
_COMPARING, _ASKING = 0.5, 0.4  # shares of --seconds: the search itself, and those without a node


@dataclass(frozen=True, kw_only=True)
class Auto(Strategy):
    """The best of all strategies."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the best of all strategies for the goal, why, and what would change the answer"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True
    composed: ClassVar[bool] = True

    lossy: bool = field(default=False, metadata={"help": "Allow outputs to travel as 8-bit integers."})
    seconds: float | None = field(
        default=None,
        metadata={"help": "Take about so long; by default a fixed effort, so that a seed gives the same plan."},
    )
    batch_norm_floor: int = field(
        default=FLOOR,
        metadata={"help": "The fewest samples that batch norm may see by themselves; smaller parts share statistics."},
    )
    learning: Learning | None = field(default=None, metadata={"help": "How the loss falls, for --loss."})
    measurements: Measurements | None = field(default=None, metadata={"help": "A table for cluster."})
    problem: Problem | None = field(default=None, metadata={"help": "A table for PACT."})

    def __post_init__(self) -> None:
        refuse_floor(self.batch_norm_floor)
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InputError(Fault("--seconds", self.seconds, "expected more than 0"))
        from palmette.plan.auto import explanation  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """Take the best, and find out why."""
        from palmette.plan.auto.nodes import in_use
        from palmette.plan.auto.objective import worth
        from palmette.plan.core.comparison import compare

        found = compare(task, self._options(_COMPARING))
        left_out = {plan.strategy: why for plan in found.plans if (why := self._harm(plan, task)) is not None}
        plans = [plan for plan in found.plans if plan.strategy not in left_out]
        if not plans:
            found.refuse()
        goal = worth(task, plans, self._options())
        spared = self._spared(plans[0], goal)
        chosen = simplest_best([*plans, *(each.plan for each in spared if each.plan is not None)], goal)
        told = in_use(spared, chosen)
        variables = _variables(chosen, plans, goal, _turned(chosen, goal), told)
        if left_out:
            variables["left_out"] = left_out
        return Decision(chosen.phases, variables, chosen.model, chosen.batch)

    def _harm(self, plan: Plan, task: Task) -> str | None:
        """What a plan would do to the training that nobody has allowed; None where it does no harm."""
        if is_lossy(plan) and not self.lossy:
            return "8-bit outputs; --lossy allows them"
        small = small_norm_parts(plan, task.evaluator, self.batch_norm_floor)
        if small:
            least = min(part.samples for part in small)
            return f"batch norm over {least} samples by themselves; --batch-norm-floor {least} allows them"
        return None

    def _options(self, share: float | None = None) -> dict[str, Any]:
        """What strategies are given of these options; of the seconds a share."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given["seconds"] = None if self.seconds is None or share is None else share * self.seconds
        return {name: value for name, value in given.items() if value is not None}

    def _spared(self, first: Plan, goal: Worth) -> list[Without]:
        """The best plan without each kind of node, all asked in parallel."""
        from palmette.plan.auto.nodes import needed_for_their_data, nodes_to_ask, without
        from palmette.plan.core.parallel import helpers, side_by_side

        asked = nodes_to_ask(goal.task)
        rounds = math.ceil(len(asked) / helpers()) or 1
        options = self._options(_ASKING / rounds)
        searching = [name for name, kind in strategies().items() if kind.starts_from_others]
        names = list(dict.fromkeys([*searching, first.strategy]))
        jobs: list[Callable[[], Without]] = [partial(without, group, names, goal, options) for group in asked]
        needed = needed_for_their_data(goal.task)
        found = [done.result for done in side_by_side(jobs)]
        return [each for each in [needed, *found] if each is not None]


STRATEGIES = (Auto,)


def simplest_best(plans: Sequence[Plan], goal: Worth) -> Plan:
    """The best plan; of several that are as good, the first with the fewest instances."""
    least = min(map(goal.of, plans))
    best = [plan for plan in plans if goal.of(plan) <= least * _EQUAL]
    return min(best, key=lambda plan: sum(len(phase.instances) for phase in plan.phases))


def _turned(chosen: Plan, goal: Worth) -> list[Turn]:
    """Where the answer turns with each kind of link, all asked in parallel."""
    from palmette.plan.auto.links import links_to_ask, turns
    from palmette.plan.core.parallel import side_by_side

    jobs: list[Callable[[], list[Turn]]] = [
        partial(turns, chosen, group, goal) for group in links_to_ask(chosen, goal.task)
    ]
    return [turn for done in side_by_side(jobs) for turn in done.result or []]


def _variables(
    chosen: Plan, others: Sequence[Plan], goal: Worth, turned: Sequence[Turn], told: Sequence[Without]
) -> dict[str, Any]:
    from palmette.plan.auto.explanation import paragraph

    variables: dict[str, Any] = {
        "strategy": chosen.strategy,
        "goal": str(goal.task.goal),
        "value": goal.of(chosen),
        "why": paragraph(chosen, others, goal, turned, told),
        "compared": {plan.strategy: goal.of(plan) for plan in others},
        "links": [turn.as_json() for turn in turned],
        "nodes": [each.as_json(chosen) for each in told],
        "decision": chosen.decision,
    }
    return variables | _distance(goal.of(chosen), others, goal)


def _distance(value: float, others: Sequence[Plan], goal: Worth) -> dict[str, Any]:
    """How far the plan may be from the best possible: a search has a bound of an iteration, on the whole cluster."""
    from palmette.plan.auto.objective import found_by_search

    bounds = [plan.decision["lower_bound"] for plan in found_by_search(others)]
    if not bounds or goal.task.goal.deadline_s is not None or goal.task.goal.loss is not None:
        return {}
    least = min(bounds[0], value)
    return {"lower_bound": least, "gap": 1 - least / value if value else 0.0}
