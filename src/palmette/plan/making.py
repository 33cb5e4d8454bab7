"""From a strategy's decision to a plan: timed, checked and priced, the same for all strategies."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.errors import Fault, InputError, expected_name
from palmette.plan import find
from palmette.plan.strategy import Strategy, Task
from palmette.spec.plan import Inputs, Plan


def configured(name: str, options: dict[str, Any]) -> Strategy:
    """The strategy of this name with the given options.

    Raises:
        InputError: there is no such strategy, or it has no such option.
    """
    kind = find(name)
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for option, value in options.items():
        if option not in known:
            raise InputError(Fault(option, value, expected_name(option, f"option of {name}", known)))
    return kind(**options)


def make_plan(strategy: Strategy, task: Task) -> Plan:
    """The strategy's plan for a task, with its estimate and the seconds it took to find.

    Raises:
        InputError: the task lacks something, or asks for what this strategy does not decide.
        Infeasible: no plan can meet the goal.
    """
    _wants_what_it_can(strategy, task)
    prices = task.evaluator
    began = time.perf_counter()
    decision = strategy.decide(task)
    plan_s = time.perf_counter() - began
    plan = Plan(
        strategy=strategy.name,
        model=task.profile.model,
        batch=task.batch,
        decision=decision.variables,
        phases=decision.phases,
        plan_s=plan_s,
        inputs=Inputs(cluster=task.cluster, profile=task.profile),
    )
    wrong = check(plan, prices)
    assert not wrong, f"{strategy.name} made a plan that cannot be carried out: {wrong[0]}"
    return plan.model_copy(update={"estimate": summary(plan, prices)})


def _wants_what_it_can(strategy: Strategy, task: Task) -> None:
    wishes = {"--deadline": task.goal.deadline_s, "--loss": task.goal.loss}
    for option, value in wishes.items():
        if value is not None and not strategy.plans_epochs:
            expected = f"{strategy.name} does not decide how long to train; expected --iteration-deadline or neither"
            raise InputError(Fault(option, value, expected))
