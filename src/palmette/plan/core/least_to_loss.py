"""The least time or energy to a loss: tree, placement, window, codec and data chosen together.

An iteration that is best by itself need not be: more replicas, longer windows and codecs cost epochs. Candidates are
the plans of a search, with and without codecs, and those of all other strategies, so that none of them is ahead; then
each of their trees, and forests of whole networks, with whatever agreement of replicas is best (``agreement``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from palmette.cost.batch_norm import FLOOR, small_parts
from palmette.cost.operations import samples_by_instance
from palmette.errors import Infeasible, PalmetteError, too_late
from palmette.plan.core.agreement import AgreeingTree, Agreement, agreements, known_exchanges
from palmette.plan.core.choice import score
from palmette.plan.core.forest import forests
from palmette.plan.core.strategy import Strategy, Task
from palmette.plan.core.until_loss import fraction_of, plan_until_loss, told_of_learning, with_epochs_to_loss
from palmette.spec.codec import SMALLEST
from palmette.spec.codec_term import Coding, codings_of
from palmette.spec.exchange import Exchange
from palmette.spec.goal import Goal, Quantity, Spending, value
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan

T = TypeVar("T")
_MOST_TREES = 12
"""Trees whose agreement is searched, those of the best plans first."""
_ROUNDS = 2
"""How often the settings around the best one are gone through."""


def least_to_loss(
    strategy: Strategy, task: Task, learning: Learning, rivals: Callable[[Exchange], Iterable[Callable[[], Plan]]]
) -> Plan:
    """The best plan that trains until the goal's loss, found by a search and from rivals' plans for an exchange.

    Raises:
        PalmetteError: why the search has no plan, where no rival has one either.
    """
    rules = PlanRules(task, lossy=_option(strategy, "lossy", False), floor=_option(strategy, "batch_norm_floor", FLOOR))
    searched, refused = _made(_searches(strategy, task, learning, lossy=rules.lossy), rules)
    resends = _option(strategy, "resend", False)  # then others deliver samples in ways that are not allowed
    codecs = agreements(task, learning, lossy=rules.lossy).exchanges
    others, _ = _made(() if resends else (each for codec in codecs for each in rivals(codec)), rules)
    if not searched and not others:
        raise refused[0]
    goal = replace(task.goal, units=_units([*searched, *others], task.goal))
    first = [*_best_first(searched, goal), *_best_first(others, goal)]
    found = first if resends else [*first, *_agreeing(first, rules, learning, goal)]
    chosen = _best_first(found, goal)[0]
    own = _as_own(chosen, searched, strategy, learning, lossy=rules.lossy)
    return _telling(own, fraction_of(own.phases[0], task, learning), told_of_learning(learning, task))


def _telling(plan: Plan, fraction: float, told: tuple[str, ...]) -> Plan:
    """The plan, with what it counts on, and a word about how much of the data it uses where that is not all."""
    if plan.estimate is None:
        return plan
    known, whole = plan.estimate.warnings, fraction > 1 - 1e-9
    of_data = f"trains on {fraction:.0%} of the data, which is enough for the loss by the learning curve"
    warnings = tuple(dict.fromkeys([*known, *told, *([] if whole else [of_data])]))
    decision = plan.decision if whole else plan.decision | {"data_fraction": fraction}
    estimate = plan.estimate.model_copy(update={"warnings": warnings})
    return plan.model_copy(update={"estimate": estimate, "decision": decision})


@dataclass(frozen=True, kw_only=True)
class PlanRules:
    """What a plan for a task may do to the training."""

    task: Task = field(kw_only=False)
    lossy: bool
    """Whether codecs may be chosen."""
    floor: int
    """The fewest samples that batch norm may see by themselves."""

    def refuse(self, plan: Plan) -> None:
        """Refuse a plan that breaks a rule, or misses the deadline of an iteration.

        Raises:
            Infeasible: says which.
        """
        if plan.estimate is None or len(plan.phases) != 1 or plan.phases[0].pruning:
            raise Infeasible("expected a plan of one phase with the whole network, and a price")
        (phase,), limit_s = plan.phases, self.task.goal.iteration_deadline_s
        coded = [each for each in codings_of(phase) if each.of == "outputs" or not self.task.exchange.kind.lossy]
        if coded and not self.lossy:
            raise Infeasible(f"{coded[0]} is not allowed")
        if small_parts(phase, self.task.evaluator.sizes(), samples_by_instance(phase), self.floor):
            raise Infeasible(f"batch norm would see fewer than {self.floor} samples")
        if limit_s is not None and plan.estimate.iteration_s > limit_s:
            raise too_late("iteration_deadline_s", limit_s, plan.estimate.iteration_s)


def _option(strategy: Strategy, name: str, default: T) -> T:
    """The value of an option of a strategy, if it has that."""
    found: T = getattr(strategy, name, default)
    return found


def _as_own(chosen: Plan, searched: Sequence[Plan], strategy: Strategy, learning: Learning, *, lossy: bool) -> Plan:
    """The chosen plan as one of the strategy, with what it was chosen instead of."""
    own = searched[0] if searched else chosen
    decision = dict(own.decision)
    (phase,) = chosen.phases
    if chosen is not own:
        instead = {"instead_s": _total(own).time_s} if searched else {}
        agreed = {"sync": phase.sync, "every": phase.every, "server": phase.server, "exchange": phase.exchange.argument}
        decision["window"] = agreed | {"from": chosen.strategy} | instead
        decision |= {key: chosen.decision[key] for key in ("beyond", "codecs") if key in chosen.decision}
    unknown = Coding("outputs", SMALLEST)
    if lossy and not learning.terms_of([unknown]):
        decision["left_out"] = (
            f"{unknown}: no run of the learning curve tells what that costs; {unknown.options()} does"
        )
    update = {"strategy": strategy.name, "phases": chosen.phases, "estimate": chosen.estimate, "decision": decision}
    return own.model_copy(update=update | {"plan_s": own.plan_s})


def _searches(strategy: Strategy, task: Task, learning: Learning, *, lossy: bool) -> Iterator[Callable[[], Plan]]:
    """Searches without codecs, with that of outputs, and with each of exchanges that may be chosen."""
    plain = _with_options(strategy, lossy=False)
    yield lambda: plan_until_loss(plain, task, learning)
    if not lossy:
        return
    if learning.terms_of([Coding("outputs", SMALLEST)]):
        yield lambda: plan_until_loss(strategy, task, learning)
    codecs = [] if task.exchange.kind.lossy else known_exchanges(task, learning)
    for codec in codecs:
        less = _with_options(plain, effort=getattr(plain, "effort", 1.0) / len(codecs))
        coded = replace(task, exchange=codec)
        yield lambda less=less, coded=coded: plan_until_loss(less, coded, learning)  # type: ignore[misc]


def _with_options(strategy: Strategy, **options: Any) -> Strategy:
    """The strategy with other options, as far as it has them."""
    known = {field.name for field in fields(strategy)}  # type: ignore[arg-type]
    return replace(strategy, **{name: value for name, value in options.items() if name in known})  # type: ignore[type-var]


def _made(makers: Iterable[Callable[[], Plan]], rules: PlanRules) -> tuple[list[Plan], list[PalmetteError]]:
    """The plans that can be made and keep the rules, and why others do not."""
    found, refused = list[Plan](), list[PalmetteError]()
    for make in makers:
        try:
            plan = make()
            rules.refuse(plan)
        except PalmetteError as error:
            refused.append(error)
        else:
            found.append(plan)
    return found, refused


def _units(plans: Sequence[Plan], goal: Goal) -> dict[Quantity, float] | None:
    """What a weighted sum divides by while plans are compared one by one: the least of each quantity so far."""
    if goal.single is not None or goal.units is not None:
        return None if goal.units is None else dict(goal.units)
    return {quantity: min(value(quantity, *_total(each)) for each in plans) or 1.0 for quantity in goal.weights}


def _best_first(plans: Sequence[Plan], goal: Goal) -> list[Plan]:
    scores = score([_total(plan) for plan in plans], goal)
    return [plans[k] for k in sorted(range(len(plans)), key=lambda k: (math.isnan(scores[k]), scores[k]))]


def _total(plan: Plan) -> Spending:
    assert plan.estimate is not None, "only plans with a price are compared"
    return plan.estimate.spending("total") or Spending(math.inf, None)


def _agreeing(plans: Sequence[Plan], rules: PlanRules, learning: Learning, goal: Goal) -> Iterator[Plan]:
    """For each tree the plan with its best agreement."""
    allowed = agreements(rules.task, learning, lossy=rules.lossy)
    for name, phase in _trees(plans, rules.task, learning):
        tree, model = AgreeingTree(phase, rules.task, learning), plans[0].model_copy(update={"strategy": name})
        known: dict[Agreement, Plan | None] = {}
        best = Agreement(exchange=allowed.exchanges[0])
        for _ in range(_ROUNDS):
            for ways in (allowed.with_outputs_of(best), allowed.with_other_outputs(best)):
                known |= {way: _agreed(tree.phase(way), model, rules, learning) for way in ways if way not in known}
                best = _best_way(known, goal) or best
        found = known[best]
        if found is not None:
            yield found


def _best_way(known: Mapping[Agreement, Plan | None], goal: Goal) -> Agreement | None:
    """The setting of the best plan; None where there is none."""
    plans = {way: plan for way, plan in known.items() if plan is not None}
    scores = score([_total(plan) for plan in plans.values()], goal)
    return min(zip(scores, range(len(plans)), plans, strict=True))[2] if plans else None


def _agreed(phase: Phase | None, model: Plan, rules: PlanRules, learning: Learning) -> Plan | None:
    """A phase trained until the loss; None where that cannot be."""
    if phase is None:
        return None
    changed = model.model_copy(update={"phases": (phase.model_copy(update={"epochs": None}),), "decision": {}})
    with suppress(PalmetteError):
        made = with_epochs_to_loss(changed, rules.task, learning)
        rules.refuse(made)
        return made
    return None


def _trees(plans: Sequence[Plan], task: Task, learning: Learning) -> Iterator[tuple[str, Phase]]:
    """The trees of plans whose replicas share batches of the task's size, and forests; each once, with its origin."""
    seen: set[tuple[Any, ...]] = set()
    found = [(plan.strategy, plan.phases[0]) for plan in plans if plan.phases[0].sync_kind.common_batch]
    with suppress(PalmetteError):
        found += [("forest", phase) for phase in forests(task, 2, learning.outer)]
    for name, phase in found:
        parts = (phase.sources, phase.instances)
        if parts not in seen and len(seen) < _MOST_TREES and phase.batch == task.batch:
            seen.add(parts)
            yield (
                name,
                phase.model_copy(update={"sync": "step", "every": None, "outer": None, "server": None, "turns": None}),
            )
