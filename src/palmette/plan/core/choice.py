"""The best of several phases: of those that may run and meet the deadline, by the goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from palmette.cost.check import forbidden, missing, over_energy_limits
from palmette.cost.evaluate import Evaluator, Price
from palmette.errors import Fault, Infeasible, InputError, too_late
from palmette.plan.core.strategy import Task
from palmette.spec.goal import Goal, Spending, value
from palmette.spec.plan import Phase, Plan

PhaseCost = Callable[[Evaluator, Price, int], Spending]
"""What of a price counts, in the mean over so many epochs."""


class PricedPhase(NamedTuple):
    """A phase that may run, and its price."""

    phase: Phase
    price: Price


def best(phases: Iterable[Phase], task: Task, cost: PhaseCost = Evaluator.mean_iteration) -> PricedPhase:
    """The best phase for the task's goal among those that may run; ``cost`` is what of it counts.

    Raises:
        InputError: each names what is missing, or the goal needs something about a node that is not known.
        Infeasible: none may run, or none meets the deadline; names the constraint and the closest value.
    """
    allowed: list[PricedPhase] = []
    refused: list[Fault] = []
    impossible: list[Fault] = []
    for phase in phases:
        lacking = list(missing(phase, task.evaluator))
        faults = lacking or list(forbidden(phase, task.evaluator)) or over_energy(phase, task)
        if not faults:
            allowed.append(PricedPhase(phase, task.evaluator.price(phase)))
        elif lacking:
            impossible += lacking
        else:
            refused.append(faults[0])
    if refused and not allowed:
        raise Infeasible(refused[0])
    if not allowed:
        located = [_in_the_cluster_file(fault, task) for fault in impossible]
        raise InputError({str(fault): fault for fault in located}.values())
    in_time = _in_time(allowed, task)
    scores = score([_spending(candidate.price, task, cost) for candidate in in_time], task.goal)
    return in_time[scores.index(min(scores))]


def _in_the_cluster_file(fault: Fault, task: Task) -> Fault:
    """A fault about a node at its place in the cluster file: the user did not write the tree in which it was found."""
    return replace(fault, field=f"nodes.{fault.value}") if fault.value in task.cluster.nodes else fault


def score(spent: Sequence[Spending], goal: Goal) -> list[float]:
    """What the goal minimises, for each spending; a weighted sum divides quantities by their best."""
    totals = [0.0] * len(spent)
    for quantity, weight in goal.weights.items():
        values = [value(quantity, *each) for each in spent]
        unit = 1.0 if goal.single else (goal.units or {}).get(quantity) or min(values, default=1.0) or 1.0
        totals = [total + weight * each / unit for total, each in zip(totals, values, strict=True)]
    return totals


def over_energy(phase: Phase, task: Task) -> list[Fault]:
    """Nodes that would use more energy in the phase than their limit."""
    plan = Plan(model=task.profile.model, batch=task.batch, phases=(phase,))
    return list(over_energy_limits(plan, task.evaluator))


def _spending(price: Price, task: Task, cost: PhaseCost) -> Spending:
    """What counts of a price, in the mean over the task's epochs; all that the goal asks for is known."""
    spent = cost(task.evaluator, price, task.horizon)
    refuse_unknown(spent, price.nodes, task)
    return spent


def refuse_unknown(spent: Spending, nodes: Iterable[str], task: Task) -> None:
    """Refuse a goal that asks for what the cluster does not say about these nodes.

    Raises:
        InputError: names the first node, and what it lacks.
    """
    needs = f"the goal {task.goal} needs it"
    if spent.energy_j is None and task.goal.needs_energy:
        unknown = next(name for name in nodes if task.cluster.nodes[name].power is None)
        raise InputError(Fault(f"nodes.{unknown}.power", "missing", needs))
    if spent.carbon_g is None and "carbon" in task.goal.weights:
        unknown = next(name for name in nodes if task.cluster.carbon_of(name) is None)
        raise InputError(Fault(f"nodes.{unknown}.carbon", "missing", needs))


def _in_time(candidates: list[PricedPhase], task: Task) -> list[PricedPhase]:
    """The candidates that meet the deadlines of an iteration, and of the whole where its epochs are known."""
    goal, epochs = task.goal, task.epochs
    if goal.iteration_deadline_s is not None:
        steady_s = [candidate.price.iteration_s for candidate in candidates]
        candidates = _within(candidates, steady_s, "iteration_deadline_s", goal.iteration_deadline_s)
    if goal.deadline_s is not None and epochs is not None:
        total_s = [candidate.price.total_s(epochs) for candidate in candidates]
        candidates = _within(candidates, total_s, "deadline_s", goal.deadline_s)
    return candidates


def _within(
    candidates: list[PricedPhase], seconds: Sequence[float], argument: str, limit_s: float
) -> list[PricedPhase]:
    in_time = [candidate for candidate, each in zip(candidates, seconds, strict=True) if each <= limit_s]
    if not in_time:
        raise too_late(argument, limit_s, min(seconds))
    return in_time
