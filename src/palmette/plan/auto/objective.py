"""The goal as one number for a plan, on the task's cluster or on one that differs in a link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.plan.core.comparison import cost, mean_iteration
from palmette.plan.core.registry import find
from palmette.plan.core.strategy import Task
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Quantity, Spending, value
from palmette.spec.plan import Plan


@dataclass(frozen=True)
class PlanObjective:
    """The goal as one number: less is better. Quantities of a weighted sum are divided by their units, where known."""

    task: Task
    units: Mapping[Quantity, float]
    options: Mapping[str, Any]

    def of(self, plan: Plan) -> float:
        """The value of a priced plan."""
        return self.over(plan, self.task.horizon)

    def over(self, plan: Plan, epochs: int) -> float:
        """The value of a priced plan if it is used for so many epochs."""
        spent = cost(plan, self.task.goal, epochs)
        return sum(
            weight * value(quantity, *spent) / self.units.get(quantity, 1.0)
            for quantity, weight in self.task.goal.weights.items()
        )

    def mean(self, plan: Plan) -> Spending:
        """What a priced plan's iteration takes in the mean over the task's epochs."""
        return mean_iteration(estimate_of(plan), self.task.horizon)

    def on(self, plan: Plan, task: Task) -> float:
        """The value of a plan for another task; infinite where it may not run there."""
        if check(plan, task.evaluator):
            return math.inf
        return self.of(plan.model_copy(update={"estimate": summary(plan, task.evaluator, epochs=task.epochs)}))


def plan_objective(task: Task, plans: Sequence[Plan], options: Mapping[str, Any]) -> PlanObjective:
    """The goal of a task as one number, for plans that were compared.

    A weighted sum is over the units of a search, which no deadline changes; else over the best of the plans, if any.
    """
    costs = [cost(plan, task.goal, task.horizon) for plan in plans]
    single, whole = task.goal.single is not None, task.goal.deadline_s is not None or task.goal.loss is not None
    searched: dict[Quantity, float] = next((plan.decision.get("units", {}) for plan in found_by_search(plans)), {})
    units = {
        quantity: 1.0 if single else min(value(quantity, *each) for each in costs) or 1.0
        for quantity in (task.goal.weights if single or plans else ())
    }
    return PlanObjective(task, units if single or whole else {**units, **searched}, options)


def found_by_search(plans: Sequence[Plan]) -> list[Plan]:
    """The plans of strategies that search on from the others' plans."""
    return [plan for plan in plans if find(plan.strategy).starts_from_others]


def with_bandwidth(task: Task, link: int, factor: float) -> Task:
    """The task with the bandwidth of one link multiplied by a factor."""
    links = list(task.cluster.links)
    links[link] = links[link].scaled(factor)
    return replace(task, cluster=task.cluster.model_copy(update={"links": tuple(links)}))


def estimate_of(plan: Plan) -> Estimate:
    """The estimate of a plan that was compared."""
    assert plan.estimate is not None, "only plans with a price are compared"
    return plan.estimate
