"""The plans of all strategies for one task, priced by the same evaluator, best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn

from palmette.cost.batch_norm import FLOOR, SmallPart, small_parts
from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import samples_by_instance
from palmette.errors import (
    Argument,
    ArgumentFault,
    Fault,
    Infeasible,
    InputError,
    Message,
    PalmetteError,
    RunError,
    too_late,
)
from palmette.plan.core.choice import score
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.parallel import run_parallel
from palmette.plan.core.registry import find, strategies
from palmette.plan.core.strategy import MOST_EPOCHS, Strategy, Task
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.display import Displayed
from palmette.spec.estimate import Estimate
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Inputs, Plan

SHOWN = 5
"""Plans in the text of a comparison."""


@dataclass(frozen=True)
class Comparison(Displayed):
    """Plans, best first by the goal, and why the other strategies have none."""

    plans: list[Plan]
    skipped: dict[str, PalmetteError]

    def __repr__(self) -> str:
        head = f"Comparison({len(self.plans)} plans, best first; {len(self.skipped)} strategies do not apply)"
        return "\n  ".join([head, *map(repr, self.plans[:SHOWN]), *(["…"] if len(self.plans) > SHOWN else [])])

    def refuse(self) -> NoReturn:
        """Raise why there is no plan at all: a goal that none can meet, else what is wrong with the input."""
        reasons = {name: error for name, error in self.skipped.items() if not _lacks_an_option(error)}
        unmet = {name: error for name, error in reasons.items() if isinstance(error, Infeasible)}
        if unmet:
            raise closest_to_goal(unmet)
        faults = [fault for error in reasons.values() if isinstance(error, InputError) for fault in error.faults]
        if not faults:
            each = (Message(f"{name}: ", error.message) for name, error in self.skipped.items())
            raise RunError(Message.joined("\n", each))
        raise InputError(_main_faults(faults))


def closest_to_goal(unmet: Mapping[str, Infeasible]) -> Infeasible:
    """One answer for all strategies: of the one that comes closest in time, else the reason of each."""
    in_time = {name: error.least_s for name, error in unmet.items() if error.least_s is not None}
    if in_time:
        name = min(in_time, key=lambda name: in_time[name])
        return Infeasible(Message(unmet[name].message, f", by {name}"), in_time[name])
    reasons: dict[Message, list[str]] = {}
    for name, error in unmet.items():
        reasons.setdefault(error.message, []).append(name)
    each = (Message(", ".join(names), ": ", reason) for reason, names in reasons.items())
    return Infeasible(Message.joined("; ", each))


def _main_faults(faults: Sequence[Fault]) -> Iterable[Fault]:
    """What is wrong with files, each once, since options may suit one strategy and not another; else with options."""
    in_files = [fault for fault in faults if not _is_about_an_option(fault)]
    how_long = [fault for fault in faults if fault.field in ("deadline_s", "loss")]
    if how_long and not in_files:
        expected = Message("it is not known how long to train; expected ", Argument("learning"), " beside it")
        return [replace(how_long[0], expected=expected)]
    found: dict[tuple[str, str], Fault] = {}
    for fault in in_files or faults:
        found.setdefault((fault.field, str(fault.value)), fault)
    return found.values()


def _lacks_an_option(error: PalmetteError) -> bool:
    """Whether a strategy was skipped for want of its own option, which says nothing about the others."""
    return isinstance(error, InputError) and all(f.value == "missing" and _is_about_an_option(f) for f in error.faults)


def _is_about_an_option(fault: Fault) -> bool:
    return isinstance(fault, ArgumentFault)


def compare(task: Task, options: Mapping[str, Any] | None = None, names: Iterable[str] | None = None) -> Comparison:
    """The plans of all strategies that compare with others, or of those in ``names``, made in parallel.

    ``options`` are handed to every strategy that has an option of that name.
    """
    chosen = list(names) if names is not None else [name for name, kind in strategies().items() if not kind.composed]
    jobs: list[Callable[[], Plan]] = [partial(planned, name, task, options or {}) for name in chosen]
    plans, skipped = [], {}
    for name, (plan, error) in zip(chosen, run_parallel(jobs), strict=True):
        if plan is not None:
            plans.append(plan.model_copy(update={"inputs": Inputs(cluster=task.cluster, profile=task.profile)}))
        else:
            assert error is not None, "a job without a result says why"
            skipped[name] = error
    return Comparison(ranked(plans, task.goal, task.horizon), skipped)


def is_lossy(plan: Plan) -> bool:
    """Whether outputs of a plan arrive as other numbers than were sent."""
    instances = [instance for phase in plan.phases for instance in phase.instances]
    return any(instance.into is not None and CODEC_KINDS[instance.codec].lossy for instance in instances)


def small_norm_parts(plan: Plan, prices: Evaluator, floor: int = FLOOR) -> list[SmallPart]:
    """The instances of a plan in which batch norm sees fewer samples than a floor, and not the whole batch."""
    return [
        part
        for phase in plan.phases
        for part in small_parts(phase, prices.sizes(phase.pruning), samples_by_instance(phase), floor)
    ]


def ranked(plans: Sequence[Plan], goal: Goal, epochs: int) -> list[Plan]:
    """Plans, best first by the goal, as far as their energies are known; equals in their given order.

    The whole training counts where the goal is about it, else an iteration in the mean over so many epochs.
    """
    scores = score([cost(plan, goal, epochs) for plan in plans], goal)
    return [plans[k] for k in sorted(range(len(plans)), key=lambda k: (math.isnan(scores[k]), scores[k]))]


def cost(plan: Plan, goal: Goal, epochs: int) -> tuple[float, float]:
    """Seconds and joules that the goal is about; infinite where they are not known."""
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    if goal.deadline_s is None and goal.loss is None:
        time_s, energy_j = mean_iteration(estimate, epochs)
    else:
        time_s, energy_j = estimate.total_s or math.inf, estimate.total_j
    return time_s, math.inf if energy_j is None else energy_j


def mean_iteration(estimate: Estimate, epochs: int) -> tuple[float, float | None]:
    """Seconds and joules of an iteration in the mean over so many epochs, the first included, as a price has them.

    Plans of several phases say for how many epochs they are: for these it is the mean over all of them.
    """
    first_s, later_s, many = estimate.first_epoch_s, estimate.epoch_s, estimate.epoch_iterations
    if estimate.changes_s is not None and estimate.total_s is not None and estimate.epochs and many:
        iterations = estimate.epochs * many
        return estimate.total_s / iterations, None if estimate.total_j is None else estimate.total_j / iterations
    if first_s is None or later_s is None or not many or first_s == later_s:
        return estimate.iteration_s, estimate.iteration_j
    energy_j = None
    if estimate.first_epoch_j is not None and estimate.epoch_j is not None:
        energy_j = _mean(estimate.first_epoch_j, estimate.epoch_j, epochs) / many
    return _mean(first_s, later_s, epochs) / many, energy_j


def _mean(first: float, later: float, epochs: int) -> float:
    return (first + (epochs - 1) * later) / epochs


def planned(name: str, task: Task, options: Mapping[str, Any]) -> Plan:
    """One strategy's plan for a task, with those of the options that it has.

    A strategy that does not decide how long to train trains until the learning curve, if there is one, has reached the
    loss.

    Raises:
        InputError: the task lacks something that it needs.
        Infeasible: it has no plan that meets the goal, or none with a price.
    """
    own = {field.name for field in fields(find(name))}  # type: ignore[arg-type]
    strategy = configured(name, {key: value for key, value in options.items() if key in own})
    learning, goal = options.get("learning"), task.goal
    if strategy.plans_epochs or goal.loss is None or learning is None:
        made = make_plan(strategy, task)
    else:
        made = _plan_until_loss(strategy, task, learning)
    if made.estimate is None:
        raise Infeasible(f"{name}: its decision names no instances that could be priced")
    return made.model_copy(update={"inputs": None})


def _plan_until_loss(strategy: Strategy, task: Task, learning: Learning) -> Plan:
    """Its plan for an iteration, trained until the loss; should that take too long, its best that does not.

    It is weighed over as many epochs as one replica would need.
    """
    assert task.goal.loss is not None, "the caller checks this"
    least = learning.least_epochs(task.goal.loss, 1.0, 1)
    epochs = max(1, math.ceil(least)) if least <= MOST_EPOCHS else None
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


def _epochs_to_loss(plan: Plan, task: Task, learning: Learning) -> int:
    """How many epochs over all data reach the goal's loss.

    Raises:
        InputError: the curve does not know so many replicas, or all data.
        Infeasible: no number does.
    """
    (phase,) = plan.phases
    assert task.goal.loss is not None, "the caller checks this"
    replicas = phase.replicas
    learning.refuse_unknown(plan.model, {"data": 1.0, "replicas": replicas})
    least = learning.least_epochs(task.goal.loss, 1.0, replicas)
    if not least <= MOST_EPOCHS:
        reason = f"cannot be reached; the curve stays above {learning.loss(MOST_EPOCHS, 1.0, replicas):.6g}"
        raise Infeasible(ArgumentFault("loss", f"{task.goal.loss:g}", reason))
    return math.ceil(least * (1 - 1e-12))


def with_epochs_to_loss(plan: Plan, task: Task, learning: Learning) -> Plan:
    """The plan with as many epochs over all data as the learning curve needs for the goal's loss.

    Raises:
        Infeasible: no number of epochs reaches the loss, or so many break the deadline or a node's limit.
    """
    (phase,) = plan.phases
    epochs = _epochs_to_loss(plan, task, learning)
    longer = plan.model_copy(update={"phases": (phase.model_copy(update={"epochs": epochs}),)})
    wrong = check(longer, task.evaluator)
    if wrong:
        raise Infeasible(wrong[0])
    estimate = summary(longer, task.evaluator)
    assert estimate.total_s is not None, "every phase says how many epochs it has"
    if task.goal.deadline_s is not None and estimate.total_s > task.goal.deadline_s:
        raise too_late("deadline_s", task.goal.deadline_s, estimate.total_s)
    return longer.model_copy(update={"estimate": estimate})
