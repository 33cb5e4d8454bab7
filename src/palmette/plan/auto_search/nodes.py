"""What a node is good for: the best plan in which it computes nothing, beside the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from palmette.errors import Infeasible, PalmetteError
from palmette.plan.auto_search.worth import Worth, estimate_of
from palmette.plan.comparison import planned
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

MOST_NODES = 6


@dataclass(frozen=True)
class Without:
    """The best plan without a node; None where it cannot be done without, and why."""

    node: str
    plan: Plan | None
    reason: str | None

    def as_json(self, chosen: Plan) -> dict[str, Any]:
        """As it stands in a decision: what the node saves in the chosen plan; less than 0 where it costs."""
        if self.plan is None:
            return {"node": self.node, "needed": True, "why": self.reason}
        here, there = estimate_of(chosen), estimate_of(self.plan)
        joules = None
        if here.iteration_j is not None and there.iteration_j is not None:
            joules = there.iteration_j - here.iteration_j
        saved_s = there.iteration_s - here.iteration_s
        return {"node": self.node, "needed": False, "saves_s": saved_s, "saves_j": joules}


def nodes_to_ask(plan: Plan) -> Sequence[str]:
    """The nodes that compute in a plan, the busiest first, as many as are looked at; one alone has no others."""
    hosts = dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances)
    parts = estimate_of(plan).nodes or {}
    busiest = sorted(hosts, key=lambda name: -parts[name].busy_s if name in parts else 0.0)
    return busiest[:MOST_NODES] if len(busiest) > 1 else []


def without(node: str, strategies: Sequence[str], goal: Worth) -> Without:
    """The best plan of these strategies in which a node computes nothing."""
    task = replace(goal.task, profile=_idle(goal.task.profile, node))
    found: list[Plan] = []
    reason = ""
    for name in strategies:
        try:
            found.append(planned(name, task, goal.options))
        except PalmetteError as error:
            reason = reason if reason and not isinstance(error, Infeasible) else str(error).splitlines()[0]
    best = min(found, key=goal.of, default=None)
    return Without(node, best, None if best is not None else reason)


def _idle(profile: Profile, node: str) -> Profile:
    """The profile without a node's times, so that no instance can be placed there."""

    def kept(nodes: Any) -> dict[str, Any]:
        return {name: times for name, times in nodes.items() if name != node}

    variants = {
        ratio: table.model_copy(update={"nodes": kept(table.nodes)}) for ratio, table in profile.variants.items()
    }
    return profile.model_copy(update={"nodes": kept(profile.nodes), "variants": variants})
