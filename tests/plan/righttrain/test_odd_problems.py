"""RightTrain on odd problems: plans get no dearer with time, are not behind simple ones, nor behind other amounts."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import palmette as pt
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.samples import apportion
from palmette.plan.righttrain.problem import build_problem
from palmette.plan.righttrain.search import RightTrainSearch
from palmette.plan.righttrain.symmetry import distinct_trees
from palmette.spec.plan import Plan
from tests.plan.righttrain.odd_problems import OddProblem, odd_problem
from tests.plan.righttrain.problems import planned
from tests.thorough import mostly_thorough

EXACT = 1 + 1e-6
LOOSE = (1.001, 1.4, 4.0, None)
QUICK = ((0, 2, "one layer"), (1, 2, "two layers"))
WORLDS = mostly_thorough(
    [
        *((2, 20, "one layer"), (3, 8, "lenet"), (4, 3, "two layers"), (5, 20, "lenet"), (6, 12, "alexnet")),
        *((7, 2, "lenet"), (8, 5, "alexnet"), (9, 16, "two layers"), (10, 6, "one layer"), (11, 3, "alexnet")),
    ],
    1,
)


def plan_of(
    problem: OddProblem, deadline_s: float | None, strategy: str = "righttrain", **options: bool
) -> Plan | None:
    try:
        return planned(strategy, problem.by(deadline_s), problem.curve, **options)
    except pt.Infeasible:
        return None


def joules(plan: Plan | None) -> float:
    return math.inf if plan is None else float(plan.decision["total_j"])


def check(seed: int, sources: int, network: str) -> None:
    problem = odd_problem(seed, sources, network)
    arrays = build_problem(problem.task, problem.curve)
    fastest = RightTrainSearch(arrays, None).min_time_search().search(distinct_trees(arrays))
    unit_s = 1.0 if fastest is None else fastest.total_s
    deadlines = [None if each is None else each * unit_s for each in LOOSE]
    plans = [plan_of(problem, deadline_s) for deadline_s in deadlines]
    costs = [joules(plan) for plan in plans]
    assert all(loose <= tight * EXACT for tight, loose in itertools.pairwise(costs)), costs
    for deadline_s, plan in zip(deadlines, plans, strict=True):
        first = plan_of(problem, deadline_s, first=True)
        assert (first is None) == (plan is None)
        assert joules(plan) <= joules(first) * EXACT
        if plan is not None:
            check_plan(problem, plan, deadline_s)
    check_simple(problem, costs[-1])


def check_plan(problem: OddProblem, plan: Plan, deadline_s: float | None) -> None:
    """It is in time and reaches the loss; the same with other amounts of data is not clearly better."""
    task, curve, (phase,) = problem.task, problem.curve, plan.phases
    assert plan.decision["total_s"] <= (deadline_s or math.inf) * EXACT
    assert curve.loss(phase.epochs, plan.decision["data_fraction"], phase.replicas) <= task.goal.loss * EXACT
    owned = {name: task.cluster.nodes[name].source.samples for name in task.cluster.sources()}
    draw = random.Random(0)
    for _ in range(12):
        amounts = {source.into + source.node: source.epoch_samples for source in phase.sources}
        for name in draw.sample(list(amounts), min(2, len(amounts))):
            amounts[name] = max(1, round(amounts[name] * draw.choice([0.5, 0.8, 1.1, 1.25, 2.0])))
        split = apportion(task.batch, list(amounts.values()))
        given = {source.node: amounts[source.into + source.node] for source in phase.sources}
        if any(given[name] > owned[name] for name in given) or min(split) < 1 or len(given) < len(amounts):
            continue
        epochs = curve.least_epochs(task.goal.loss, curve.fraction(given, owned), phase.replicas)
        sources = tuple(
            source.model_copy(update={"samples": part, "epoch_samples": given[source.node]})
            for source, part in zip(phase.sources, split, strict=True)
        )
        if epochs < 1e7:
            other = phase.model_copy(update={"epochs": max(1, math.ceil(epochs - 1e-9)), "sources": sources})
            try:
                price = pt.estimate(plan.model_copy(update={"phases": (other,)}))
            except pt.InputError:  # beyond the energy limit of a node
                continue
            in_time = price.total_s <= (deadline_s or math.inf)
            assert not in_time or price.total_j >= 0.99 * plan.decision["total_j"]


def check_simple(problem: OddProblem, found_j: float) -> None:
    """Neither split learning nor the whole network on a node is better."""
    task = problem.task
    nodes = task.cluster.nodes
    if nodes.keys() - task.cluster.sources() and len(task.profile.layers) > 2 and task.cluster.tier("cloud"):
        assert found_j <= joules(plan_of(problem, None, "split-learning")) * EXACT
    private = [name for name in task.cluster.sources() if nodes[name].source.private]
    epochs = problem.curve.least_epochs(task.goal.loss, 1.0, 1)
    limited = any(node.limits.energy_j is not None for node in nodes.values())
    for name in nodes if epochs < 1e7 and not limited else ():
        if all(each == name for each in private):
            phase = on_one_node(name, task).model_copy(update={"epochs": max(1, math.ceil(epochs - 1e-9))})
            plan = Plan(model="m", batch=task.batch, phases=(phase,))
            assert found_j <= pt.estimate(plan, profile=task.profile, cluster=task.cluster).total_j * EXACT


@pytest.mark.parametrize("world", QUICK, ids=str)
def test_plans_hold_on_small_odd_problems(world: tuple[int, int, str]) -> None:
    check(*world)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_plans_hold_on_odd_problems(world: tuple[int, int, str]) -> None:
    check(*world)
