"""auto: the best of all, and a paragraph that is true."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import palmette as pt
from palmette.errors import Infeasible, InputError, too_late
from palmette.plan.core import comparison
from palmette.plan.core.comparison import Comparison, mean_iteration
from palmette.plan.core.make_plan import replan
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import HORIZON_EPOCHS
from palmette.spec.cluster import Cluster, Source
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from tests.plan.problems import LITTLE, always_new, goal, link, node, profile, three_tiers, where_integers_help

LAYERS = 4
BATCH = 16


def auto(cluster: Cluster, **more: Any) -> Plan:
    return pt.plan("auto", profile=profile(LAYERS), cluster=cluster, batch=BATCH, effort=LITTLE, **more)


def planned(strategy: str, cluster: Cluster) -> Plan:
    """The plan of another strategy, of those that search with as much effort as auto has."""
    more = {"effort": LITTLE} if strategy == "hybrid" else {}
    return pt.plan(strategy, profile=profile(LAYERS), cluster=cluster, batch=BATCH, **more)


@pytest.fixture(scope="module")
def made() -> Plan:
    return auto(three_tiers())


def at(cluster: Cluster, between: list[str], bps: float) -> Cluster:
    links = tuple(
        each.model_copy(update={"bandwidth_bps": bps}) if set(each.between) == set(between) else each
        for each in cluster.links
    )
    return cluster.model_copy(update={"links": links})


def mean_s(plan: Plan, cluster: Cluster | None = None) -> float:
    """Seconds of an iteration in the mean over as many epochs as count if nobody says how many."""
    estimate = plan.estimate if cluster is None else pt.estimate(plan, cluster=cluster)
    assert estimate is not None
    return mean_iteration(estimate, HORIZON_EPOCHS)[0]


@pytest.mark.slow
def test_nothing_that_was_compared_is_better(made: Plan) -> None:
    assert made.decision["value"] == mean_s(made)
    for name in ("all-device", "all-edge", "all-cloud", "jointdnn+", "hiertrain", "upload", "hybrid"):
        alone = planned(name, three_tiers())
        assert made.decision["compared"][name] == mean_s(alone)
        assert mean_s(made) <= mean_s(alone)
    assert made.decision["strategy"] in made.decision["compared"]
    assert "auto" not in made.decision["compared"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan(made: Plan) -> None:
    again = auto(three_tiers())
    assert again.model_copy(update={"plan_s": 0}) == made.model_copy(update={"plan_s": 0})


@pytest.mark.slow
@pytest.mark.parametrize(
    "bandwidths",
    [
        (8.0, 4.0),
        pytest.param((2.0, 40.0), marks=pytest.mark.thorough),
        pytest.param((30.0, 0.5), marks=pytest.mark.thorough),
    ],
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
        there = planned(turn["strategy"], told)
        assert mean_s(there) < mean_s(made, told)
        short = turn["bandwidth_bps"] * (0.98 if turn["direction"] == "above" else 1.02)
        before = at(cluster, turn["between"], short)
        for rival in ("all-device", "all-edge", "all-cloud", "jointdnn+", "upload"):
            assert mean_s(planned(rival, before)) >= mean_s(made, before) * (1 - 1e-5)
        assert turn["strategy"] in made.decision["why"]


@pytest.mark.slow
def test_a_faster_link_to_the_cloud_ends_the_sharing() -> None:
    known, cluster = where_integers_help()
    made = pt.plan("auto", profile=known, cluster=always_new(cluster), batch=BATCH, effort=LITTLE)
    turns = {(*turn["between"], turn["direction"]): turn for turn in made.decision["links"]}
    turn = turns["server", "cloud", "above"]
    assert turn["strategy"] == "all-cloud"
    assert "Mbit/s on between server and cloud, all-cloud becomes better than this plan." in made.decision["why"]


def test_what_a_node_saves_is_what_the_best_plan_without_it_takes_more(made: Plan) -> None:
    hosts = {instance.node for instance in made.phases[0].instances}
    assert {each["node"] for each in made.decision["nodes"]} == (hosts if len(hosts) > 1 else set())
    for each in made.decision["nodes"]:
        known = profile(LAYERS)
        rest = known.model_copy(update={"nodes": {k: v for k, v in known.nodes.items() if k != each["node"]}})
        without = pt.plan("hybrid", profile=rest, cluster=three_tiers(), batch=BATCH, effort=LITTLE)
        assert each["saves_s"] == pytest.approx(mean_s(without) - mean_s(made))
        assert each["saves_s"] >= 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_goal_that_nobody_meets_is_told_with_the_closest() -> None:
    with pytest.raises(Infeasible) as caught:
        auto(three_tiers(), goal=replace(goal(), iteration_deadline_s=1e-9))
    (line,) = str(caught.value).splitlines()
    assert line.startswith("iteration_deadline_s: 1e-09 s: cannot be met; the least that can be had is ")
    assert caught.value.least_s is not None


@pytest.mark.slow
def test_a_deadline_that_only_a_plan_without_a_node_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search without a node may find what the one with all nodes does not."""

    def late(*_: Any, **__: Any) -> Comparison:
        return Comparison([], {"hybrid": too_late("iteration_deadline_s", 10.0, 11.0)})

    monkeypatch.setattr(comparison, "compare", late)
    for wanted in ("time", "0.5*time+0.5*energy"):
        made = auto(three_tiers(), goal=replace(goal(wanted), iteration_deadline_s=10.0))
        assert made.decision["strategy"] == "hybrid"
        assert made.estimate is not None
        assert made.estimate.iteration_s <= 10.0


@pytest.mark.slow
def test_it_takes_no_lossy_plan_unless_that_is_allowed() -> None:
    """JALAD sends 8-bit integers; with them more can be sent in the same time."""
    known, cluster = where_integers_help()
    cluster = always_new(cluster)
    plain = pt.plan("auto", profile=known, cluster=cluster, batch=BATCH, seconds=1.0)
    assert {instance.codec for instance in plain.phases[0].instances} == {"none"}
    assert "jalad" not in plain.decision["compared"]
    assert "--lossy" in plain.decision["left_out"]["jalad"]
    lossy = pt.plan("auto", profile=known, cluster=cluster, batch=BATCH, seconds=1.0, lossy=True)
    assert mean_s(lossy) < mean_s(plain)
    assert mean_s(lossy) <= lossy.decision["compared"]["jalad"]
    assert lossy.estimate is not None
    assert "unknown until it is measured" in lossy.estimate.warnings[0]


@pytest.mark.timing
def test_it_has_as_long_as_it_is_given() -> None:
    with pytest.raises(InputError, match="seconds: 0: expected more than 0"):
        auto(three_tiers(), seconds=0)
    made = auto(three_tiers(), seconds=1.0)
    assert made.plan_s is not None
    assert made.plan_s < 20


@pytest.mark.slow
def test_a_cluster_without_data_is_refused() -> None:
    with pytest.raises(InputError):
        auto(three_tiers(phone=node("device")))


@pytest.mark.slow
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
    assert "of the data, which is enough for the loss by the learning curve" in str(made.estimate.warnings)
    assert made.estimate.total_s == pytest.approx(made.decision["value"])
    assert made.decision["value"] == min(made.decision["compared"].values())
    assert "the whole training takes" in made.decision["why"]
    with pytest.raises(Infeasible):
        auto(three_tiers(), goal=goal("time", loss=0.26, deadline_s=1e-6), learning=curve)


@pytest.mark.slow
class TestEpochs:
    def images(self) -> tuple[Profile, Cluster]:
        """HierTrain's setting: 100,000 images of 12,288 bytes, 5 and 3.5 Mbit/s to an edge server and the cloud."""
        known = profile(6, device=30.0, edge=7.0, cloud=0.05).model_copy(update={"input_bytes": 49152.0})
        source = Source(samples=100_000, sample_bytes=12_288.0)
        nodes = {"device": node("device"), "edge": node("edge"), "cloud": node("cloud")}
        nodes["device"] = nodes["device"].model_copy(update={"source": source})
        links = (link("device", "edge", 5.0), link("edge", "cloud", 3.5))
        return known, Cluster(nodes=nodes, links=links)

    def test_it_is_at_least_as_good_as_uploading_first(self) -> None:
        known, cluster = self.images()
        made = pt.plan("auto", profile=known, cluster=cluster, batch=128, epochs=10, seconds=1.0)
        assert made.estimate is not None
        upload = pt.plan("upload", profile=known, cluster=cluster, batch=128, epochs=10)
        assert upload.decision["upload_s"] == pytest.approx(100_000 * 12_288 * 8 / 3.5e6, rel=0.01)
        assert made.estimate.total_s <= upload.estimate.total_s
        assert "1.14 GiB of samples travel once" in made.decision["why"]
        assert "uploading first to cloud" in made.decision["why"]
        assert "--epochs" not in made.decision["why"]

    def test_it_says_where_the_answer_changes(self) -> None:
        """Few epochs stay at the phone, many are worth the upload."""
        known = profile(2, phone=40.0, cloud=1.0)
        cluster = Cluster(
            nodes={"phone": node("device", samples=1000), "cloud": node("cloud")}, links=(link("phone", "cloud", 0.1),)
        )
        made = pt.plan("auto", profile=known, cluster=cluster, batch=10, seconds=1.0)
        ranges = made.decision["by_epochs"]
        assert ranges[0]["epochs"] == 1
        assert len(ranges) > 1
        plans = {
            plan.strategy: plan for plan in pt.compare(profile=known, cluster=cluster, batch=10, seconds=0.5).plans
        }
        for before, after in itertools.pairwise(ranges):
            assert f"from {after['epochs']}" in made.decision["why"]
            assert before["strategy"] != after["strategy"]
        assert made.decision["epochs"] == HORIZON_EPOCHS
        assert f"so {HORIZON_EPOCHS} count" in made.decision["why"]
        assert {each["strategy"] for each in ranges} <= plans.keys()

    def test_where_upload_is_best_it_is_the_answer(self) -> None:
        known = profile(2, phone=4000.0, cloud=1.0)
        cluster = Cluster(
            nodes={"phone": node("device", samples=1000), "cloud": node("cloud")}, links=(link("phone", "cloud", 1e9),)
        )
        made = pt.plan("auto", profile=known, cluster=cluster, batch=10, seconds=0.5)
        assert "Uploading first to cloud is the answer: nothing is better than that." in made.decision["why"]

    def test_what_cannot_be_uploaded_is_said(self) -> None:
        small = three_tiers(
            phone=node("device", samples=1000, memory_bytes=2e4),
            server=node("edge", memory_bytes=3e5),
            cloud=node("cloud", memory_bytes=3e5),
        )
        made = auto(small, seconds=0.5)
        assert "Uploading first is not possible: " in made.decision["why"]
        assert "travel in every epoch" in made.decision["why"]


def test_planning_again_keeps_epochs_and_form() -> None:
    made = pt.plan("upload", profile=profile(2), cluster=three_tiers(), epochs=7, input_as="tensor")
    again = replan(made, three_tiers(server=node("edge")))
    assert again.asked == made.asked
    assert again.estimate is not None
    assert again.estimate.epochs == 7
    assert again.phases[0].input_as == "tensor"
