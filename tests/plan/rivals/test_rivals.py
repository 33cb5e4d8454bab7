"""JointDNN, JointDNN+ and JALAD against every assignment of layers to nodes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import palmette as pt
from palmette.cost.check import check
from palmette.errors import not_below
from palmette.plan.core.strategy import Task
from palmette.plan.rivals.chain import chain
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from tests.plan.problems import goal, link, node, profile, three_tiers
from tests.plan.random_problems import random_world

RIVALS = ("jointdnn", "jointdnn+", "jalad")


def by_hand_s(task: Task, nodes: tuple[str, ...], codec: str = "none") -> float:
    """Seconds of an iteration, layer by layer: transfers and computing take turns, updates are side by side."""
    (owner,) = task.cluster.sources()
    profile, total, at = task.profile, 0.0, owner
    updates: dict[str, float] = {}
    for k, place in enumerate(nodes):
        share, times = task.cluster.nodes[place].limits.cpu_share, profile.nodes[place]
        if place != at:
            ways = [task.evaluator.route(at, place), task.evaluator.route(place, at)]
            size = task.batch * (profile.layers[k - 1].output_bytes if k else profile.input_bytes)
            if codec == "int8" and k:
                size = -(-size // 4) + 4 * (profile.layers[k - 1].output_channels or 0)
            total += sum(way.latency_s + size * 8 / way.bandwidth_bps for way in ways[: 2 if k else 1])
        for kind in ("forward", "backward"):
            fixed = getattr(times, f"{kind}_call_s")
            total += ((fixed[k] if fixed else 0.0) + task.batch * getattr(times, f"{kind}_s")[k]) / share
        updates[place] = updates.get(place, 0.0) + times.update_s[k] / share
        at = place
    return total + max(updates.values())


def assignments(task: Task, strategy: str) -> list[tuple[str, ...]]:
    nodes, depth = task.cluster.nodes, len(task.profile.layers)
    if strategy == "jalad":
        edges, clouds = task.cluster.tier("edge"), task.cluster.tier("cloud")
        return [(e,) * m + (c,) * (depth - m) for e in edges for c in clouds for m in range(depth + 1)]
    (owner,) = task.cluster.sources()
    taking = [n for n in nodes if strategy == "jointdnn+" or n == owner or nodes[n].tier == "cloud"]
    return list(itertools.product(taking, repeat=depth))


def least_s(task: Task, strategy: str) -> float | None:
    codec: Any = "int8" if strategy == "jalad" else "none"
    (owner,) = task.cluster.sources()
    costs = []
    for nodes in assignments(task, strategy):
        plan = Plan(model="random", batch=task.batch, phases=(chain(nodes, task, owner, codec),))
        if not check(plan, task.evaluator):
            costs.append(by_hand_s(task, nodes, codec))
    return min(costs, default=None)


@pytest.mark.parametrize("strategy", RIVALS)
@pytest.mark.parametrize("seed", range(40))
def test_the_decision_is_the_best_of_all_assignments(strategy: str, seed: int) -> None:
    draw = random.Random(seed)
    what = {"memory": seed % 4 == 1, "private": seed % 8 in {2, 5}, "limits": seed % 4 == 3}
    known, cluster = random_world(draw, nodes=3, layers=draw.choice([1, 3, 5]), **what)
    task = Task(profile=known, cluster=cluster, batch=draw.choice([1, 4, 9]))
    least = least_s(task, strategy)

    if least is None:
        with pytest.raises(pt.Infeasible, match="no assignment may run"):
            pt.plan(strategy, profile=known, cluster=cluster, batch=task.batch)
    else:
        decision = pt.plan(strategy, profile=known, cluster=cluster, batch=task.batch).decision
        assert decision["iteration_s"] == pytest.approx(least, rel=1e-9)
        codec = "int8" if strategy == "jalad" else "none"
        assert decision["iteration_s"] == pytest.approx(by_hand_s(task, tuple(decision["nodes"]), codec), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_several_nodes_of_a_tier_the_best_are_taken(seed: int) -> None:
    draw = random.Random(seed)
    known, cluster = random_world(draw, nodes=5, layers=3)
    task = Task(profile=known, cluster=cluster, batch=3)
    decision = pt.plan("jointdnn+", profile=known, cluster=cluster, batch=3).decision
    assert decision["iteration_s"] == pytest.approx(least_s(task, "jointdnn+"), rel=1e-9)


@pytest.mark.parametrize("strategy", RIVALS)
def test_the_clock_agrees_up_to_updates_that_overlap(strategy: str) -> None:
    """A chain does one thing at a time, but its last layers update while its first still go backward."""
    plan = pt.plan(strategy, profile=profile(6), cluster=three_tiers(), batch=10)
    assert plan.estimate.iteration_s <= plan.decision["iteration_s"] * (1 + 1e-9)
    update_s = 6 * max(0.1e-3 * slow for slow in (40.0, 5.0, 1.0))
    assert plan.estimate.iteration_s >= plan.decision["iteration_s"] - update_s


def test_the_chain_may_return_to_a_node_it_left() -> None:
    """The phone is fast at the outer layers, the cloud at the middle one; outputs are small."""
    known = profile(3, phone=1.0, cloud=1.0)
    slow, fast = (1e-3, 1.0, 1e-3), (1.0, 1e-3, 1.0)
    nodes = {
        "phone": known.nodes["phone"].model_copy(update={"forward_s": slow}),
        "cloud": known.nodes["cloud"].model_copy(update={"forward_s": fast}),
    }
    pair = Cluster(
        nodes={"phone": node("device", samples=10), "cloud": node("cloud")}, links=(link("phone", "cloud", 8),)
    )
    plan = pt.plan("jointdnn", profile=known.model_copy(update={"nodes": nodes}), cluster=pair, batch=4)
    assert plan.decision["nodes"] == ["phone", "cloud", "phone"]
    assert [i.node for i in plan.phases[0].instances] == ["phone", "cloud", "phone"]


def test_jalad_sends_eight_bits_on_the_cut_only() -> None:
    known = profile(4, phone=1000.0, server=2.0, cloud=1.0)
    cheap = known.model_copy(
        update={"layers": (known.layers[0].model_copy(update={"output_bytes": 10.0}), *known.layers[1:])}
    )
    plan = pt.plan("jalad", profile=cheap, cluster=three_tiers(), batch=40)
    assert plan.decision["nodes"] == ["server", "cloud", "cloud", "cloud"]
    assert [i.codec for i in plan.phases[0].instances] == ["int8", "none"]


@pytest.mark.parametrize("strategy", RIVALS)
class TestWhatCannotBe:
    def test_several_sources(self, strategy: str) -> None:
        two = three_tiers(server=node("edge", samples=10))
        with pytest.raises(pt.InputError, match="2 sources"):
            pt.plan(strategy, profile=profile(), cluster=two)

    def test_no_source(self, strategy: str) -> None:
        with pytest.raises(pt.InputError, match="no source"):
            pt.plan(strategy, profile=profile(), cluster=three_tiers(phone=node("device")))

    def test_a_deadline(self, strategy: str) -> None:
        best = pt.plan(strategy, profile=profile(), cluster=three_tiers(), batch=10).estimate.iteration_s
        with pytest.raises(pt.Infeasible, match=f"least that can be had is {not_below(best)} s"):
            pt.plan(strategy, profile=profile(), cluster=three_tiers(), batch=10, goal=goal(iteration_deadline_s=1e-4))


@pytest.mark.parametrize("strategy", ["jointdnn", "jalad"])
def test_no_path_to_the_cloud(strategy: str) -> None:
    apart = three_tiers().model_copy(update={"links": (link("phone", "server"),)})
    with pytest.raises(pt.InputError, match="phone to cloud: there is no path"):
        pt.plan(strategy, profile=profile(), cluster=apart)


def test_no_cloud() -> None:
    only = Cluster(nodes={"phone": node("device", samples=10)})
    with pytest.raises(pt.InputError, match="no node of tier cloud"):
        pt.plan("jointdnn", profile=profile(), cluster=only)


def test_a_private_source_keeps_the_first_layer_at_home() -> None:
    private = three_tiers(phone=node("device", samples=10, private=True))
    for strategy in ("jointdnn", "jointdnn+"):
        assert pt.plan(strategy, profile=profile(4), cluster=private, batch=8).decision["nodes"][0] == "phone"
    with pytest.raises(pt.Infeasible, match="private"):
        pt.plan("jalad", profile=profile(4), cluster=private, batch=8)
