"""``private: labels``: the first and the last layer of a source's samples run at home, by every strategy."""

from __future__ import annotations

from typing import Any

import pytest

import palmette as pt
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.bound import lower_bounds
from palmette.plan.hybrid.problem import make_problem
from palmette.plan.pact.phases import trainable_phases
from palmette.spec.cluster import Cluster, Source
from palmette.spec.learning import Learning
from palmette.spec.measurements import MeasuredDevice, Measurements
from palmette.spec.plan import Phase, Plan
from tests.plan.problems import goal, link, node, profile, three_tiers

CURVE = Learning(floor=0.0, scale=1.0, epoch_exponent=1.0, data_exponent=0.0, replica_exponent=0.0)


def keeping(tier: str = "device", samples: int = 100) -> Any:
    return node(tier).model_copy(update={"source": Source(samples=samples, private="labels")})


def one_source() -> Cluster:
    return three_tiers(phone=keeping())


def two_sources() -> Cluster:
    nodes = {"a": keeping(samples=60), "b": keeping(samples=40), "server": node("edge"), "cloud": node("cloud")}
    return Cluster(nodes=nodes, links=(link("a", "server"), link("b", "server"), link("server", "cloud", 40.0)))


def ends_at_home(phase: Phase) -> bool:
    index = {instance.id: instance for instance in phase.instances}
    for feed in phase.sources:
        at = index[feed.into]
        if at.node != feed.node:
            return False
        while at.into is not None:
            at = index[at.into]
        if at.node != feed.node:
            return False
    return True


def obeyed(name: str, cluster: Cluster, layers: int = 4, **more: Any) -> Plan | str:
    """The plan of a strategy, which has to obey, or the one line by which it refuses."""
    slow = {"phone": 40.0, "a": 40.0, "b": 30.0, "server": 2.0, "cloud": 1.0}
    known = profile(layers, **{each: slow[each] for each in cluster.nodes})
    try:
        made = pt.plan(name, profile=known, cluster=cluster, batch=12, **more)
    except pt.PalmetteError as error:
        (line,) = str(error).splitlines()
        return line
    assert all(map(ends_at_home, made.phases)), name
    return made


@pytest.mark.parametrize("name", ["all-device", "hiertrain", "jointdnn", "jointdnn+", "upload", "hybrid"])
def test_a_source_keeps_its_labels(name: str) -> None:
    more = {"seconds": 0.3} if name == "hybrid" else {}
    assert isinstance(obeyed(name, one_source(), **more), Plan)


@pytest.mark.parametrize("name", ["jointdnn", "jointdnn+", "hybrid"])
def test_where_the_phone_is_slow_the_tree_is_u_shaped(name: str) -> None:
    """The middle of the network away from home, its first and last layer there."""
    more = {"seconds": 0.3} if name == "hybrid" else {}
    made = obeyed(name, one_source(), layers=8, **more)
    assert isinstance(made, Plan)
    hosts = [instance.node for instance in made.phases[0].instances]
    assert "phone" in hosts
    assert {"server", "cloud"} & set(hosts)


@pytest.mark.parametrize("name", ["all-edge", "all-cloud", "jalad"])
def test_what_would_take_samples_away_is_refused(name: str) -> None:
    refused = obeyed(name, one_source())
    assert isinstance(refused, str)
    assert "private" in refused


def test_they_are_not_uploaded_while_their_owner_trains() -> None:
    refused = obeyed("near-first", one_source(), epochs=5)
    assert isinstance(refused, str)
    assert refused == "nodes: phone: its data can be uploaded to no other node while it trains"


@pytest.mark.parametrize("name", ["righttrain", "righttrain-optimum", "split-learning"])
def test_trees_that_do_not_lead_back_are_refused(name: str) -> None:
    refused = obeyed(name, one_source(), learning=CURVE, goal=goal("energy", loss=0.3))
    assert isinstance(refused, str)
    assert refused.startswith("nodes.phone.source.private: labels: ")


def test_devices_that_train_alone_keep_them() -> None:
    devices = {name: MeasuredDevice(step_s=0.1, build_s=1.0, power_w=5.0) for name in ("a", "b")}
    table = Measurements(steps=1000, batch=12, devices=devices)
    assert isinstance(obeyed("cluster", two_sources(), measurements=table), Plan)


def test_the_stages_of_pact_keep_them() -> None:
    cluster = two_sources().model_copy(update={"sets": {"own": ("a", "b"), "servers": ("server", "cloud")}})
    known = profile(4, a=40.0, b=30.0, server=2.0, cloud=1.0)
    phases = trainable_phases(Task(profile=known, cluster=cluster, batch=12))
    assert {nodes for _, nodes in phases} == {"own"}
    assert all(map(ends_at_home, phases.values()))


def test_several_sources_each_keep_their_own() -> None:
    made = obeyed("hybrid", two_sources(), layers=8, seconds=0.5)
    assert isinstance(made, Plan)
    assert made.decision["lower_bound"] <= made.decision["value"]


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [one_source(), two_sources()])
def test_auto_keeps_them(cluster: Cluster) -> None:
    assert isinstance(obeyed("auto", cluster, seconds=2.0), Plan)


def test_the_bound_counts_the_last_layer_at_home() -> None:
    """With labels at home it is no less than with samples at home alone."""
    known = profile(4)
    free = make_problem(
        Task(profile=known, cluster=three_tiers(phone=node("device", samples=100, private=True)), batch=12)
    )
    kept = make_problem(Task(profile=known, cluster=one_source(), batch=12))
    assert lower_bounds(free).time_s < lower_bounds(kept).time_s


@pytest.mark.parametrize("name", ["federated", "local-sgd", "diloco"])
def test_replicas_that_train_apart_are_at_home(name: str) -> None:
    assert isinstance(obeyed(name, two_sources()), Plan)


def test_every_strategy_is_tested_here() -> None:
    schedules = {"pact", "pact-optimum", "static-learn", "one-switch"}  # of the same stages
    tried = {"all-device", "all-edge", "all-cloud", "jalad", "jointdnn", "jointdnn+", "hiertrain", "hybrid", "auto"}
    tried |= {"upload", "near-first", "righttrain", "righttrain-optimum", "split-learning", "cluster"}
    tried |= {"federated", "local-sgd", "diloco"}
    assert set(strategies()) == tried | schedules
