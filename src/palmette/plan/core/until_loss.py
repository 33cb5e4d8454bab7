"""Plans that train until a learning curve has reached a loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.cost.warnings import lossy_exchange, lossy_outputs
from palmette.errors import ArgumentFault, Infeasible, InputError, too_late
from palmette.plan.core.make_plan import make_plan
from palmette.plan.core.strategy import MOST_EPOCHS, Strategy, Task
from palmette.spec.codec_term import CodecTerm, codings_of
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan


def plan_until_loss(strategy: Strategy, task: Task, learning: Learning) -> Plan:
    """Its plan for an iteration, trained until the loss; should that take too long, its best that does not.

    It is weighed over as many epochs as one replica would need. Private owners give to a batch as they own.

    Raises:
        InputError: they are to give by speed, and no curve tells what is learnt then.
    """
    assert task.goal.loss is not None, "the caller checks this"
    strategy = _as_owned(strategy)
    least = learning.least_epochs(task.goal.loss, 1.0, 1)
    epochs = max(1, math.ceil(least)) if least <= MOST_EPOCHS else None
    if epochs is None and strategy.changes_nodes:  # when to change depends on how long the training is
        raise _unreachable(learning, task.goal.loss, learning.loss(MOST_EPOCHS, 1.0, 1))
    free = replace(task, goal=replace(task.goal, deadline_s=None, loss=None), epochs=epochs)
    made = make_plan(strategy, free)
    try:
        return with_epochs_to_loss(made, task, learning)
    except Infeasible:
        if task.goal.deadline_s is None:
            raise
        limited = replace(free.goal, deadline_s=task.goal.deadline_s)
        hurried = replace(free, goal=limited, epochs=_epochs_to_loss(made, task, learning))
        try:
            return with_epochs_to_loss(make_plan(strategy, hurried), task, learning)
        except Infeasible:
            pass  # the first reason is about the request itself
        raise


def _as_owned(strategy: Strategy) -> Strategy:
    """The strategy, with shares as owned where it may choose them."""
    if not hasattr(strategy, "shares"):
        return strategy
    if strategy.shares == "speed":
        expected = "a learning curve does not know what shares by speed change; expected owned, or no loss"
        raise InputError(ArgumentFault("shares", strategy.shares, expected))
    return replace(strategy, shares="owned")  # type: ignore[type-var]


def _epochs_to_loss(plan: Plan, task: Task, learning: Learning) -> int:
    """How many epochs of a plan over its data reach the goal's loss; phases on other nodes learn as the first does.

    Raises:
        InputError: the curve does not know so many replicas, such windows or codecs, or so much data.
        Infeasible: no number does.
    """
    phase = plan.phases[0]
    assert task.goal.loss is not None, "the caller checks this"
    replicas, window, fraction = phase.replicas, _window(phase, task), fraction_of(phase, task, learning)
    learning.refuse_unknown(plan.model, {"data": fraction, "replicas": replicas})
    learning.refuse_window(plan.model, window, phase.outer)
    drawn, turns = phase.clients if phase.draws_clients else None, phase.turns
    learning.refuse_parts(drawn, None if turns is None else turns.fragments)
    curve = learning.coded(plan.model, codings_of(phase), window)
    least = curve.least_epochs(task.goal.loss, fraction, replicas, window)
    if not least <= MOST_EPOCHS:
        raise _unreachable(learning, task.goal.loss, curve.loss(MOST_EPOCHS, fraction, replicas, window))
    return max(1, math.ceil(least / phase.epoch_passes * (1 - 1e-12)))


def _unreachable(learning: Learning, loss: float, least: float) -> Infeasible:
    """Why a loss is never reached: what is left after as many epochs as there may be."""
    reason = f"cannot be reached; the curve stays above {least:.6g}"
    if learning.margin:
        reason += f", with its margin of {learning.margin:.0%}; palmette learn --margin changes that"
    return Infeasible(ArgumentFault("loss", f"{loss:g}", reason))


def fraction_of(phase: Phase, task: Task, learning: Learning) -> float:
    """The worth of the samples that an epoch takes, as a fraction of all that the sources own."""
    owned = {name: node.source.samples for name, node in task.cluster.nodes.items() if node.source is not None}
    return learning.fraction(task.evaluator.epoch_samples(phase), owned)


def _window(phase: Phase, task: Task) -> int:
    """The steps that replicas take apart."""
    return phase.window(math.ceil(task.evaluator.price(phase).epoch_iterations))


def with_epochs_to_loss(plan: Plan, task: Task, learning: Learning) -> Plan:
    """The plan with as many epochs over its data as the learning curve needs for the goal's loss, all phases together.

    Raises:
        InputError: the curve does not know what the plan varies.
        Infeasible: no number of epochs reaches the loss, or so many break the deadline or a node's limit.
    """
    *before, phase = plan.phases
    epochs = _epochs_to_loss(plan, task, learning)
    rest = max(1, epochs - sum(each.epochs or 0 for each in before))
    longer = plan.model_copy(update={"phases": (*before, phase.model_copy(update={"epochs": rest}))})
    wrong = check(longer, task.evaluator)
    if wrong:
        raise Infeasible(wrong[0])
    estimate = summary(longer, task.evaluator)
    assert estimate.total_s is not None, "every phase says how many epochs it has"
    if task.goal.deadline_s is not None and estimate.total_s > task.goal.deadline_s:
        raise too_late("deadline_s", task.goal.deadline_s, estimate.total_s)
    fraction = fraction_of(phase, task, learning)
    tried = {"epochs": epochs, "data": fraction, "replicas": phase.replicas, "window": _window(phase, task)}
    beyond, terms = learning.beyond(**tried), learning.terms_of(codings_of(phase))
    decision = plan.decision | ({"beyond": beyond} if beyond else {})
    decision |= {"codecs": [term.model_dump(mode="json") for term in terms]} if terms else {}
    told = told_of_codecs(phase, estimate.warnings, terms) + told_of_learning(learning, task)
    known = estimate.model_copy(update={"warnings": told})
    return longer.model_copy(update={"estimate": known, "decision": decision})


def told_of_learning(learning: Learning, task: Task) -> tuple[str, ...]:
    """What a plan for a loss is really for, and what it counts on, where the curve has a margin or a schedule."""
    assert task.goal.loss is not None, "the caller checks this"
    told = learning.counted_on(task.goal.loss), learning.told_of_schedule(task.schedule)
    return tuple(each for each in told if each is not None)


def told_of_codecs(phase: Phase, warnings: Sequence[str], terms: Sequence[CodecTerm]) -> tuple[str, ...]:
    """Warnings of a plan, with what the curve knows of its codecs instead of that it is unknown."""
    unknown = [*lossy_outputs(phase), *lossy_exchange(phase)] if terms else []
    known = [f"{term.coding}: the learning curve has {term.shown} of the loss above its floor" for term in terms]
    return (*(each for each in warnings if each not in unknown), *known)
