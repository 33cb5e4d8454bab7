"""federated, local-sgd and diloco: who trains on what, where they meet, and what they cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

import palmette as pt
from palmette.plan.core.comparison import planned as compared
from palmette.plan.core.forest import forests, servers
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from palmette.spec.sync import USUAL_OUTER
from tests.plan.problems import cpu, link, node, profile, three_tiers
from tests.plan.random_problems import random_world

SLOWNESS = profile(slow=8.0, fast=2.0, server=1.0)
APART = ("federated", "local-sgd", "diloco")


def homes(private: bool = True, **changes: Any) -> Cluster:
    """Two phones with 600 and 300 samples of their own and a server, 8 Mbit/s each."""
    phones = {
        "one": node("device", samples=600, private=private),
        "two": node("device", samples=300, private=private),
    }
    return Cluster(
        nodes={**phones, "server": node("edge"), **changes}, links=(link("one", "server"), link("two", "server"))
    )


def planned(name: str, cluster: Cluster, **more: Any) -> Plan:
    return pt.plan(name, profile=profile(one=4.0, two=8.0, server=1.0), cluster=cluster, batch=30, **more)


class TestFederated:
    def test_every_owner_is_a_client_with_batches_of_its_own(self) -> None:
        plan = planned("federated", homes(), local_epochs=2)
        (phase,) = plan.phases
        assert (phase.sync, phase.local_epochs) == ("epoch", 2)
        assert [(feed.node, feed.samples, feed.into) for feed in phase.sources] == [
            ("one", 30, "one"),
            ("two", 30, "two"),
        ]
        assert {instance.layers for instance in phase.instances} == {(1, 2)}
        assert plan.decision["clients"] == ["one", "two"]

    def test_the_server_is_where_a_round_is_shortest(self) -> None:
        plan = planned("federated", homes())
        assert plan.decision["server"] == "server"
        rounds = []
        for name in ("one", "two", "server"):
            phase = plan.phases[0].model_copy(update={"server": name})
            rounds.append(pt.estimate(plan.model_copy(update={"phases": (phase,)})).epoch_s)
        assert plan.decision["round_s"] == plan.estimate.epoch_s == min(rounds)

    def test_a_part_of_the_clients_in_a_round_is_priced_as_the_mean_over_them(self) -> None:
        plan = planned("federated", homes(), clients_per_round=0.5)
        (phase,) = plan.phases
        assert (phase.clients, plan.decision["clients_per_round"]) == (1, 1)
        alone = [
            phase.model_copy(
                update={"clients": None, "sources": (phase.sources[k],), "instances": (phase.instances[k],)}
            )
            for k in range(2)
        ]
        rounds = [pt.estimate(plan.model_copy(update={"phases": (each,)})).epoch_s for each in alone]
        assert rounds[0] != rounds[1]
        assert plan.estimate.epoch_batches == 15  # 450 of 900 samples on average
        assert plan.estimate.epoch_s == plan.decision["round_s"] == pytest.approx(sum(rounds) / 2)
        assert planned("federated", homes(), clients_per_round=2).phases[0].clients is None

    def test_secure_aggregation_needs_data_on_two_nodes_beside_the_server(self) -> None:
        plan = planned("federated", homes(), secure_aggregation=True)
        assert plan.phases[0].secure_aggregation
        assert plan.phases[0].server == plan.decision["server"] == "server"
        assert plan.decision["round_s"] > planned("federated", homes()).decision["round_s"]
        assert Plan.model_validate_json(plan.to_json()).phases == plan.phases
        two = Cluster(nodes={each: homes().nodes[each] for each in ("one", "two")}, links=(link("one", "two"),))
        with pytest.raises(pt.Infeasible, match="2 that own data: expected a server, and data on two others"):
            planned("federated", two, secure_aggregation=True)
        third = node("device", samples=90, private=True)
        three = Cluster(nodes={**two.nodes, "server": third}, links=homes().links)
        assert planned("federated", three, secure_aggregation=True).phases[0].roots == 3

    @pytest.mark.slow
    def test_it_counts_by_what_falls_to_a_batch_of_its_epoch(self) -> None:
        found = pt.compare(profile=profile(one=4.0, two=8.0, server=1.0), cluster=homes(), batch=30, effort=0.1)
        by_name = {plan.strategy: plan for plan in found.plans}
        ranks = [plan.strategy for plan in found.plans]
        (one, other) = by_name["federated"].estimate, by_name["local-sgd"].estimate
        assert one.epoch_batches == other.epoch_batches == 30
        assert one.epoch_iterations == 20
        assert (ranks.index("federated") < ranks.index("local-sgd")) == (one.epoch_s < other.epoch_s)


class TestLocalSgd:
    def test_private_data_stays_and_counts_as_much_as_is_owned(self) -> None:
        (phase,) = planned("local-sgd", homes(), every=7).phases
        assert (phase.sync, phase.every, phase.outer) == ("every", 7, None)
        assert [(feed.node, feed.samples, feed.into) for feed in phase.sources] == [
            ("one", 20, "one"),
            ("two", 10, "two"),
        ]

    def test_samples_that_may_move_go_by_speed(self) -> None:
        """The server computes four times as fast as one phone and eight times as fast as the other."""
        plan = planned("local-sgd", homes(private=False), every=50, epochs=1000)
        shares = plan.decision["replicas"]
        assert shares["server"] > shares["one"] > shares.get("two", 0)
        assert sum(shares.values()) == 30
        assert {feed.delivery for feed in plan.phases[0].sources if feed.into != feed.node} == {"once"}

    def test_no_other_forest_and_server_is_faster(self) -> None:
        for seed in range(5):
            known, cluster = random_world(random.Random(seed), nodes=4, sources=2)
            task = Task(profile=known, cluster=cluster, batch=8)
            made = pt.plan("local-sgd", profile=known, cluster=cluster, batch=8, every=3)
            for forest in forests(task, 3, None):
                for server in servers(task):
                    other = forest.model_copy(update={"server": server})
                    estimate = pt.estimate(made.model_copy(update={"phases": (other,)}), epochs=10)
                    assert pt.estimate(made, epochs=10).total_s <= estimate.total_s * (1 + 1e-9)

    def test_one_node_alone_is_no_forest(self) -> None:
        alone = Cluster(nodes={"one": node("device", samples=5, private=True), "server": node("edge")}, links=())
        with pytest.raises(pt.Infeasible, match="expected several, each with a replica"):
            planned("local-sgd", alone)

    def test_limits_slow_a_node_down(self) -> None:
        slow = planned("local-sgd", homes(private=False, server=node("edge", limits=cpu(0.1))), every=50, epochs=1000)
        quick = planned("local-sgd", homes(private=False), every=50, epochs=1000)
        assert slow.decision["replicas"].get("server", 0) < quick.decision["replicas"]["server"]


class TestSharesBySpeed:
    """A phone and one that computes four times as fast, both with 300 samples that stay there."""

    known = Cluster(
        nodes={name: node("device", samples=300, private=True) for name in ("slow", "fast")} | {"server": node("edge")},
        links=(link("slow", "server"), link("fast", "server")),
    )

    def made(self, **more: Any) -> Plan:
        return pt.plan("diloco", profile=SLOWNESS, cluster=self.known, batch=30, every=20, **more)

    def test_the_window_is_not_bound_to_the_slowest(self) -> None:
        by_speed, as_owned = self.made(), self.made(shares="owned")
        assert as_owned.decision["replicas"] == {"slow": 15, "fast": 15}
        assert by_speed.decision["replicas"] == {"slow": 6, "fast": 24}
        assert by_speed.estimate.iteration_s < 0.42 * as_owned.estimate.iteration_s

    def test_no_other_shares_are_faster(self) -> None:
        plan = self.made()
        (phase,), times = plan.phases, []
        for slow in range(1, 30):
            feeds = [
                each.model_copy(update={"samples": slow if each.node == "slow" else 30 - slow})
                for each in phase.sources
            ]
            other = plan.model_copy(update={"phases": (phase.model_copy(update={"sources": tuple(feeds)}),)})
            times.append(pt.estimate(other).epoch_s)
        assert plan.estimate.epoch_s == min(times)

    def test_what_is_drawn_more_often_is_said(self) -> None:
        assert self.made().estimate.warnings == (
            "an epoch draws 40% as many samples from slow as it owns: shares go by speed",
            "an epoch draws 160% as many samples from fast as it owns: shares go by speed",
        )
        assert self.made(shares="owned").estimate.warnings == ()

    def test_a_learning_curve_knows_shares_as_owned_only(self) -> None:
        curve = Learning(
            floor=0, scale=1, epoch_exponent=1, data_exponent=1, replica_exponent=0, window_exponent=0.1,
            outer=USUAL_OUTER,
        )  # fmt: skip
        task = Task(profile=SLOWNESS, cluster=self.known, batch=30, goal=Goal(loss=0.5))
        options = {"every": 20, "learning": curve}
        assert compared("diloco", task, options).decision["replicas"] == {"slow": 15, "fast": 15}
        with pytest.raises(pt.InputError, match="shares: speed: a learning curve does not know"):
            compared("diloco", task, options | {"shares": "speed"})

    def test_data_that_may_move_goes_by_speed_beside_them(self) -> None:
        phones = {"slow": node("device", samples=300, private=True), "fast": node("device", samples=300)}
        links = (link("slow", "server", 1000.0), link("fast", "server", 1000.0))
        known = Cluster(nodes={**phones, "server": node("edge")}, links=links)
        slowness = profile(slow=8.0, fast=2.0, server=2.0)
        made = pt.plan("local-sgd", profile=slowness, cluster=known, batch=90, every=20)
        assert made.decision["replicas"] == {"slow": 10, "fast": 40, "server": 40}
        assert [(each.node, each.into) for each in made.phases[0].sources] == [
            ("slow", "slow"), ("fast", "fast"), ("fast", "server")
        ]  # fmt: skip


def test_diloco_sends_less_than_local_sgd_and_has_an_outer_optimizer() -> None:
    near, far = (planned(name, homes(), epochs=10) for name in ("local-sgd", "diloco"))
    assert far.phases[0].outer is not None
    assert (far.phases[0].outer.lr, far.phases[0].outer.momentum, far.phases[0].outer.nesterov) == (0.7, 0.7, True)
    assert far.phases[0].every == 50
    assert far.estimate.total_bytes == pytest.approx(near.estimate.total_bytes / 3)  # 30 steps an epoch


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("local-sgd", {"every": 0}, "every: 0: expected at least 1"),
        ("local-sgd", {"shares": "even"}, "shares: even: expected one of owned, speed"),
        ("diloco", {"every": -3}, "every: -3: expected at least 1"),
        ("diloco", {"fragments": 1}, "fragments: 1: expected 2 to 50, the steps of a window"),
        ("diloco", {"fragments": 3}, "fragments: 3: the network has 2 layers; expected at most as many"),
        ("diloco", {"delay": 1}, "delay: 1: expected it with fragments"),
        (
            "diloco",
            {"fragments": 2, "every": 8, "delay": 4},
            "delay: 4: expected less than 4, the steps between two parts of the network",
        ),
        (
            "diloco",
            {"fragments": 2, "exchange_codec": "bf16"},
            "exchange_codec: bf16: expected none where parts of the network are exchanged in turns",
        ),
        ("diloco", {"outer_lr": 0.0}, "outer_lr: 0.0: expected more than 0"),
        ("diloco", {"outer_momentum": 1.0}, "outer_momentum: 1.0: expected at least 0 and less than 1"),
        ("federated", {"local_epochs": 0}, "local_epochs: 0: expected at least 1"),
        ("federated", {"clients_per_round": 3}, "clients_per_round: 3: 2 nodes own data; expected at most as many"),
        (
            "federated",
            {"clients_per_round": 1.5},
            "clients_per_round: 1.5: expected a whole number, or a fraction above 0 and below 1",
        ),
        ("federated", {"secure_aggregation": "no"}, "secure_aggregation: no: expected true or false"),
        (
            "federated",
            {"clients_per_round": 1, "secure_aggregation": True},
            "clients_per_round: 1: expected none with secure_aggregation",
        ),
        (
            "federated",
            {"secure_aggregation": True, "exchange_codec": "int8"},
            "exchange_codec: int8: the sum of coded weights is none; expected none with secure_aggregation",
        ),
        (
            "federated",
            {"clients_per_round": 1, "exchange_codec": "int8"},
            "exchange_codec: int8: clients that sat out have no weights to add to; expected none, or all clients",
        ),
    ],
)
def test_bad_values_are_refused_in_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pt.InputError) as error:
        planned(name, homes(), **options)
    assert str(error.value) == message


@pytest.mark.slow
def test_auto_stays_with_step_where_nobody_says_what_windows_cost() -> None:
    made = pt.plan("auto", profile=profile(one=4.0, two=8.0, server=1.0), cluster=homes(), batch=30, effort=0.1)
    assert {phase.sync for phase in made.phases} == {"step"}
    assert set(made.decision["left_out"]) >= set(APART)


def test_one_owner_of_three_tiers_may_share_its_samples() -> None:
    plan = pt.plan("local-sgd", profile=profile(), cluster=three_tiers(), batch=30)
    assert len(plan.phases[0].instances) > 1
