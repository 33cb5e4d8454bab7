"""From a strategy's decision to a plan: timed, checked and priced, the same for all strategies."""

from __future__ import annotations

import time
from dataclasses import MISSING, fields, replace
from typing import Any, cast, get_args, get_type_hints

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.cost.evaluate import Evaluator
from palmette.cost.moments import moments
from palmette.cost.operations import exchanges_weights
from palmette.cost.optimizer import accumulating, known_optimizer, recorded_name
from palmette.errors import Argument, ArgumentFault, Fault, InputError, Message, expected_name
from palmette.plan.core.registry import find
from palmette.plan.core.strategy import PlanRequest, Strategy, Task
from palmette.plan.core.tensor_input import phase_of_tensors
from palmette.spec.cluster import Cluster
from palmette.spec.document import Document
from palmette.spec.exchange import Exchange
from palmette.spec.files import validated
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Asked, Inputs, Phase, Plan, known_input_as

RETIRED_OPTIONS = frozenset({"lossless"})
"""Options of earlier versions that plans may record: what they forbade is now forbidden by default."""


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


def make_plan(strategy: Strategy, ask: PlanRequest) -> Plan:
    """The strategy's plan, with its estimate and the seconds it took to find.

    Raises:
        InputError: the task lacks something, or asks for what this strategy does not decide.
        Infeasible: no plan can meet the goal.
    """
    _refuse_other_goals(strategy, ask)
    task = _task(strategy, ask)
    prices = task.evaluator if isinstance(task, Task) else None
    _refuse_exchange(ask, prices)
    began = time.perf_counter()
    decision = strategy.decide(of_what_holds(task))
    plan_s = time.perf_counter() - began
    plan = Plan(
        strategy=strategy.name,
        model=decision.model or (ask.profile.model if ask.profile else "unnamed"),
        batch=decision.batch or ask.batch,
        decision=decision.variables,
        phases=_as_asked(decision.phases, ask, prices),
        plan_s=plan_s,
        asked=_request(strategy, ask),
        inputs=Inputs(cluster=ask.cluster, profile=ask.profile),
    )
    if prices is None or not plan.phases:
        return plan
    wrong = check(plan, prices)
    assert not wrong, f"{strategy.name} made a plan that cannot be executed: {wrong[0]}"
    varying = {"moments": moments(plan.phases[0], prices)} if prices.cluster.varies else {}
    estimate = summary(plan, prices, epochs=ask.epochs)
    if decision.warnings is not None:
        estimate = estimate.model_copy(update={"warnings": decision.warnings})
    return plan.model_copy(update={"estimate": estimate, "decision": plan.decision | varying})


def of_what_holds(task: Task) -> Task:
    """The task; where a plan shall hold for a share of the time, with what links reach that long."""
    if task.robust is None or task.cluster is None:
        return task
    return replace(task, cluster=task.cluster.robust(task.robust), robust=None)


def _as_asked(phases: tuple[Phase, ...], ask: PlanRequest, prices: Evaluator | None) -> tuple[Phase, ...]:
    """The phases, with samples and gradients in the form that was asked for."""
    made = tuple(map(phase_of_tensors, phases)) if ask.input_as == "tensor" else phases
    made = tuple(with_exchange(phase, ask.exchange) for phase in made)
    return made if prices is None or not ask.overlap else tuple(overlapped(phase, prices) for phase in made)


def overlapped(phase: Phase, prices: Evaluator) -> Phase:
    """A phase whose gradients are sent during backward; itself where that is no faster."""
    if not phase.sync_kind.one_model:
        return phase
    other = phase.model_copy(update={"overlap": True})
    return other if prices.price(other).iteration_s < prices.price(phase).iteration_s else phase


def with_exchange(phase: Phase, exchange: Exchange) -> Phase:
    """A phase whose gradients or differences travel so; itself where none do."""
    if phase.draws_clients:
        return phase  # those that sat out a round have no weights to add coded differences to
    if phase.sync_kind.averages_weights:
        travels = exchanges_weights(phase) and {each.node for each in phase.instances} != {phase.meeting_node}
    else:
        travels = phase.sync_kind.one_model and len({each.node for each in phase.instances}) > 1
    return phase.model_copy(update={"exchange": exchange}) if travels and exchange.kind.lossy else phase


def _refuse_exchange(ask: PlanRequest, prices: Evaluator | None) -> None:
    """Refuse a codec whose messages the profile does not tell the size of."""
    if prices is not None and ask.exchange.kind.needs_shapes and not prices.sizes().has_shapes:
        expected = "the profile has no shapes of weights; expected another codec, or a new profile"
        raise InputError(ArgumentFault("exchange_codec", ask.exchange.codec, expected))


def replan(plan: Plan, cluster: Cluster) -> Plan:
    """The plan that the same strategy makes for another cluster, with the same goal and options.

    Raises:
        InputError: the plan does not record its request, or the cluster lacks something that the strategy needs.
        Infeasible: no plan can meet the goal on this cluster.
    """
    asked, profile = plan.asked, plan.inputs.profile if plan.inputs else None
    if asked is None or profile is None:
        raise InputError(Fault("asked", "missing", f"the plan does not record what {plan.strategy} was asked"))
    goal = Goal(
        weights=parse_weights(asked.goal),
        deadline_s=asked.deadline_s,
        iteration_deadline_s=asked.iteration_deadline_s,
        loss=asked.loss,
    )
    hints = get_type_hints(find(plan.strategy))
    options = {
        name: validated(kind, value) if (kind := document_type(hints.get(name))) and value is not None else value
        for name, value in asked.options.items()
        if name not in RETIRED_OPTIONS
    }
    task = Task(
        profile=profile,
        cluster=cluster,
        batch=plan.batch,
        goal=goal,
        optimizer=accumulating(asked.optimizer, asked.accumulate),
        seed=asked.seed,
        epochs=asked.epochs,
        input_as=known_input_as(asked.input_as),
        exchange=asked.exchange,
        overlap=asked.overlap,
        robust=asked.robust,
    )
    return make_plan(configured(plan.strategy, options), task)


def _request(strategy: Strategy, ask: PlanRequest) -> Asked:
    options = {own.name: getattr(strategy, own.name) for own in fields(strategy)}  # type: ignore[arg-type]
    return Asked(
        goal=str(ask.goal),
        deadline_s=ask.goal.deadline_s,
        iteration_deadline_s=ask.goal.iteration_deadline_s,
        loss=ask.goal.loss,
        optimizer=recorded_name(known_optimizer(ask.optimizer)),
        accumulate=known_optimizer(ask.optimizer).accumulate,
        seed=ask.seed,
        epochs=ask.epochs,
        input_as=ask.input_as,
        exchange=ask.exchange,
        overlap=ask.overlap,
        robust=ask.robust,
        options={
            name: value.model_dump(mode="json") if isinstance(value, Document) else value
            for name, value in options.items()
        },
    )


def document_type(hint: Any) -> type[Document] | None:
    """The kind of document that an option's type names, if it does: such an option is a file."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type) and issubclass(kind, Document)]
    return kinds[0] if kinds else None


def _task(strategy: Strategy, ask: PlanRequest) -> Task:
    """What the strategy is given; one that takes tables needs no more than a ``PlanRequest``."""
    if strategy.needs_profile and not isinstance(ask, Task):
        given = {"profile": ask.profile, "cluster": ask.cluster}
        raise InputError(_lacks(strategy.name, option) for option, found in given.items() if found is None)
    return cast("Task", ask)


def _lacks(name: str, option: str) -> Fault:
    return ArgumentFault(option, "missing", f"{name} needs it; expected a file")


def _refuse_other_goals(strategy: Strategy, ask: PlanRequest) -> None:
    deadline_s = ask.goal.deadline_s
    limits = {"deadline_s": None if deadline_s is None else f"{deadline_s:g} s", "loss": ask.goal.loss}
    if ask.epochs is not None:  # then it is known how long the whole takes
        del limits["deadline_s"]
    for option, value in limits.items():
        if value is not None and not strategy.plans_epochs:
            undecided = f"{strategy.name} does not decide how long to train; expected "
            expected = Message(undecided, Argument("iteration_deadline_s"), " or neither")
            raise InputError(ArgumentFault(option, value, expected))
    if ask.epochs is not None and strategy.plans_epochs and not strategy.composed:
        decides = f"{strategy.name} decides itself how long to train; expected none"
        raise InputError(ArgumentFault("epochs", ask.epochs, decides))
