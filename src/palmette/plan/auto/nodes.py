"""What a node contributes: the best plan in which it computes nothing, beside the chosen one.

One of several equal nodes is tried. Which ones depends on the cluster alone, never on the goal: a plan without a node
may turn out to be the best, and a constraint must not find what its absence does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palmette.errors import Infeasible, PalmetteError
from palmette.plan.auto.objective import PlanObjective
from palmette.plan.auto.symmetry import equal_nodes
from palmette.plan.core.comparison import planned
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

MOST_TRIED = 6
_SMALL, _LESS = 8, 0.15  # clusters of more nodes are searched with a part of the effort for each node that is left out


@dataclass(frozen=True)
class PlanWithout:
    """The best plan without one of several equal nodes; None where it is needed, and why."""

    nodes: tuple[str, ...]
    plan: Plan | None
    reason: str | None

    def as_json(self, chosen: Plan, objective: PlanObjective) -> dict[str, Any]:
        """As it stands in a decision: what the node saves in the chosen plan; less than 0 where it costs."""
        who: dict[str, Any] = {"node": self.nodes[0]}
        if len(self.nodes) > 1:
            who["alike"] = list(self.nodes[1:])
        if self.plan is None:
            return who | {"needed": True, "why": self.reason}
        saved = objective.mean(self.plan).plus(objective.mean(chosen).times(-1))
        more = {"saves_cost": saved.cost, "saves_carbon_g": saved.carbon_g}
        known = {name: value for name, value in more.items() if value is not None}
        return who | {"needed": False, "saves_s": saved.time_s, "saves_j": saved.energy_j} | known


def nodes_to_try(task: Task) -> list[tuple[str, ...]]:
    """Equal nodes that could be left out, those first that compute fastest; as many groups as are tried."""
    known = [name for name in task.cluster.nodes if name in task.profile.nodes and not _is_private(task, name)]
    if len(task.profile.nodes) < 2:
        return []
    fastest = sorted(known, key=lambda name: sum(task.profile.nodes[name].forward_s))
    return equal_nodes(task, fastest)[:MOST_TRIED]


def needed_for_their_data(task: Task) -> PlanWithout | None:
    """The nodes whose private data may not leave them, all in one; they need not be tried."""
    owners = tuple(name for name in task.cluster.nodes if _is_private(task, name))
    why = "its data is private" if len(owners) == 1 else "their data is private"
    return PlanWithout(owners, None, why) if owners else None


def of_computing_nodes(without: Sequence[PlanWithout], chosen: Plan) -> list[PlanWithout]:
    """What to state about a plan: of the nodes that compute in it, if several do."""
    hosts = {instance.node for phase in chosen.phases for instance in phase.instances}
    shown = [replace(each, nodes=tuple(name for name in each.nodes if name in hosts)) for each in without]
    return [each for each in shown if each.nodes] if len(hosts) > 1 else []


def plan_without(
    nodes: tuple[str, ...], strategies: Sequence[str], objective: PlanObjective, options: Mapping[str, Any]
) -> PlanWithout:
    """The best plan of these strategies in which the first of several equal nodes computes nothing."""
    task = replace(objective.task, profile=_without_times(objective.task.profile, nodes[0]))
    if not task.goal.single and objective.units:
        task = replace(task, goal=replace(task.goal, units=objective.units))
    less = {} if len(task.cluster.nodes) <= _SMALL else {"effort": _LESS}
    found: list[Plan] = []
    reason = ""
    for name in strategies:
        try:
            found.append(planned(name, task, {**options, **less}))
        except PalmetteError as error:
            reason = reason if reason and not isinstance(error, Infeasible) else str(error).splitlines()[0]
    best = min(found, key=objective.of, default=None)
    return PlanWithout(nodes, best, None if best is not None else reason)


def _is_private(task: Task, name: str) -> bool:
    source = task.cluster.nodes[name].source
    return source is not None and bool(source.private)


def _without_times(profile: Profile, node: str) -> Profile:
    """The profile without a node's times, so that no instance can be placed there."""

    def kept(nodes: Any) -> dict[str, Any]:
        return {name: times for name, times in nodes.items() if name != node}

    variants = {
        ratio: table.model_copy(update={"nodes": kept(table.nodes)}) for ratio, table in profile.variants.items()
    }
    return profile.model_copy(update={"nodes": kept(profile.nodes), "variants": variants})
