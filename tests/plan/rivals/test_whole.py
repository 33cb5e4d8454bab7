"""all-device, all-edge, all-cloud against what a person would work out."""

from __future__ import annotations

import math

import pytest

import palmette as pt
from palmette.errors import not_below
from palmette.spec.cluster import Cluster, Limits, Power
from tests.plan.problems import THREE_SLOWNESSES, cpu, goal, link, node, profile, three_tiers

TIERS = {"all-device": "phone", "all-edge": "server", "all-cloud": "cloud"}


def computing_s(slowness: float, batch: int, layers: int = 2, share: float = 1.0) -> float:
    """Forward, backward and update of a network of ``worlds.profile``, one after the other."""
    fixed, sample, update = 0.6e-3, 3e-3, 0.1e-3
    return layers * slowness * (fixed + batch * sample + update) / share


@pytest.mark.parametrize(("strategy", "where"), TIERS.items())
def test_each_puts_the_whole_network_on_its_tier(strategy: str, where: str) -> None:
    plan = pt.plan(strategy, profile=profile(), cluster=three_tiers(), batch=10)

    (phase,) = plan.phases
    (instance,) = phase.instances
    assert (instance.node, instance.layers, instance.into) == (where, (1, 2), None)
    assert [(feed.node, feed.samples) for feed in phase.sources] == [("phone", 10)]
    assert plan.decision["nodes"] == [where, where]
    assert (plan.strategy, plan.model, plan.batch) == (strategy, "tiny", 10)


def test_all_device_needs_no_link_and_only_computes() -> None:
    plan = pt.plan("all-device", profile=profile(), cluster=three_tiers(), batch=10)

    assert plan.decision["iteration_s"] == pytest.approx(computing_s(THREE_SLOWNESSES["phone"], 10))
    assert plan.estimate.iteration_s == pytest.approx(plan.decision["iteration_s"])


def test_all_edge_adds_the_way_of_the_data_and_its_latency() -> None:
    cluster = Cluster(
        nodes={"phone": node("device", samples=1000), "server": node("edge")},
        links=(link("phone", "server", 8.0, latency_s=0.05),),
    )
    plan = pt.plan("all-edge", profile=profile(), cluster=cluster, batch=10)

    sending_s = 0.05 + 10 * 10_000 * 8 / 8e6
    assert plan.decision["iteration_s"] == pytest.approx(sending_s + computing_s(5.0, 10))
    assert plan.estimate.iteration_s == pytest.approx(plan.decision["iteration_s"])


def test_all_cloud_sends_over_two_links_at_the_rate_of_the_slower() -> None:
    plan = pt.plan("all-cloud", profile=profile(), cluster=three_tiers(), batch=10)

    assert plan.decision["iteration_s"] == pytest.approx(10 * 10_000 * 8 / 4e6 + computing_s(1.0, 10))
    assert plan.estimate.iteration_s == pytest.approx(plan.decision["iteration_s"])


def test_its_own_formula_adds_up_transfers_that_the_clock_lets_overlap() -> None:
    cluster = Cluster(
        nodes={"a": node("device", samples=100), "b": node("device", samples=100), "server": node("edge")},
        links=(link("a", "server"), link("b", "server")),
    )
    plan = pt.plan("all-edge", profile=profile(a=1, b=1, server=1), cluster=cluster, batch=20)

    one_transfer_s = 10 * 10_000 * 8 / 8e6
    assert plan.decision["iteration_s"] == pytest.approx(2 * one_transfer_s + computing_s(1.0, 20))
    assert plan.estimate.iteration_s == pytest.approx(one_transfer_s + computing_s(1.0, 20))


def test_energy_is_idle_for_the_iteration_and_busy_while_computing() -> None:
    plan = pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10)

    iteration_s, busy_s = plan.estimate.iteration_s, computing_s(5.0, 10)
    assert plan.estimate.iteration_j == pytest.approx(2 * 2.0 * iteration_s + (10.0 - 2.0) * busy_s)


def test_a_cpu_limit_becomes_the_share_and_stretches_the_time() -> None:
    limited = three_tiers(server=node("edge", limits=cpu(0.25)))
    plan = pt.plan("all-edge", profile=profile(), cluster=limited, batch=10)

    assert plan.phases[0].instances[0].cpu_share == 0.25
    assert plan.decision["iteration_s"] == pytest.approx(0.1 + computing_s(5.0, 10, share=0.25))
    assert plan.estimate.iteration_s == pytest.approx(plan.decision["iteration_s"])


class TestSeveralNodesOfATier:
    """Whichever is best for the goal is taken, as brute force over single-server clusters finds it."""

    SERVERS = {"slow": 8.0, "quick": 2.0, "middling": 4.0}
    POWERS = {"slow": (0.5, 2.0), "quick": (30.0, 90.0), "middling": (1.0, 12.0)}

    def cluster(self, *servers: str) -> Cluster:
        powers = {name: Power(idle_w=idle, busy_w=busy) for name, (idle, busy) in self.POWERS.items()}
        nodes = {"phone": node("device", samples=100)}
        nodes |= {name: node("edge", power=powers[name]) for name in servers}
        return Cluster(nodes=nodes, links=tuple(link("phone", name) for name in servers))

    def plan(self, wanted: str, *servers: str) -> pt.plan:
        return pt.plan(
            "all-edge",
            profile=profile(phone=40, **self.SERVERS),
            cluster=self.cluster(*servers),
            batch=10,
            goal=wanted,
        )

    @pytest.mark.parametrize("wanted", ["time", "energy", "power", "edp"])
    def test_the_best_for_a_single_goal(self, wanted: str) -> None:
        def value(name: str) -> float:
            price = self.plan("time", name).estimate
            time_s, energy_j = price.iteration_s, price.iteration_j
            each = {"time": time_s, "energy": energy_j, "power": energy_j / time_s, "edp": energy_j * time_s}
            return each[wanted]

        chosen = self.plan(wanted, *self.SERVERS).phases[0].instances[0].node
        assert value(chosen) == min(map(value, self.SERVERS))

    def test_goals_differ_in_what_they_choose(self) -> None:
        assert self.plan("time", *self.SERVERS).phases[0].instances[0].node == "quick"
        assert self.plan("power", *self.SERVERS).phases[0].instances[0].node == "slow"

    @pytest.mark.parametrize("weight", [0.05, 0.3, 0.5, 0.9, 0.99])
    def test_a_weighted_sum_divides_each_quantity_by_its_best(self, weight: float) -> None:
        prices = {name: self.plan("time", name).estimate for name in self.SERVERS}
        least_s = min(price.iteration_s for price in prices.values())
        least_j = min(price.iteration_j for price in prices.values())

        def score(name: str) -> float:
            price = prices[name]
            return weight * price.iteration_s / least_s + (1 - weight) * price.iteration_j / least_j

        chosen = self.plan(f"{weight}*time+{1 - weight}*energy", *self.SERVERS).phases[0].instances[0].node
        assert chosen == min(self.SERVERS, key=score)

    def test_a_node_that_cannot_be_reached_is_passed_over(self) -> None:
        cluster = self.cluster("slow", "quick")
        cut = cluster.model_copy(update={"links": (link("phone", "slow"),)})
        plan = pt.plan("all-edge", profile=profile(phone=40, **self.SERVERS), cluster=cut, batch=10)
        assert plan.phases[0].instances[0].node == "slow"

    def test_a_node_without_times_is_passed_over(self) -> None:
        plan = pt.plan("all-edge", profile=profile(phone=40, slow=8), cluster=self.cluster("slow", "quick"), batch=10)
        assert plan.phases[0].instances[0].node == "slow"

    def test_a_node_that_is_too_small_is_passed_over(self) -> None:
        cluster = self.cluster("slow", "quick")
        tight = cluster.nodes["quick"].model_copy(update={"memory_bytes": 100.0})
        cluster = cluster.model_copy(update={"nodes": cluster.nodes | {"quick": tight}})
        plan = pt.plan("all-edge", profile=profile(phone=40, **self.SERVERS), cluster=cluster, batch=10)
        assert plan.phases[0].instances[0].node == "slow"


class TestWhatCannotBe:
    def test_private_data_stays_where_it_is(self) -> None:
        cluster = three_tiers(phone=node("device", samples=1000, private=True))
        with pytest.raises(pt.Infeasible, match="the source of phone is private"):
            pt.plan("all-edge", profile=profile(), cluster=cluster)
        assert pt.plan("all-device", profile=profile(), cluster=cluster).phases[0].instances[0].node == "phone"

    def test_a_network_that_does_not_fit_names_node_need_and_memory(self) -> None:
        cluster = three_tiers(server=node("edge", memory_bytes=4096.0))
        with pytest.raises(pt.Infeasible, match=r"KiB on server: does not fit the memory of server, 4 KiB"):
            pt.plan("all-edge", profile=profile(), cluster=cluster)

    def test_memory_counts_the_state_of_the_optimizer(self) -> None:
        weights, batch = 2 * 1000, 4
        activations = batch * 2 * 500
        fits_sgd = three_tiers(server=node("edge", memory_bytes=float(2 * weights + activations)))
        pt.plan("all-edge", profile=profile(), cluster=fits_sgd, batch=batch)
        for optimizer in ("momentum", "adam"):
            with pytest.raises(pt.Infeasible, match="does not fit"):
                pt.plan("all-edge", profile=profile(), cluster=fits_sgd, batch=batch, optimizer=optimizer)

    def test_a_deadline_that_is_too_short_says_what_can_be_had(self) -> None:
        best_s = pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10).estimate.iteration_s
        least = rf"^iteration_deadline_s: 0\.001 s.*the least .* {not_below(best_s)} s"
        with pytest.raises(pt.Infeasible, match=least):
            pt.plan(
                "all-edge",
                profile=profile(),
                cluster=three_tiers(),
                batch=10,
                goal=goal(iteration_deadline_s=0.001),
            )

    def test_a_deadline_that_is_just_met_is_met(self) -> None:
        best_s = pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10).estimate.iteration_s
        wanted = goal("energy", iteration_deadline_s=best_s)
        assert pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10, goal=wanted).estimate

    def test_an_energy_limit_of_a_node_is_obeyed(self) -> None:
        cluster = three_tiers(server=node("edge", limits=Limits(energy_j=0.5)))
        with pytest.raises(pt.Infeasible, match=r"J on server: expected at most 0\.5 J|500 mJ"):
            pt.plan("all-edge", profile=profile(), cluster=cluster, batch=10)

    def test_no_node_of_the_tier(self) -> None:
        cluster = Cluster(nodes={"phone": node("device", samples=10)})
        with pytest.raises(pt.InputError, match="no node of tier edge"):
            pt.plan("all-edge", profile=profile(), cluster=cluster)

    def test_no_source(self) -> None:
        with pytest.raises(pt.InputError, match="no source"):
            pt.plan("all-edge", profile=profile(), cluster=three_tiers(phone=node("device")))

    def test_no_path(self) -> None:
        cluster = three_tiers().model_copy(update={"links": (link("server", "cloud"),)})
        with pytest.raises(pt.InputError, match="phone to server: there is no path"):
            pt.plan("all-edge", profile=profile(), cluster=cluster)

    def test_no_times_for_the_node(self) -> None:
        with pytest.raises(pt.InputError, match="the profile has no times for it, only for phone, cloud"):
            pt.plan("all-edge", profile=profile(phone=1, cloud=1), cluster=three_tiers())

    def test_a_goal_of_energy_without_powers_names_the_node(self) -> None:
        cluster = three_tiers(server=node("edge", power=None))
        with pytest.raises(pt.InputError, match=r"nodes\.server\.power: missing: the goal energy needs it"):
            pt.plan("all-edge", profile=profile(), cluster=cluster, goal="energy")
        assert pt.plan("all-edge", profile=profile(), cluster=cluster).estimate.iteration_j is None

    @pytest.mark.parametrize("wish", [{"deadline_s": 60.0}, {"loss": 0.1}])
    def test_how_long_to_train_is_not_decided_here(self, wish: dict[str, float]) -> None:
        with pytest.raises(pt.InputError, match="does not decide how long to train"):
            pt.plan("all-edge", profile=profile(), cluster=three_tiers(), goal=goal(**wish))


def test_the_same_seed_gives_the_same_plan() -> None:
    def made() -> dict:
        plan = pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10, seed=7)
        return plan.model_dump(exclude={"plan_s"})

    assert made() == made()


def test_every_strategy_prices_by_the_same_evaluator() -> None:
    for strategy in TIERS:
        plan = pt.plan(strategy, profile=profile(), cluster=three_tiers(), batch=10)
        assert pt.estimate(plan) == plan.estimate
        assert math.isfinite(plan.plan_s)
