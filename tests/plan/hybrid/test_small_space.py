"""hybrid against every plan of a small space: a brute force that shares no code with the search."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from benchmarks.planner.every_plan import BestPlans, Part, lists_of_parts, phases
from benchmarks.planner.small_worlds import GOALS, against_every_plan, random_task
from benchmarks.planner.work_bound import WorkBound
from palmette.cost.delivery import Sent
from palmette.plan.core.delivery import with_delivery
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.exchange_bound import ExchangeBound
from palmette.plan.hybrid.paths import SamplePath, SearchState, instance_tree, simplified
from palmette.plan.hybrid.pricing import Objective
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.plan.hybrid.small_space import groups_of, path_sets
from palmette.spec.goal import Spending, value
from tests.thorough import mostly_thorough


def some_lists(task: Task, seed: int, many: int) -> list[tuple[Part, ...]]:
    every = list(itertools.islice(lists_of_parts(task, 3), 0, 20_000, 7))
    return random.Random(seed).sample(every, min(many, len(every)))


def as_state(parts: tuple[Part, ...], meet: str | None) -> SearchState:
    paths = [
        SamplePath(
            part.source,
            part.samples,
            simplified(list(zip(part.nodes, itertools.count(1), strict=False))),
            part.microbatch,
        )
        for part in parts
    ]
    return SearchState(tuple(paths), meet=meet)


def spent(task: Task, parts: tuple[Part, ...]) -> list[tuple[str | None, Spending]]:
    found = [with_delivery(phase, task) for phase in phases(task, parts)]
    return [(each.meet, task.evaluator.mean_iteration(task.evaluator.price(each), task.horizon)) for each in found]


@pytest.mark.parametrize("seed", [2, 6])
def test_no_plan_of_the_space_is_better(seed: int) -> None:
    assert against_every_plan(random_task(seed))["behind"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_thorough([4, 9, 5, 3, 7, 8, 10, 12], 2))
def test_no_plan_of_a_larger_space_is_better(seed: int) -> None:
    assert against_every_plan(random_task(seed))["behind"] == {}


def test_brute_force_finds_the_best_where_nothing_is_known() -> None:
    task = random_task(2)
    tried = [cost for parts in lists_of_parts(task, 2) for _, cost in spent(task, parts)]
    found = BestPlans(task, 2, dict.fromkeys(GOALS, math.inf))
    assert found.values == {goal: min(value(goal, *cost) for cost in tried) for goal in GOALS}


@pytest.mark.parametrize("seed", range(4))
def test_no_bound_is_above_a_price(seed: int) -> None:
    """Neither that of the brute force nor that of the search, for any goal."""
    task = random_task(seed)
    problem = make_problem(task)
    bound, quick, exchange = WorkBound(task), QuickBound(problem), ExchangeBound(problem)
    for parts in some_lists(task, seed, 5):
        least = bound.least([(part.source, part.nodes, part.samples) for part in parts])
        for meet, cost in spent(task, parts):
            state = as_state(parts, meet)
            phase = instance_tree(state, problem.cpu_shares, "none").phase(state)
            chains_s = task.evaluator.least_s(phase, Sent([0.0] * len(phase.sources)))
            for least_s in (chains_s, exchange.least_s(state), exchange.least_anywhere_s(state)):
                assert quick.least(state, least_s).time_s <= cost.time_s * (1 + 1e-9)
            assert quick.longest(state).value("power") <= value("power", *cost) * (1 + 1e-9)
            assert all(least[goal] <= value(goal, *cost) * (1 + 1e-9) for goal in GOALS)


@pytest.mark.parametrize("seed", [0, 1, 130])
def test_a_set_of_paths_is_bounded_wherever_its_gradients_meet(seed: int) -> None:
    """The rule's place is not the best for every goal: far away, an exchange is slow and draws little power."""
    task = random_task(seed)
    problem = make_problem(task)
    quick, exchange = QuickBound(problem), ExchangeBound(problem)
    goals = [Objective({goal: 1.0}) for goal in GOALS]
    for parts in some_lists(task, seed, 60):
        state = as_state(parts[::-1], None)
        least = quick.values_anywhere(state, goals, exchange.least_anywhere_s(state))
        for _, cost in spent(task, parts):
            assert all(bound <= value(goal, *cost) * (1 + 1e-9) for goal, bound in zip(GOALS, least, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_both_make_the_same_trees(seed: int) -> None:
    task = random_task(seed)
    shares = make_problem(task).cpu_shares
    for parts in some_lists(task, seed, 40):
        (theirs, *_), state = phases(task, parts), as_state(parts, None)
        ours = instance_tree(state, shares, "none").phase(state)
        numbers = {each.id: (each.layers, each.node) for each in (*ours.instances, *theirs.instances)}
        for one, other in ((ours, theirs), (theirs, ours)):
            made = [(i.layers, i.node, numbers.get(i.into or "")) for i in one.instances]
            assert sorted(map(str, made)) == sorted(
                str((i.layers, i.node, numbers.get(i.into or ""))) for i in other.instances
            )


@pytest.mark.parametrize("seed", [2, 4])
def test_the_search_looks_at_every_list_of_two_parts(seed: int) -> None:
    task = random_task(seed)
    problem = make_problem(task)
    groups = [group for paths in path_sets(problem, 20_000) for group in groups_of(paths, problem)]
    looked_at = {state for group in groups for state in group}
    assert {as_state(parts, None) for parts in lists_of_parts(task, 2)} <= looked_at


def test_a_large_problem_has_no_small_space() -> None:
    task = random_task(0)
    assert not list(path_sets(make_problem(task), 80))  # 81 ways for one source
