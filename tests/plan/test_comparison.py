"""All strategies side by side: in order, each as it plans alone, failures listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest

import palmette as pt
from palmette.errors import Fault, InputError
from palmette.plan import comparison, strategies
from palmette.plan.choice import score
from palmette.plan.comparison import compare, ranked
from palmette.plan.strategy import Task
from tests.plan.worlds import goal, node, profile, three_tiers


def task(**more: Any) -> Task:
    return Task(profile=profile(4), cluster=three_tiers(), batch=16, **more)


def test_plans_come_best_first() -> None:
    plans = [
        pt.plan(name, profile=profile(), cluster=three_tiers(), batch=10)
        for name in ("all-device", "all-edge", "all-cloud")
    ]
    for wanted in ("time", "energy", "power", "edp", "0.3*time+0.7*energy"):
        order = ranked(plans, goal(wanted))
        scores = score([(plan.estimate.iteration_s, plan.estimate.iteration_j) for plan in order], goal(wanted))
        assert scores == sorted(scores)
        assert {plan.strategy for plan in order} == {plan.strategy for plan in plans}


def test_every_strategy_is_planned_or_says_why_not() -> None:
    found = compare(task())
    expected = {name for name, kind in strategies().items() if not comparison.composed(kind)}
    assert {plan.strategy for plan in found.plans} | found.skipped.keys() == expected
    assert "all-edge" in {plan.strategy for plan in found.plans}


def test_a_strategy_plans_as_it_does_alone() -> None:
    found = compare(task(), names=["all-edge", "jointdnn+", "hiertrain"])
    for made in found.plans:
        alone = pt.plan(made.strategy, profile=profile(4), cluster=three_tiers(), batch=16)
        assert made.model_copy(update={"plan_s": 0.0}) == alone.model_copy(update={"plan_s": 0.0})


def test_the_order_is_the_same_every_time() -> None:
    names = ["jointdnn", "all-cloud", "all-device", "all-edge", "jointdnn+"]
    orders = {tuple(plan.strategy for plan in compare(task(), names=names).plans) for _ in range(3)}
    assert len(orders) == 1


@dataclass(frozen=True)
class Broken:
    """Fails."""

    name: ClassVar[str] = "broken"
    summary: ClassVar[str] = "fails"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    def decide(self, task: Task) -> NoReturn:
        raise KeyError("what")


def test_one_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(strategies(), "broken", Broken)
    found = compare(task(), names=["broken", "all-edge"])
    assert [plan.strategy for plan in found.plans] == ["all-edge"]
    assert str(found.skipped["broken"]) == "it failed: KeyError: 'what'"


def test_what_does_not_apply_says_why() -> None:
    cluster = three_tiers(server=node("cloud"))
    found = compare(Task(profile=profile(4), cluster=cluster, batch=16), names=["all-edge", "all-cloud"])
    assert str(found.skipped["all-edge"]) == "nodes: no node of tier edge: expected at least one"


def test_a_wish_that_a_strategy_cannot_grant_leaves_it_out() -> None:
    found = compare(task(goal=goal("time", loss=0.1)), names=["all-edge", "hybrid"])
    assert not found.plans
    assert all("does not decide how long to train" in str(error) for error in found.skipped.values())


def test_from_python() -> None:
    found = pt.compare(profile=profile(4), cluster=three_tiers(), batch=16, goal="energy")
    joules = [plan.estimate.iteration_j for plan in found.plans if plan.estimate]
    assert joules == sorted(joules)
    with pytest.raises(InputError) as caught:
        pt.compare(profile=profile(4), cluster=three_tiers(), batch=0)
    assert caught.value.faults == [Fault("--batch", 0, "expected at least 1 and at most 1000000000000")]
