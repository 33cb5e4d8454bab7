"""Near first: train where the data is while it is uploaded, then where it has arrived.

The first phase trains the whole network at the owner of the data, and sends all samples to another node in the
background; the second trains there, on samples that it finds. It pays where the owner trains more than one epoch in the
time of the upload: training on samples as they arrive trains one.

    owner      ├── train ── train ── train ──┤
    link       ├──────── upload ────────┤
    other node                               ├─ train ─ train …
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.errors import ArgumentFault, Fault, Infeasible, InputError, too_late
from palmette.plan.core.choice import score
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.owner import data_owner
from palmette.plan.core.recompute import recompute_to_fit
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.core.upload import upload_nodes, upload_to
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Spending
from palmette.spec.plan import Phase, Plan

Phases = tuple[Phase, Phase]


@dataclass(frozen=True)
class NearFirst(Strategy):
    """At the owner of the data first, then where the data has been uploaded to."""

    name: ClassVar[str] = "near-first"
    summary: ClassVar[str] = "where the data is while it is uploaded, then on the best node that has it"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    plans_quickly: ClassVar[bool] = True
    changes_nodes: ClassVar[bool] = True

    def decide(self, task: Task) -> Decision:
        """Try every other node, and the lengths of the first phase at which the upload is just over."""
        if task.epochs is None:
            raise InputError(ArgumentFault("epochs", "missing", "near-first needs it: it changes nodes on the way"))
        owner = data_owner(task, self.name)
        priced = [(phases, _price(phases, task)) for phases in _candidates(task, owner, task.epochs)]
        found = [(phases, estimate) for phases, estimate in priced if estimate is not None]
        if not found:
            raise Infeasible(Fault("nodes", owner, "its data can be uploaded to no other node while it trains"))
        found = _in_time(found, task)
        if not found:
            raise Infeasible(Fault("nodes", owner, "no plan meets both deadlines"))
        scores = score([each.spending("total") or Spending(math.inf, None) for _, each in found], task.goal)
        (near, far), estimate = found[scores.index(min(scores))]
        variables = {
            "node": far.instances[0].node,
            "near_epochs": near.epochs,
            "total_s": estimate.total_s,
            "total_j": estimate.total_j,
        }
        return Decision((near, far), variables)


STRATEGIES = (NearFirst,)


def _in_time(found: list[tuple[Phases, Estimate]], task: Task) -> list[tuple[Phases, Estimate]]:
    """Those that meet the deadlines of the goal.

    Raises:
        Infeasible: there is none; names the closest.
    """
    for argument, limit_s, times_s in (
        ("iteration_deadline_s", task.goal.iteration_deadline_s, [_iteration_s(phases, task) for phases, _ in found]),
        ("deadline_s", task.goal.deadline_s, [estimate.total_s or 0.0 for _, estimate in found]),
    ):
        if limit_s is not None and min(times_s) > limit_s:
            raise too_late(argument, limit_s, min(times_s))
    return [each for each in found if _meets(*each, task)]


def _meets(phases: Phases, estimate: Estimate, task: Task) -> bool:
    single_s, whole_s = task.goal.iteration_deadline_s, task.goal.deadline_s
    in_time = single_s is None or _iteration_s(phases, task) <= single_s
    return in_time and (whole_s is None or (estimate.total_s or 0.0) <= whole_s)


def _iteration_s(phases: Phases, task: Task) -> float:
    """The longer of both phases' iterations."""
    return max(task.evaluator.price(phase).iteration_s for phase in phases)


def _candidates(task: Task, owner: str, epochs: int) -> Iterator[Phases]:
    """The owner, then another node; the first phase as long as the upload takes, or an epoch more or less."""
    if owner not in task.profile.nodes:
        return
    near = recompute_to_fit(on_one_node(owner, task), task)
    near_s = task.evaluator.price(near).epoch.time_s
    for node in upload_nodes(task):
        far = upload_to(node, task, ahead=True)
        if node == owner or task.evaluator.routes.between(owner, node) is None:
            continue
        upload_s = _upload_s(far, task)
        whole = math.ceil(upload_s / near_s) if near_s else 1
        for many in sorted({1, whole - 1, whole, whole + 1, epochs - 1} & set(range(1, epochs))):
            yield (
                near.model_copy(update={"upload": (node,), "epochs": many}),
                far.model_copy(update={"epochs": epochs - many}),
            )


def _upload_s(far: Phase, task: Task) -> float:
    """Seconds that all samples take to a node."""
    price = task.evaluator.price(far.model_copy(update={"ahead": False}))
    return price.first_epoch.time_s - price.epoch.time_s


def _price(phases: Phases, task: Task) -> Estimate | None:
    """The price of the whole; None where a node may not take part so."""
    plan = Plan(model=task.profile.model, batch=task.batch, phases=phases)
    return None if check(plan, task.evaluator) else summary(plan, task.evaluator)
