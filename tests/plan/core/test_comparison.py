"""All strategies side by side: in order, each as it plans alone, failures listed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import pytest

import palmette as pt
from palmette.errors import ArgumentFault, InputError, not_below
from palmette.plan.core.choice import score
from palmette.plan.core.comparison import compare, cost, ranked
from palmette.plan.core.make_plan import of_what_holds
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import HORIZON_EPOCHS, Task
from palmette.spec.cluster import Limits
from palmette.spec.learning import Learning
from palmette.spec.link_trace import BandwidthTrace
from tests.plan.problems import LITTLE, goal, node, profile, three_tiers


def task(**more: Any) -> Task:
    return Task(profile=profile(4), cluster=three_tiers(), batch=16, **more)


def test_plans_come_best_first() -> None:
    plans = [
        pt.plan(name, profile=profile(), cluster=three_tiers(), batch=10)
        for name in ("all-device", "all-edge", "all-cloud")
    ]
    for wanted in ("time", "energy", "power", "edp", "0.3*time+0.7*energy"):
        order = ranked(plans, goal(wanted), 10)
        scores = score([(plan.estimate.iteration_s, plan.estimate.iteration_j) for plan in order], goal(wanted))
        assert scores == sorted(scores)
        assert {plan.strategy for plan in order} == {plan.strategy for plan in plans}


def test_every_strategy_is_planned_or_says_why_not() -> None:
    found = compare(task(), {"effort": LITTLE})
    expected = {name for name, kind in strategies().items() if not kind.composed}
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


def test_plans_that_shall_hold_are_ranked_by_what_links_reach_that_long() -> None:
    """A link of 20 Mbit/s that has 1 Mbit/s for a sixth of the time."""
    (first, *rest) = three_tiers().links
    trace = BandwidthTrace(time_s=(0.0, 4.0, 5.0), down_bps=(20e6, 1e6, 20e6))
    varying = first.model_copy(update={"bandwidth_bps": None, "bandwidth_trace": trace})
    slow = first.model_copy(update={"bandwidth_bps": 1e6})
    names = ["all-device", "all-edge", "all-cloud"]
    robust = replace(task(), cluster=three_tiers().model_copy(update={"links": (varying, *rest)}), robust=0.9)
    always = replace(task(), cluster=three_tiers().model_copy(update={"links": (slow, *rest)}))
    found, expected = (compare(of_what_holds(each), names=names).plans for each in (robust, always))
    assert [(plan.strategy, plan.estimate) for plan in found] == [(plan.strategy, plan.estimate) for plan in expected]


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


CURVE = Learning(floor=0.0, scale=1.0, epoch_exponent=1.0, data_exponent=0.0, replica_exponent=0.0)


@pytest.mark.slow
def test_with_a_learning_curve_everyone_trains_until_the_loss() -> None:
    found = compare(task(goal=goal("time", loss=0.26)), {"learning": CURVE}, ["all-edge", "all-cloud", "hybrid"])
    assert not found.skipped
    for plan in found.plans:
        estimate = plan.estimate
        assert estimate is not None
        assert plan.phases[0].epochs == estimate.epochs == 4  # 1 / k ≤ 0.26
        assert estimate.epoch_s is not None
        assert estimate.first_epoch_s is not None
        assert estimate.total_s == pytest.approx(estimate.first_epoch_s + 3 * estimate.epoch_s)
    totals = [plan.estimate.total_s for plan in found.plans if plan.estimate]
    assert totals == sorted(totals)


def test_a_deadline_leaves_out_who_trains_too_long() -> None:
    every = compare(task(goal=goal("time", loss=0.26)), {"learning": CURVE}, ["all-device", "all-cloud"])
    slow_s = max(plan.estimate.total_s for plan in every.plans if plan.estimate and plan.estimate.total_s)
    wanted = goal("time", loss=0.26, deadline_s=slow_s * 0.99)
    found = compare(task(goal=wanted), {"learning": CURVE}, ["all-device", "all-cloud"])
    assert [plan.strategy for plan in found.plans] == ["all-cloud"]
    assert str(found.skipped["all-device"]).startswith("deadline_s: ")
    assert f"the least that can be had is {not_below(slow_s)} s" in str(found.skipped["all-device"])


@pytest.mark.slow
def test_who_can_hurry_does_so_for_a_deadline() -> None:
    all_data = CURVE.model_copy(update={"fitted_on": {"data": (1.0, 1.0)}})
    options = {"learning": all_data, "effort": LITTLE}
    free = compare(task(goal=goal("energy", loss=0.26)), options, ["hybrid"]).plans[0].estimate
    assert free is not None
    assert free.total_s is not None
    fastest = compare(task(goal=goal("time", loss=0.26)), options, ["hybrid"]).plans[0].estimate
    assert fastest is not None
    assert fastest.total_s is not None
    limit_s = (free.total_s + fastest.total_s) / 2
    assert fastest.total_s < limit_s < free.total_s
    wanted = goal("energy", loss=0.26, deadline_s=limit_s)
    (hurried,) = compare(task(goal=wanted), options, ["hybrid"]).plans
    assert hurried.estimate is not None
    assert hurried.estimate.total_s is not None
    assert hurried.estimate.total_s <= limit_s


def test_a_loss_below_the_floor_cannot_be_reached() -> None:
    curve = CURVE.model_copy(update={"floor": 0.5})
    found = compare(task(goal=goal("time", loss=0.4)), {"learning": curve}, ["all-edge"])
    assert str(found.skipped["all-edge"]) == "loss: 0.4: cannot be reached; the curve stays above 0.5"


def test_without_a_deadline_there_is_nothing_to_hurry_for() -> None:
    tired = three_tiers(server=node("edge", limits=Limits(energy_j=1.0)))
    asked = Task(profile=profile(4), cluster=tired, batch=16, goal=goal("time", loss=0.001))
    found = compare(asked, {"learning": CURVE}, ["all-edge"])
    assert "expected at most 1 J" in str(found.skipped["all-edge"])


@pytest.mark.slow
def test_from_python() -> None:
    found = pt.compare(profile=profile(2), cluster=three_tiers(), batch=16, goal="edp")
    costs = [cost(plan, goal("edp"), HORIZON_EPOCHS) for plan in found.plans]
    products = [time_s * energy_j for time_s, energy_j, *_ in costs]
    assert products == sorted(products)
    with pytest.raises(InputError) as caught:
        pt.compare(profile=profile(4), cluster=three_tiers(), batch=0)
    assert caught.value.faults == [ArgumentFault("batch", 0, "expected at least 1 and at most 1000000000000")]
