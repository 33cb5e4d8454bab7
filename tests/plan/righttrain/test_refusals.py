"""What RightTrain and split learning cannot plan is said in one line: which constraint, or what is missing."""

from __future__ import annotations

from typing import Any

import pytest

import palmette as pt
from palmette.spec.cluster import Cluster, Limits, Power
from palmette.spec.goal import Goal
from palmette.spec.profile import Profile
from tests.plan.problems import link, node, profile, three_tiers
from tests.plan.righttrain.problems import CURVE, LOSS


def refusal(strategy: str, cluster: Cluster, layers: int = 4, **more: Any) -> str:
    wanted = Goal(weights={"energy": 1.0}, loss=LOSS, **more.pop("limits", {}))
    asked: dict[str, Any] = {"batch": 32, "learning": CURVE, "goal": wanted} | more
    slowness = dict.fromkeys(cluster.nodes, 5.0)
    with pytest.raises(pt.PalmetteError) as caught:
        pt.plan(strategy, profile=asked.pop("profile", profile(layers, **slowness)), cluster=cluster, **asked)
    (line,) = str(caught.value).splitlines()
    return line


def test_a_network_that_cannot_be_split_in_three() -> None:
    line = refusal("split-learning", three_tiers(), 2)
    assert line == "layers: 2: expected at least 3, to split the network in three"


def test_a_cluster_without_a_cloud() -> None:
    cluster = three_tiers(cloud=node("edge"))
    assert refusal("split-learning", cluster) == "nodes: no node of tier cloud: expected at least one"


def test_a_batch_of_fewer_samples_than_sources() -> None:
    cluster = three_tiers(server=node("edge", samples=10))
    assert refusal("split-learning", cluster, batch=1) == "batch: 1: expected at least 2, one sample per source"


def test_a_loss_that_so_many_replicas_do_not_reach() -> None:
    """Replicas learn from less each: alone, either source would do."""
    cluster = three_tiers(server=node("edge", samples=1000))
    slow = CURVE.model_copy(update={"epoch_exponent": 0.02, "replica_exponent": 3.0, "scale": 0.28, "floor": 0.0})
    line = refusal("split-learning", cluster, learning=slow)
    assert line == "loss: 0.3: cannot be met by 2 replicas of the first layer"


def test_servers_without_memory() -> None:
    cluster = three_tiers(server=node("edge", memory_bytes=10.0))
    assert refusal("split-learning", cluster).startswith("no three-way split is feasible: missing paths or profiles")


def test_an_energy_limit_that_no_split_keeps() -> None:
    cluster = three_tiers(phone=node("device", samples=1000, limits=Limits(energy_j=1e-3)))
    assert refusal("split-learning", cluster).startswith("no three-way split satisfies all limits; the closest: ")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [("alpha", 0.5, "at least 1 and at most 4"), ("epsilon", -1.0, "at least 0 and at most 10")],
)
def test_an_option_out_of_its_range(option: str, value: float, expected: str) -> None:
    assert refusal("righttrain", three_tiers(), **{option: value}) == f"{option}: {value}: expected {expected}"


def test_no_data_and_no_power() -> None:
    assert refusal("righttrain", three_tiers(phone=node("device"))).startswith("nodes: no source: expected")
    assert refusal("righttrain", three_tiers(cloud=node("cloud", power=None))) == (
        "nodes.cloud.power: missing: the goal energy needs it"
    )


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["righttrain", "split-learning"])
def test_an_iteration_that_cannot_be_so_short(strategy: str) -> None:
    line = refusal(strategy, three_tiers(), limits={"iteration_deadline_s": 1e-6})
    assert line.startswith("iteration_deadline_s: 1e-06 s: cannot be met; the least that can be had is ")


@pytest.mark.slow
def test_the_loss_that_can_be_had_in_time() -> None:
    line = refusal("righttrain", three_tiers(), limits={"deadline_s": 20.0})
    assert line.startswith("deadline_s: 20 s: cannot be met; the least that can be had is ")
    least = float(line.rpartition("or a loss of ")[2].removesuffix(" in time"))
    assert LOSS < least < CURVE.loss(1, 0.01, 1)


def test_data_that_nobody_can_train_on() -> None:
    """The phone keeps its data, and its layers do not fit."""
    cluster = Cluster(
        nodes={"phone": node("device", samples=100, private=True, memory_bytes=10.0), "cloud": node("cloud")},
        links=(link("phone", "cloud"),),
    )
    assert "phone" in refusal("righttrain", cluster)


def frugal(limit_j: float) -> tuple[Cluster, Profile]:
    """A fast phone that may use little energy, and servers that are slower."""
    limits, power = Limits(energy_j=limit_j), Power(idle_w=1.0, busy_w=6.0, exponent=3.0)
    phone = node("device", samples=1000, power=power, limits=limits)
    links = (link("phone", "server"), link("server", "cloud"))
    cluster = Cluster(nodes={"phone": phone, "server": node("edge"), "cloud": node("cloud")}, links=links)
    return cluster, profile(4, phone=1.0, server=3.0, cloud=3.0)


def planned_within(strategy: str, limit_j: float, deadline_s: float | None = None) -> dict[str, Any]:
    options: dict[str, Any] = {"alone": True} if strategy == "righttrain" else {}
    (cluster, known), goal = frugal(limit_j), Goal(weights={"energy": 1.0}, loss=LOSS, deadline_s=deadline_s)
    made = pt.plan(strategy, cluster=cluster, profile=known, batch=32, learning=CURVE, goal=goal, **options)
    return made.decision


@pytest.mark.parametrize(
    ("strategy", "limit_j"), [("righttrain", 600.0), ("righttrain-optimum", 600.0), ("split-learning", 1850.0)]
)
def test_the_least_time_keeps_to_energy_limits(strategy: str, limit_j: float) -> None:
    """The fastest plan breaks them."""
    with pytest.raises(
        pt.Infeasible, match=r"deadline_s: 0\.001 s: cannot be met; the least that can be had is "
    ) as no:
        planned_within(strategy, limit_j, 1e-3)
    least_s = float(str(no.value).partition(" can be had is ")[2].partition(" s ")[0])
    assert no.value.least_s == pytest.approx(least_s, rel=1e-5)
    assert planned_within(strategy, limit_j, least_s)["total_s"] <= least_s
    with pytest.raises(pt.Infeasible, match="cannot be met; the least that can be had is "):
        planned_within(strategy, limit_j, least_s * 0.98)
    assert planned_within(strategy, 1e9, least_s * 0.98)["total_s"] < least_s


@pytest.mark.parametrize("strategy", ["righttrain", "righttrain-optimum", "split-learning"])
def test_energy_limits_that_no_plan_keeps_name_the_closest(strategy: str) -> None:
    with pytest.raises(pt.Infeasible, match="satisfies all limits; the closest") as no:
        planned_within(strategy, 1e-3)
    used_j = float(
        str(no.value).partition("phases: ")[2].removesuffix(" J on phone: expected at most 1 mJ, its energy limit")
    )
    assert planned_within(strategy, used_j * 1.00001)["total_j"] > 0
