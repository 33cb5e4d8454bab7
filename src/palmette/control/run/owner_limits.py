"""A plan within what the owners of the machines allow: limits of workers at a hub count as those of their nodes."""

from __future__ import annotations

from dataclasses import dataclass

from palmette.control.adapt.replanning import can_replan, replan_for
from palmette.control.run.engines import membership_of
from palmette.control.run.request import Request
from palmette.cost.check import check
from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError, listed
from palmette.runtime.optimizer_choice import optimizer_cost
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Inputs, Plan, inputs_of


@dataclass(frozen=True)
class PlanWithinLimits:
    """A plan for the cluster that owners allow; ``reason`` is why it is not the one that was given, if it is not."""

    plan: Plan
    reason: str | None = None


def within_owner_limits(plan: Plan, request: Request) -> PlanWithinLimits:
    """The same plan where it keeps to what owners of workers that are there allow; else its strategy's plan for that.

    Raises:
        InputError: it takes more than they allow, and cannot be made again.
        RunError: no plan takes as little.
    """
    profile, cluster = inputs_of(plan, None, None)
    cost = optimizer_cost(request.options)
    limited = membership_of(request).limited(cluster)
    if limited == cluster:
        return PlanWithinLimits(plan)
    kept = plan.model_copy(update={"inputs": Inputs(cluster=limited, profile=profile)})
    wrong = check(kept, evaluator(profile, limited, cost))
    if not wrong:
        return PlanWithinLimits(kept)
    if not (request.replan and can_replan(plan)):
        raise InputError(Fault(w.field, w.value, f"{w.expected}, by the limits of its worker") for w in wrong)
    reason = f"the plan takes more than the owner of {listed(_limited_nodes(cluster, limited))} allows"
    return PlanWithinLimits(replan_for(kept, limited, reason), reason)


def _limited_nodes(cluster: Cluster, limited: Cluster) -> list[str]:
    return [name for name, node in cluster.nodes.items() if limited.nodes[name] != node]
