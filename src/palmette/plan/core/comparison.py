"""The plans of all strategies for one task, priced by the same evaluator, best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn

from palmette.cost.batch_norm import FLOOR, SmallPart, small_parts
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import exchanges_weights, samples_by_instance
from palmette.errors import (
    Argument,
    ArgumentFault,
    Fault,
    Infeasible,
    InputError,
    Message,
    PalmetteError,
    RunError,
)
from palmette.plan.core.choice import score
from palmette.plan.core.least_to_loss import least_to_loss
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.parallel import run_parallel
from palmette.plan.core.registry import find, strategies
from palmette.plan.core.strategy import Strategy, Task
from palmette.plan.core.until_loss import plan_until_loss
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.display import Displayed
from palmette.spec.estimate import Estimate
from palmette.spec.exchange import Exchange
from palmette.spec.goal import Goal, Spending
from palmette.spec.plan import Inputs, Plan

SHOWN = 5
"""Plans in the text of a comparison."""


@dataclass(frozen=True)
class Comparison(Displayed):
    """Plans, best first by the goal, and why the other strategies have none."""

    plans: list[Plan]
    skipped: dict[str, PalmetteError]
    unknown_loss: float | None = None
    """A loss that was asked for, where no learning curve says how long it takes: plans are ranked by an epoch."""

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
        expected = Message("a loss does not say how long to train; expected ", Argument("learning"), ", too")
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


def compare(
    task: Task,
    options: Mapping[str, Any] | None = None,
    names: Iterable[str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Comparison:
    """The plans of all strategies that compare with others, or of those in ``names``, made in parallel.

    ``options`` are handed to every strategy that has an option of that name. ``progress`` is called with what is being
    done, and how far it is, from 0 to 1.
    """
    chosen = list(names) if names is not None else [name for name, kind in strategies().items() if not kind.composed]
    task = replace(task, progress=None)  # jobs are in processes of their own
    jobs: list[Callable[[], Plan]] = [partial(planned, name, task, options or {}) for name in chosen]
    plans, skipped = [], {}

    def tell(many: int) -> None:
        if progress is not None:
            progress(f"comparing strategies: {many} of {len(chosen)}", many / max(1, len(chosen)))

    tell(0)
    for name, (plan, error) in zip(chosen, run_parallel(jobs, tell), strict=True):
        if plan is not None:
            plans.append(plan.model_copy(update={"inputs": Inputs(cluster=task.cluster, profile=task.profile)}))
        else:
            assert error is not None, "a job without a result says why"
            skipped[name] = error
    return Comparison(ranked(plans, task.goal, task.horizon), skipped)


def compare_to_loss(
    task: Task,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Comparison:
    """As ``compare``; where no strategy can tell when it reaches the loss for want of a curve, ranked by an epoch."""
    found = compare(task, options, progress=progress)
    loss = task.goal.loss
    if found.plans or loss is None or (options or {}).get("learning") is not None:
        return found
    by_epoch = compare(replace(task, goal=replace(task.goal, loss=None)), options, progress=progress)
    return replace(by_epoch, unknown_loss=loss) if by_epoch.plans else found


def is_lossy(plan: Plan) -> bool:
    """Whether outputs of a plan arrive as other numbers than were sent."""
    instances = [instance for phase in plan.phases for instance in phase.instances]
    return any(instance.into is not None and CODEC_KINDS[instance.codec].lossy for instance in instances)


def changes_learning(plan: Plan) -> bool:
    """Whether replicas of a plan train apart, so that they learn something else than one process would."""
    return any(phase.sync_kind.averages_weights and exchanges_weights(phase) for phase in plan.phases)


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


def cost(plan: Plan, goal: Goal, epochs: int) -> Spending:
    """What the goal is about: of the whole training, or of an iteration in the mean over so many epochs."""
    estimate = plan.estimate
    assert estimate is not None, "only plans with a price are compared"
    if goal.deadline_s is None and goal.loss is None:
        return mean_iteration(estimate, epochs)
    return estimate.spending("total") or Spending(math.inf, None)


def mean_iteration(estimate: Estimate, epochs: int) -> Spending:
    """What an iteration takes in the mean over so many epochs, the first included, as a price has it.

    Plans of several phases say for how many epochs they are: for these it is the mean over all of them. Where trees
    train apart, it is the part of an epoch, exchanges included, that falls to a batch.
    """
    first, later = estimate.spending("first_epoch"), estimate.spending("epoch")
    total, iteration = estimate.spending("total"), estimate.spending("iteration")
    many = estimate.epoch_batches or estimate.epoch_iterations
    apart = many != estimate.epoch_iterations
    assert iteration is not None, "an estimate knows the time of an iteration"
    if estimate.changes_s is not None and total is not None and estimate.epochs and many:
        return total.times(1 / (estimate.epochs * many))
    if first is None or later is None or not many or (first.time_s == later.time_s and not apart):
        return iteration
    return first.plus(later.times(epochs - 1)).times(1 / (epochs * many))


def planned(name: str, task: Task, options: Mapping[str, Any]) -> Plan:
    """One strategy's plan for a task, with those of the options that it has.

    A strategy that does not decide how long to train trains until the learning curve, if there is one, has reached the
    loss; one that searches on from others' plans then looks for the least to the loss, theirs included.

    Raises:
        InputError: the task lacks something that it needs.
        Infeasible: it has no plan that meets the goal, or none with a price.
    """
    own = {field.name for field in fields(find(name))}  # type: ignore[arg-type]
    strategy = configured(name, {key: value for key, value in options.items() if key in own})
    learning, goal = options.get("learning"), task.goal
    if strategy.plans_epochs or goal.loss is None or learning is None:
        made = make_plan(strategy, task)
    elif strategy.starts_from_others:
        made = least_to_loss(strategy, task, learning, partial(_rivals, task=task, options=options))
    else:
        made = plan_until_loss(strategy, task, learning)
    if made.estimate is None:
        raise Infeasible(f"{name}: its decision names no instances that could be priced")
    return made.model_copy(update={"inputs": None})


def _rivals(exchange: Exchange, task: Task, options: Mapping[str, Any]) -> list[Callable[[], Plan]]:
    """Plans of one phase by all strategies that do not search on from others'; with another exchange than asked for,
    by those that train apart: trees of the others are the same.
    """
    names = [name for name, kind in strategies().items() if _plans_one_phase(kind)]
    if exchange != task.exchange:
        names = [name for name in names if find(name).trains_apart]
    return [partial(planned, name, replace(task, exchange=exchange), options) for name in names]


def _plans_one_phase(kind: type[Strategy]) -> bool:
    return not (kind.composed or kind.starts_from_others or kind.changes_nodes or kind.exhaustive)
