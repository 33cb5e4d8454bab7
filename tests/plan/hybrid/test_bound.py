"""The lower bound that hybrid states: below every plan there is, and seen where it is not."""

from __future__ import annotations

import pytest

from benchmarks.planner.every_plan import BestPlans
from benchmarks.planner.small_worlds import GOALS, random_task
from palmette.plan.hybrid import bound
from palmette.plan.hybrid.bound import lower_bounds
from palmette.plan.hybrid.pricing import LONGEST_S
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.hybrid.strategy import stated_bound
from tests.thorough import mostly_slow

PARTS = 2


@pytest.mark.parametrize("seed", mostly_slow(range(24), 6))
def test_no_plan_of_all_is_below_the_bound(seed: int) -> None:
    """Every plan of up to two parts that its work does not put above the bound is played."""
    task = random_task(seed)
    bounds = lower_bounds(make_problem(task))
    below = BestPlans(task, PARTS, {goal: bounds.of(goal) for goal in GOALS})
    assert below.lists
    assert below.phases == {}


def test_a_bound_above_its_plan_is_not_stated() -> None:
    assert stated_bound(1.01, 1.0) == {}


def test_rounding_is_none() -> None:
    assert stated_bound(1.0 + 1e-12, 1.0) == {"lower_bound": 1.0, "gap": 0.0}


@pytest.mark.parametrize(("asked", "given"), [(None, LONGEST_S), (3.0, 3.0)])
def test_branches_end_the_program_and_seconds_only_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, given: float
) -> None:
    """On a busy machine ten seconds made a gap of 5% one of 44%."""
    limits: list[float] = []
    monkeypatch.setattr(bound, "integer_time_bound", lambda _, __, seconds: limits.append(seconds) or 0.0)
    lower_bounds(make_problem(random_task(1)), seconds=asked)
    assert limits == [given]
