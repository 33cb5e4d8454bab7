"""A looser deadline never costs more, and no simple plan, split learning or hybrid costs less."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import palmette as pt
from palmette.plan.core.make_plan import configured
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain import starts
from palmette.plan.righttrain.problem import build_problem
from palmette.plan.righttrain.starts import OtherPlan, others_least_j, plans_of_others
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan
from tests.plan.righttrain.problems import least_s, planned, random_problem, task
from tests.thorough import mostly_thorough

LOOSE = (1.02, 1.3, 2.0, 4.0, 12.0, None)
EXACT = 1 + 1e-6
"""What the programs of CPU shares are solved to."""
SMALL, LARGE = (3, 5, 3), (20, 24, 6)
MANY_SOURCES = ((1, 7), (2, 16), *(pytest.param(*each, marks=pytest.mark.thorough) for each in ((1, 16), (3, 20))))
"""Seeds and numbers of sources, with few layers so that a world takes seconds."""


def joules(wanted: Task, curve: Learning, strategy: str = "righttrain", **options: bool) -> float:
    """The energy of a plan; infinite where there is none."""
    try:
        return float(planned(strategy, wanted, curve, **options).decision["total_j"])
    except pt.PalmetteError:
        return math.inf


def check_monotone(
    seed: int, most: tuple[int, int, int], least_sources: int = 1, loose: tuple[float | None, ...] = LOOSE
) -> None:
    known, cluster, curve = random_problem(random.Random(seed), most, least_sources)
    unit_s = least_s(known, cluster, curve)
    deadlines = [None if each is None else each * unit_s for each in loose]
    found = [joules(task(known, cluster, deadline_s), curve) for deadline_s in deadlines]
    assert all(loose <= tight * EXACT for tight, loose in itertools.pairwise(found)), found


@pytest.mark.parametrize("seed", [200, 201])
def test_a_looser_deadline_never_costs_more(seed: int) -> None:
    check_monotone(seed, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_thorough(range(202, 212), 3))
def test_a_looser_deadline_never_costs_more_in_more_worlds(seed: int) -> None:
    check_monotone(seed, SMALL)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 3, 6, 9])
def test_a_looser_deadline_never_costs_more_with_up_to_20_sources(seed: int) -> None:
    check_monotone(seed, LARGE)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "sources"), MANY_SOURCES)
def test_a_looser_deadline_never_costs_more_with_7_to_20_sources(seed: int, sources: int) -> None:
    check_monotone(seed, (sources, sources + 2, 3), sources, loose=(1.1, 2.0, None))


def whole_training_j(phase: Phase, wanted: Task, curve: Learning) -> float:
    """The energy of training with all data by a phase, until the loss is reached."""
    replicas = sum(instance.layers[0] == 1 for instance in phase.instances)
    epochs = max(1, math.ceil(curve.least_epochs(wanted.goal.loss, 1.0, replicas) - 1e-9))
    plan = Plan(model="m", batch=wanted.batch, phases=(phase.model_copy(update={"epochs": epochs}),))
    return float(pt.estimate(plan, profile=wanted.profile, cluster=wanted.cluster).total_j)


def check_rivals(seed: int, most: tuple[int, int, int], *, with_hybrid: bool, least_sources: int = 1) -> None:
    known, cluster, curve = random_problem(random.Random(seed), most, least_sources)
    wanted = task(known, cluster)
    ours = joules(wanted, curve, alone=not with_hybrid)
    assert ours <= joules(wanted, curve, "split-learning") * EXACT
    private = [name for name in cluster.sources() if cluster.nodes[name].source.private]
    for name in cluster.nodes:
        if all(each == name for each in private):
            assert ours <= whole_training_j(on_one_node(name, wanted), wanted, curve) * EXACT
    if with_hybrid:
        goal = Goal(weights={"energy": 1.0})
        hybrid = configured("hybrid", {"resend": True})
        (phase,) = hybrid.decide(Task(profile=known, cluster=cluster, batch=wanted.batch, goal=goal)).phases
        assert ours <= whole_training_j(phase, wanted, curve) * EXACT


@pytest.mark.parametrize("seed", range(210, 214))
def test_neither_a_single_node_nor_split_learning_is_better(seed: int) -> None:
    check_rivals(seed, SMALL, with_hybrid=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_thorough((1, 2, 4, 5, 7, 8), 2))
def test_no_plan_of_hybrid_is_better(seed: int) -> None:
    check_rivals(seed, SMALL, with_hybrid=True)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 3, 6])
def test_no_plan_of_hybrid_is_better_with_up_to_20_sources(seed: int) -> None:
    check_rivals(seed, LARGE, with_hybrid=True)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "sources"), MANY_SOURCES)
def test_neither_a_single_node_nor_split_learning_is_better_with_7_to_20_sources(seed: int, sources: int) -> None:
    check_rivals(seed, (sources, sources + 2, 3), with_hybrid=False, least_sources=sources)


@pytest.mark.slow
def test_no_plan_of_hybrid_is_better_with_7_sources() -> None:
    check_rivals(1, (7, 9, 3), with_hybrid=True, least_sources=7)


@pytest.mark.slow
def test_plans_of_others_are_not_below_the_bound_that_decides_whether_to_ask() -> None:
    known, cluster, curve = random_problem(random.Random(2))
    problem = build_problem(task(known, cluster), curve)
    (found,) = plans_of_others(problem)
    assert others_least_j(problem) <= found.total_j
    ours = planned("righttrain", task(known, cluster), curve, alone=False)
    assert ours.decision["total_j"] == pytest.approx(found.total_j)
    assert ours.estimate.total_j <= joules(task(known, cluster), curve)


def check_first(seed: int) -> None:
    known, cluster, curve = random_problem(random.Random(seed), SMALL)
    for loose in (1.005, 1.5):
        wanted = task(known, cluster, loose * least_s(known, cluster, curve))
        assert joules(wanted, curve) <= joules(wanted, curve, first=True) * EXACT < math.inf


@pytest.mark.parametrize("seed", [221, 222, 224])
def test_first_finds_a_plan_wherever_there_is_one(seed: int) -> None:
    check_first(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_thorough([220, 223, 225, 226, 227], 2))
def test_first_finds_a_plan_in_more_worlds(seed: int) -> None:
    check_first(seed)


def test_another_strategy_whose_best_plan_is_late_is_asked_for_one_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    known, cluster, curve = random_problem(random.Random(2))
    problem = build_problem(task(known, cluster, 100.0), curve)
    feeds = tuple(range(len(problem.feed_nodes)))
    schedule = problem.schedule(feeds, 1, problem.proportional_split(feeds))
    asked: list[float | None] = []

    def answer(_: object, __: object, limit_s: float | None) -> OtherPlan:
        asked.append(limit_s)
        phase = on_one_node("n0", task(known, cluster))
        return OtherPlan("other", phase, schedule, total_s=200.0 if limit_s is None else 90.0, total_j=7.0)

    monkeypatch.setattr(starts, "_plan_by", answer)
    (found,) = plans_of_others(problem)

    assert found.total_s == 90.0
    assert asked == [None, pytest.approx(100.0 / schedule.iterations)]
