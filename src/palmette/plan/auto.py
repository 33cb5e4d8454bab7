"""Auto: the best of all strategies for the goal, why it wins, and what would change the answer.

All strategies plan in parallel; ``hybrid``, where it applies, has gone downhill from the plans of its rivals. Then each
link is made faster and slower until another strategy wins, and each node is left out, so that the answer says what it
stands on. A plan without a node that turns out to be better is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.plan.strategy import Decision, Task
from palmette.spec.learning import Learning
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.problem import Problem

if TYPE_CHECKING:
    from palmette.plan.auto_search.links import Turn
    from palmette.plan.auto_search.nodes import Without
    from palmette.plan.auto_search.worth import Worth

_EQUAL = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Auto:
    """The best of all strategies."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the best of all strategies for the goal, why, and what would change the answer"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = True
    composed: ClassVar[bool] = True

    learning: Learning | None = field(default=None, metadata={"help": "How the loss falls, for --loss."})
    measurements: Measurements | None = field(default=None, metadata={"help": "A table for cluster."})
    problem: Problem | None = field(default=None, metadata={"help": "A table for PACT."})

    def __post_init__(self) -> None:
        from palmette.plan.auto_search import words  # noqa: F401 -- imports are no part of plan_s

    def decide(self, task: Task) -> Decision:
        """Take the best, and find out why."""
        from palmette.plan.auto_search.worth import worth
        from palmette.plan.comparison import compare

        options = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        found = compare(task, options)
        if not found.plans:
            found.refuse()
        goal = worth(task, found.plans, options)
        chosen = simplest_best(found.plans, goal)
        turned, spared = _asked(chosen, goal)
        better = simplest_best([chosen, *(each.plan for each in spared if each.plan is not None)], goal)
        if better is not chosen:
            chosen = better
            turned, spared = _asked(chosen, goal)
        return Decision(
            chosen.phases, _variables(chosen, found.plans, goal, turned, spared), chosen.model, chosen.batch
        )


STRATEGIES = (Auto,)


def simplest_best(plans: Sequence[Plan], goal: Worth) -> Plan:
    """The best plan; of several that are as good, the first with the fewest instances."""
    least = min(map(goal.of, plans))
    best = [plan for plan in plans if goal.of(plan) <= least * _EQUAL]
    return min(best, key=lambda plan: sum(len(phase.instances) for phase in plan.phases))


def _asked(chosen: Plan, goal: Worth) -> tuple[list[Turn], list[Without]]:
    """Where the answer turns with each link, and the best plan without each node; all asked in parallel."""
    from palmette.plan.auto_search.links import links_to_ask, turns
    from palmette.plan.auto_search.nodes import nodes_to_ask, without
    from palmette.plan.parallel import side_by_side

    strategies = list(dict.fromkeys(["hybrid", chosen.strategy]))
    links: list[Callable[[], Any]] = [partial(turns, chosen, link, goal) for link in links_to_ask(chosen, goal.task)]
    nodes: list[Callable[[], Any]] = [partial(without, node, strategies, goal) for node in nodes_to_ask(chosen)]
    answers = [done.result for done in side_by_side([*nodes, *links])]
    spared = [each for each in answers[: len(nodes)] if each is not None]
    return [turn for found in answers[len(nodes) :] if found for turn in found], spared


def _variables(
    chosen: Plan, others: Sequence[Plan], goal: Worth, turned: Sequence[Turn], spared: Sequence[Without]
) -> dict[str, Any]:
    from palmette.plan.auto_search.words import paragraph

    return {
        "strategy": chosen.strategy,
        "goal": str(goal.task.goal),
        "value": goal.of(chosen),
        "why": paragraph(chosen, others, goal, turned, spared),
        "compared": {plan.strategy: goal.of(plan) for plan in others},
        "links": [turn.as_json() for turn in turned],
        "nodes": [each.as_json(chosen) for each in spared],
        "decision": chosen.decision,
    }
