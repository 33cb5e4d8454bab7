"""From a strategy's decision to a plan: timed, checked and priced, the same for all strategies."""

from __future__ import annotations

import time
from dataclasses import MISSING, fields
from typing import Any, cast

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.errors import Fault, InputError, expected_name
from palmette.plan import find
from palmette.plan.strategy import Ask, Strategy, Task
from palmette.spec.plan import Inputs, Plan


def configured(name: str, options: dict[str, Any]) -> Strategy:
    """The strategy of this name with the given options.

    Raises:
        InputError: there is no such strategy, it has no such option, or one that it needs is missing.
    """
    kind = find(name)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for option, value in options.items():
        if option not in known:
            raise InputError(Fault(option, value, expected_name(option, f"option of {name}", list(known))))
    for option, own in known.items():
        if option not in options and own.default is MISSING and own.default_factory is MISSING:
            raise InputError(_lacks(name, option))
    return kind(**options)


def make_plan(strategy: Strategy, ask: Ask) -> Plan:
    """The strategy's plan, with its estimate and the seconds it took to find.

    Raises:
        InputError: the task lacks something, or asks for what this strategy does not decide.
        Infeasible: no plan can meet the goal.
    """
    _wants_what_it_can(strategy, ask)
    task = _task(strategy, ask)
    prices = task.evaluator if isinstance(task, Task) else None
    began = time.perf_counter()
    decision = strategy.decide(task)
    plan_s = time.perf_counter() - began
    plan = Plan(
        strategy=strategy.name,
        model=decision.model or (ask.profile.model if ask.profile else "unnamed"),
        batch=decision.batch or ask.batch,
        decision=decision.variables,
        phases=decision.phases,
        plan_s=plan_s,
        inputs=Inputs(cluster=ask.cluster, profile=ask.profile),
    )
    if prices is None or not plan.phases:
        return plan
    wrong = check(plan, prices)
    assert not wrong, f"{strategy.name} made a plan that cannot be carried out: {wrong[0]}"
    return plan.model_copy(update={"estimate": summary(plan, prices)})


def _task(strategy: Strategy, ask: Ask) -> Task:
    """What the strategy is given; one that takes tables is content with an ``Ask``."""
    if strategy.needs_profile and not isinstance(ask, Task):
        given = {"profile": ask.profile, "cluster": ask.cluster}
        raise InputError(_lacks(strategy.name, option) for option, found in given.items() if found is None)
    return cast("Task", ask)


def _lacks(name: str, option: str) -> Fault:
    return Fault(f"--{option.replace('_', '-')}", "missing", f"{name} needs it; expected a file")


def _wants_what_it_can(strategy: Strategy, ask: Ask) -> None:
    wishes = {"--deadline": ask.goal.deadline_s, "--loss": ask.goal.loss}
    for option, value in wishes.items():
        if value is not None and not strategy.plans_epochs:
            expected = f"{strategy.name} does not decide how long to train; expected --iteration-deadline or neither"
            raise InputError(Fault(option, value, expected))
