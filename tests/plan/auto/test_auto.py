"""auto: the best of all, and a paragraph that is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import palmette as pt
from palmette.errors import Infeasible, InputError
from palmette.plan.core.registry import strategies
from palmette.spec.cluster import Cluster
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from tests.plan.problems import goal, link, node, profile, three_tiers, where_integers_help

LAYERS = 4
BATCH = 16


def auto(cluster: Cluster, **more: Any) -> Plan:
    return pt.plan("auto", profile=profile(LAYERS), cluster=cluster, batch=BATCH, **more)


@pytest.fixture(scope="module")
def made() -> Plan:
    return auto(three_tiers())


def at(cluster: Cluster, between: list[str], bps: float) -> Cluster:
    links = tuple(
        each.model_copy(update={"bandwidth_bps": bps}) if set(each.between) == set(between) else each
        for each in cluster.links
    )
    return cluster.model_copy(update={"links": links})


def iteration_s(plan: Plan) -> float:
    assert plan.estimate is not None
    return plan.estimate.iteration_s


def test_nothing_that_was_compared_is_better(made: Plan) -> None:
    assert made.decision["value"] == iteration_s(made)
    for name in ("all-device", "all-edge", "all-cloud", "jointdnn+", "hiertrain", "hybrid"):
        alone = pt.plan(name, profile=profile(LAYERS), cluster=three_tiers(), batch=BATCH)
        assert made.decision["compared"][name] == iteration_s(alone)
        assert iteration_s(made) <= iteration_s(alone)
    assert made.decision["strategy"] in made.decision["compared"]
    assert "auto" not in made.decision["compared"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan(made: Plan) -> None:
    again = auto(three_tiers())
    assert again.model_copy(update={"plan_s": 0}) == made.model_copy(update={"plan_s": 0})


@pytest.mark.parametrize(
    "bandwidths",
    [(8.0, 4.0), pytest.param((2.0, 40.0), marks=pytest.mark.slow), pytest.param((30.0, 0.5), marks=pytest.mark.slow)],
)
def test_at_the_stated_bandwidth_the_other_strategy_is_better_and_short_of_it_is_not(
    bandwidths: tuple[float, float],
) -> None:
    first, second = bandwidths
    cluster = three_tiers().model_copy(
        update={"links": (link("phone", "server", first), link("server", "cloud", second))}
    )
    made = auto(cluster)
    for turn in made.decision["links"]:
        told = at(cluster, turn["between"], turn["bandwidth_bps"])
        there = pt.plan(turn["strategy"], profile=profile(LAYERS), cluster=told, batch=BATCH)
        assert iteration_s(there) < pt.estimate(made, cluster=told).iteration_s
        short = turn["bandwidth_bps"] * (0.98 if turn["direction"] == "above" else 1.02)
        before = at(cluster, turn["between"], short)
        for rival in ("all-device", "all-edge", "all-cloud", "jointdnn+"):
            planned = pt.plan(rival, profile=profile(LAYERS), cluster=before, batch=BATCH)
            assert iteration_s(planned) >= pt.estimate(made, cluster=before).iteration_s * (1 - 1e-5)
        assert turn["strategy"] in made.decision["why"]


def test_a_faster_link_to_the_cloud_ends_the_sharing() -> None:
    slow = three_tiers().model_copy(update={"links": (link("phone", "server", 2.0), link("server", "cloud", 40.0))})
    made = auto(slow)
    turns = {(*turn["between"], turn["direction"]): turn for turn in made.decision["links"]}
    turn = turns["phone", "server", "above"]
    assert turn["strategy"] == "all-cloud"
    assert "Mbit/s on between phone and server, all-cloud becomes better than this plan." in made.decision["why"]


def test_what_a_node_saves_is_what_the_best_plan_without_it_takes_more(made: Plan) -> None:
    hosts = {instance.node for instance in made.phases[0].instances}
    assert {each["node"] for each in made.decision["nodes"]} == (hosts if len(hosts) > 1 else set())
    for each in made.decision["nodes"]:
        known = profile(LAYERS)
        rest = known.model_copy(update={"nodes": {k: v for k, v in known.nodes.items() if k != each["node"]}})
        without = pt.plan("hybrid", profile=rest, cluster=three_tiers(), batch=BATCH)
        assert each["saves_s"] == pytest.approx(iteration_s(without) - iteration_s(made))
        assert each["saves_s"] >= 0


def test_a_node_with_private_data_cannot_be_spared() -> None:
    cluster = three_tiers(phone=node("device", samples=1000, private=True))
    made = auto(cluster)
    needed = [each for each in made.decision["nodes"] if each["needed"]]
    if len({instance.node for instance in made.phases[0].instances}) > 1:
        assert [each["node"] for each in needed] == ["phone"]
        assert "phone cannot be spared" in made.decision["why"]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["energy", "0.5*time+0.5*energy"])
def test_every_goal_has_its_best(wanted: str) -> None:
    made = auto(three_tiers(), goal=wanted)
    assert made.decision["value"] == pytest.approx(min(made.decision["compared"].values()))
    assert made.decision["why"].startswith(f"{made.decision['strategy']} is best for {wanted}")


def test_a_goal_that_nobody_meets_is_told_with_the_closest() -> None:
    with pytest.raises(Infeasible) as caught:
        auto(three_tiers(), goal=replace(goal(), iteration_deadline_s=1e-9))
    (line,) = str(caught.value).splitlines()
    assert line.startswith("--iteration-deadline: 1e-09 s: cannot be met; the least that can be had is ")
    assert caught.value.least_s is not None


def test_it_takes_no_lossy_plan_unless_that_is_allowed() -> None:
    """JALAD sends 8-bit integers and is faster."""
    known, cluster = where_integers_help()
    plain = pt.plan("auto", profile=known, cluster=cluster, batch=BATCH, seconds=1.0)
    assert {instance.codec for instance in plain.phases[0].instances} == {"none"}
    assert "jalad" not in plain.decision["compared"]
    assert "--lossy" in plain.decision["left_out"]["jalad"]
    lossy = pt.plan("auto", profile=known, cluster=cluster, batch=BATCH, seconds=1.0, lossy=True)
    assert iteration_s(lossy) <= lossy.decision["compared"]["jalad"] < iteration_s(plain)
    assert lossy.estimate is not None
    assert "unknown until it is measured" in lossy.estimate.warnings[0]


@pytest.mark.timing
def test_it_has_as_long_as_it_is_given() -> None:
    with pytest.raises(InputError, match="seconds: 0: expected more than 0"):
        auto(three_tiers(), seconds=0)
    made = auto(three_tiers(), seconds=1.0)
    assert made.plan_s is not None
    assert made.plan_s < 20


def test_a_cluster_without_data_is_refused() -> None:
    with pytest.raises(InputError):
        auto(three_tiers(phone=node("device")))


def test_it_is_not_compared_with_what_it_is_made_of() -> None:
    found = pt.compare(profile=profile(LAYERS), cluster=three_tiers(), batch=BATCH)
    assert "auto" in strategies()
    assert "auto" not in found.skipped
    assert all(plan.strategy != "auto" for plan in found.plans)


@pytest.mark.slow
def test_a_loss_and_a_deadline_of_the_whole_training() -> None:
    curve = Learning(floor=0.0, scale=1.0, epoch_exponent=1.0, data_exponent=0.0, replica_exponent=0.0)
    made = auto(three_tiers(), goal=goal("time", loss=0.26), learning=curve)
    assert made.estimate is not None
    assert made.estimate.total_s == pytest.approx(made.decision["value"])
    assert made.decision["value"] == min(made.decision["compared"].values())
    assert "the whole training takes" in made.decision["why"]
    with pytest.raises(Infeasible):
        auto(three_tiers(), goal=goal("time", loss=0.26, deadline_s=1e-6), learning=curve)
