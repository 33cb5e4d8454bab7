"""The goals cost and carbon: what plans cost by hand, and that no tree is cheaper than the one that is found."""

from __future__ import annotations

import random
from typing import Any

import pytest

import palmette as pt
from palmette.cost.estimate import evaluator
from palmette.errors import InputError
from palmette.plan.core.choice import best
from palmette.plan.core.comparison import compare, mean_iteration
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.bound import lower_bounds
from palmette.plan.hybrid.pricing import Pricer
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.spec.cluster import Cluster
from palmette.spec.goal import value
from palmette.spec.hourly_price import HourlyPrice
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from tests.plan.deliveries import all_deliveries, random_delivery_task
from tests.plan.hybrid.test_delivery import chains
from tests.plan.hybrid.test_hybrid import priced_states
from tests.plan.problems import LITTLE, goal, node, profile, three_tiers
from tests.thorough import mostly_thorough

HOUR_S, KWH_J = 3600.0, 3.6e6


def euros(per_hour: float) -> HourlyPrice:
    return HourlyPrice(per_hour=per_hour, currency="EUR")


def priced(cluster: Cluster, seed: int) -> Cluster:
    """The cluster with random prices and intensities; some nodes are free, some have the cluster's electricity."""
    draw = random.Random(f"prices {seed}")
    nodes = {
        name: each.model_copy(
            update={
                "price": euros(draw.choice([0.1, 0.4, 3.0])) if k == 0 or draw.random() < 0.7 else None,
                "carbon_g_per_kwh": draw.choice([None, 20.0, 500.0]),
            }
        )
        for k, (name, each) in enumerate(cluster.nodes.items())
    }
    return cluster.model_copy(update={"nodes": nodes, "carbon_g_per_kwh": 300.0})


def priced_task(seed: int, text: str, **more: Any) -> Task:
    known = random_delivery_task(seed, **more)
    cluster = priced(known.cluster, seed)
    return Task(profile=known.profile, cluster=cluster, batch=known.batch, epochs=known.epochs, goal=goal(text))


@pytest.fixture
def rented() -> Cluster:
    """A phone of one's own, a server at 0.36 and a cloud at 7.2 an hour, whose electricity is cleaner."""
    return three_tiers(
        server=node("edge", price=euros(0.36)), cloud=node("cloud", price=euros(7.2), carbon_g_per_kwh=36.0)
    ).model_copy(update={"carbon_g_per_kwh": 360.0})


class TestByHand:
    def test_nodes_are_paid_for_from_beginning_to_end(self, rented: Cluster) -> None:
        made = pt.plan("jointdnn", profile=profile(4), cluster=rented, batch=16).estimate
        assert made is not None
        used = made.nodes or {}
        assert made.iteration_cost == pytest.approx(
            made.iteration_s * sum({"phone": 0, "server": 1e-4, "cloud": 2e-3}[name] for name in used)
        )
        grams = {"phone": 360, "server": 360, "cloud": 36}
        assert made.iteration_carbon_g == pytest.approx(
            sum((each.energy_j or 0) * grams[name] / KWH_J for name, each in used.items())
        )
        assert made.currency == "EUR"

    def test_the_whole_is_the_sum_of_its_epochs(self, rented: Cluster) -> None:
        made = pt.plan("upload", profile=profile(4), cluster=rented, batch=16, epochs=7).estimate
        assert made is not None
        for first, later, total in (
            (made.first_epoch_cost, made.epoch_cost, made.total_cost),
            (made.first_epoch_carbon_g, made.epoch_carbon_g, made.total_carbon_g),
        ):
            assert first is not None
            assert later is not None
            assert total == pytest.approx(first + 6 * later)
            assert total > 0

    def test_phases_and_the_change_between_them_add_up(self, rented: Cluster) -> None:
        one = pt.plan("all-edge", profile=profile(4), cluster=rented, batch=16)
        other = pt.plan("all-cloud", profile=profile(4), cluster=rented, batch=16)
        phases = tuple(plan.phases[0].model_copy(update={"epochs": 2}) for plan in (one, other))
        both = pt.estimate(Plan(model="tiny", batch=16, phases=phases), profile=profile(4), cluster=rented)
        alone = [
            pt.estimate(Plan(model="tiny", batch=16, phases=(phase,)), profile=profile(4), cluster=rented)
            for phase in phases
        ]
        assert both.changes_s is not None
        moved = both.changes_s * (0.36 + 7.2) / HOUR_S  # both ends of the transfer, from beginning to end
        assert both.total_cost == pytest.approx(sum(each.total_cost or 0 for each in alone) + moved)

    def test_without_prices_and_intensities_nothing_is_known(self) -> None:
        made = pt.plan("all-edge", profile=profile(4), cluster=three_tiers(), batch=16).estimate
        assert made is not None
        assert (made.currency, made.iteration_cost, made.iteration_carbon_g) == (None, None, None)

    def test_carbon_is_not_known_without_powers(self, rented: Cluster) -> None:
        without = rented.model_copy(update={"nodes": rented.nodes | {"server": node("edge", power=None)}})
        made = pt.plan("all-edge", profile=profile(4), cluster=without, batch=16).estimate
        assert made is not None
        assert made.iteration_carbon_g is None
        assert made.iteration_cost == 0


@pytest.mark.parametrize("text", ["cost", "carbon", "0.5*time+0.5*cost"])
@pytest.mark.parametrize("seed", mostly_thorough(range(12), 1))
def test_no_tree_with_any_delivery_is_better(seed: int, text: str) -> None:
    """Brute force over chains for each half of the samples, each or once for every source, ahead or not."""
    task = priced_task(seed, text, nodes=2 if seed % 2 else 3)
    problem = make_problem(task)
    pricer = Pricer(problem)
    phases = [way for state in chains(problem) for way in all_deliveries(pricer.phase(state), task)]
    if not phases:
        pytest.skip("no chain may run")
    known: dict[str, Any] = {"profile": task.profile, "cluster": task.cluster, "batch": task.batch}
    made = pt.plan("hybrid", **known, epochs=task.epochs, goal=task.goal, effort=LITTLE)
    units = made.decision.get("units", {})
    prices = evaluator(task.profile, task.cluster)
    tried = [prices.mean_iteration(prices.price(phase), task.horizon) for phase in phases]
    assert made.estimate is not None
    least, found = (
        min(sum(w * value(q, *each) / units.get(q, 1.0) for q, w in task.goal.weights.items()) for each in spent)
        for spent in (tried, [mean_iteration(made.estimate, task.horizon)])
    )
    assert found <= least * (1 + 1e-9)
    assert made.decision["lower_bound"] <= found * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_is_below_the_bounds(seed: int) -> None:
    problem = make_problem(priced_task(seed, "0.5*cost+0.5*carbon"))
    pricer, quick_bound, bounds = Pricer(problem), QuickBound(problem), lower_bounds(problem, ["cost", "carbon"])
    for state, cost in priced_states(problem, pricer, seed):
        quick = quick_bound.least(state)
        for quantity in ("cost", "carbon"):
            assert bounds.of(quantity) <= cost.value(quantity) * (1 + 1e-9)
            assert quick.value(quantity) <= cost.value(quantity) * (1 + 1e-9)


@pytest.mark.parametrize("text", ["cost", "carbon", "0.3*time+0.7*cost", "0.2*energy+0.8*carbon"])
def test_plans_are_compared_by_what_they_spend(rented: Cluster, text: str) -> None:
    task = Task(profile=profile(4), cluster=rented, batch=16, goal=goal(text))
    found = compare(task, names=["all-device", "all-edge", "all-cloud", "jointdnn", "upload"]).plans
    spent = [mean_iteration(plan.estimate, task.horizon) for plan in found if plan.estimate is not None]
    units = {q: min(value(q, *each) for each in spent) or 1.0 for q in task.goal.weights}
    if task.goal.single:
        units = dict.fromkeys(units, 1.0)
    by_hand = [sum(w * value(q, *each) / units[q] for q, w in task.goal.weights.items()) for each in spent]
    assert len(by_hand) == 5
    assert by_hand == sorted(by_hand)


def test_a_strategy_takes_the_cheapest_of_its_plans(rented: Cluster) -> None:
    fast, cheap = (
        pt.plan("jointdnn", profile=profile(4), cluster=rented, batch=16, goal=text).phases for text in ("time", "cost")
    )
    task = Task(profile=profile(4), cluster=rented, batch=16, goal=goal("cost"))
    assert best([*fast, *cheap], task).phase == cheap[0]


@pytest.mark.slow
def test_auto_says_what_is_spent(rented: Cluster) -> None:
    made = pt.plan("auto", profile=profile(3), cluster=rented, batch=8, goal="cost", effort=LITTLE)
    assert "is best for cost" in made.decision["why"]
    assert " EUR" in made.decision["why"]
    assert " CO2" in made.decision["why"]


class TestWhatIsRefused:
    @pytest.mark.parametrize("strategy", ["auto", "hybrid", "hiertrain", "all-edge", "upload"])
    @pytest.mark.parametrize(("text", "needs"), [("cost", "price: 0.4 EUR/h"), ("carbon", "carbon: 300 g/kWh")])
    def test_a_goal_that_the_cluster_does_not_know(self, strategy: str, text: str, needs: str) -> None:
        with pytest.raises(InputError, match=needs):
            pt.plan(strategy, profile=profile(3), cluster=three_tiers(), batch=8, goal=text)

    def test_carbon_of_a_node_without_an_intensity(self, rented: Cluster) -> None:
        cluster = rented.model_copy(update={"carbon_g_per_kwh": None})
        with pytest.raises(InputError, match=r"nodes\.(phone|server)\.carbon.*the goal carbon needs it"):
            pt.plan("all-edge", profile=profile(3), cluster=cluster, batch=8, goal="carbon")

    def test_measurements_know_no_money(self) -> None:
        device = {"step_s": 1.0, "build_s": 0.0, "power_w": 1.0}
        table = {"format": "palmette.measurements/1", "steps": 10, "devices": {"a": device}}
        with pytest.raises(InputError, match="measurements have no cost"):
            pt.plan("cluster", measurements=Measurements.model_validate(table), goal="cost")
