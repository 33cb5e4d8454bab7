"""RightTrain, split learning and the optimum: against brute force, their limits, and what they refuse."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

import palmette as pt
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.plan_pool import plan_pool
from palmette.plan.righttrain.problem import build_problem
from palmette.spec.cluster import Cluster, Limits, Power
from palmette.spec.exchange import Exchange
from palmette.spec.tree import Instance
from tests.plan.problems import link, node, profile, three_tiers
from tests.plan.righttrain.by_hand import totals
from tests.plan.righttrain.problems import BATCH, CURVE, LOSS, least_s, planned, random_problem, task
from tests.thorough import mostly_slow

ALL = ("righttrain", "righttrain-optimum", "split-learning")


def two_phones() -> Cluster:
    """Two phones with data, an edge server and a cloud server."""
    cubic = Power(idle_w=2.0, busy_w=10.0, exponent=3.0)
    nodes = {
        "a": node("device", samples=600, private=True, power=cubic),
        "b": node("device", samples=300),
        "server": node("edge"),
        "cloud": node("cloud"),
    }
    return Cluster(nodes=nodes, links=(link("a", "server"), link("b", "server", 2.0), link("server", "cloud", 40.0)))


def two_phones_task(**more: float) -> Task:
    return task(profile(4, a=40.0, b=30.0, server=5.0, cloud=1.0), two_phones(), **more)


@pytest.mark.slow
@pytest.mark.parametrize("loose", mostly_slow([1.6, 1.02, 4.0], 1))
def test_no_plan_of_a_brute_force_beats_the_optimum_or_righttrain(loose: float) -> None:
    known = profile(2, a=4.0, b=3.0, server=0.5)
    cluster = two_phones().model_copy(
        update={"nodes": {n: two_phones().nodes[n] for n in ("a", "b", "server")}, "links": two_phones().links[:2]}
    )
    curve = CURVE.model_copy(update={"data_exponent": 0.9, "scale": 1.1})
    deadline_s = loose * least_s(known, cluster, curve)
    made_for = task(known, cluster, deadline_s)

    best = min((j for j, s in totals(made_for, curve, (0.5, 1.0)) if s <= deadline_s), default=float("inf"))

    for strategy in ("righttrain", "righttrain-optimum"):
        plan = planned(strategy, made_for, curve)
        assert plan.estimate.total_j <= best * (1 + 1e-6)
        assert plan.estimate.total_s <= deadline_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_decision_is_what_the_evaluator_says(seed: int) -> None:
    draw = random.Random(seed)
    known, cluster, curve = random_problem(draw)
    made_for = task(known, cluster, 2.0 * least_s(known, cluster, curve))

    plan = planned("righttrain", made_for, curve)

    decision, (phase,) = plan.decision, plan.phases
    assert decision["total_s"] == pytest.approx(decision["epochs"] * decision["epoch_s"], rel=1e-12)
    assert plan.estimate.total_s == pytest.approx(decision["total_s"], rel=1e-12)
    assert plan.estimate.total_j == pytest.approx(decision["total_j"], rel=1e-12)
    assert plan.estimate.epochs == decision["epochs"] == phase.epochs
    assert decision["mapping"] == {i.id: i.node for i in phase.instances}
    assert decision["cpu"] == {i.id: i.cpu_share for i in phase.instances}
    assert phase.sync == "step"
    assert decision["total_s"] <= made_for.goal.deadline_s * (1 + 1e-9)
    owned = {name: cluster.nodes[name].source.samples for name in cluster.sources()}
    assert all(1 <= many <= owned[name] for name, many in decision["data"].items())
    assert decision["data_fraction"] == sum(decision["data"].values()) / sum(owned.values())
    replicas = sum(1 for i in phase.instances if i.layers[0] == 1)
    assert curve.loss(decision["epochs"], decision["data_fraction"], replicas) <= LOSS


@pytest.mark.parametrize("seed", [0, 2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_equations_1_and_2_hold(seed: int) -> None:
    known, cluster, curve = random_problem(random.Random(100 + seed))
    plan = planned("righttrain", task(known, cluster, 1.2 * least_s(known, cluster, curve)), curve)

    (phase,) = plan.phases
    used: dict[str, float] = {}
    for instance in phase.instances:
        used[instance.node] = used.get(instance.node, 0.0) + instance.cpu_share
    assert all(share <= cluster.nodes[name].limits.cpu_share * (1 + 1e-9) for name, share in used.items())
    for name, part in plan.estimate.nodes.items():
        own = [each for each in cluster.links if name in each.between]
        out_bps = sum(each.from_bps(name) for each in own)
        in_bps = sum(sum(each.rates_bps) for each in own) - out_bps
        for carried, bps in ((part.sent_bytes, out_bps), (part.received_bytes, in_bps)):
            assert carried * 8 <= bps * plan.estimate.iteration_s * (1 + 1e-9)


def test_the_same_seed_gives_the_same_plan() -> None:
    made_for = two_phones_task(deadline_s=4000.0)
    first, second = (planned("righttrain", made_for, CURVE, epsilon=0.1) for _ in range(2))
    assert first.phases == second.phases
    assert first.decision == second.decision


def test_fewer_epochs_with_more_data_do_not_pay() -> None:
    """For the plan's tree, no other number of epochs with the least data takes fewer iterations."""
    plan = planned("righttrain", two_phones_task(deadline_s=4000.0), CURVE)
    (phase,) = plan.phases
    replicas = sum(1 for i in phase.instances if i.layers[0] == 1)
    most = sum({"a": 600, "b": 300}[source.node] for source in phase.sources)
    ours = plan.decision["epochs"] * -(-sum(plan.decision["data"].values()) // BATCH)
    for epochs in range(1, 3000):
        needed = next((n for n in range(1, most + 1) if CURVE.loss(epochs, n / 900, replicas) <= LOSS), None)
        assert needed is None or epochs * -(-needed // BATCH) >= ours
        if epochs >= ours:
            break


def test_a_power_that_grows_with_the_cube_of_the_share_is_used_slowly() -> None:
    cubic = Power(idle_w=0.1, busy_w=10.0, exponent=3.0)
    cluster = Cluster(nodes={"phone": node("device", samples=1000, power=cubic)})
    known = profile(2, phone=4.0)
    quick = least_s(known, cluster, CURVE)

    tight = planned("righttrain", task(known, cluster, quick), CURVE)
    loose = planned("righttrain", task(known, cluster, 2 * quick), CURVE)

    assert tight.phases[0].instances[0].cpu_share == pytest.approx(1.0, abs=1e-5)
    assert loose.phases[0].instances[0].cpu_share == pytest.approx(0.5, rel=1e-3)
    assert loose.decision["total_s"] == pytest.approx(2 * quick, rel=1e-3)
    assert loose.decision["total_j"] < tight.decision["total_j"] / 3


def test_limits_of_cpu_and_energy_are_obeyed() -> None:
    limits = Limits(cpu_share=0.3)
    plan = planned(
        "righttrain",
        task(profile(2, phone=4.0), Cluster(nodes={"phone": node("device", samples=900, limits=limits)})),
        CURVE,
    )
    assert plan.phases[0].instances[0].cpu_share <= 0.3 * (1 + 1e-9)
    free = planned("righttrain", task(profile(2), three_tiers()), CURVE)
    part = free.decision["total_j"]
    used = {i.node for i in free.phases[0].instances} | {"phone"}
    tight = three_tiers(
        **{name: node("device", samples=1000, limits=Limits(energy_j=part / 10)) for name in used & {"phone"}}
    )
    with pytest.raises(pt.Infeasible, match=r"limit|deadline"):
        planned("righttrain", task(profile(2), tight), CURVE)


def test_an_energy_limit_that_whole_cpus_exceed_is_met_by_smaller_shares() -> None:
    """At a third of the speed a CPU whose power is cubic takes a ninth of the energy; idle power is little."""
    cubic = Power(idle_w=0.01, busy_w=5.0, exponent=3.0)
    known, phone = profile(2, phone=4.0), node("device", samples=1000, power=cubic)
    free = planned("righttrain", task(known, Cluster(nodes={"phone": phone}), 3600.0), CURVE).decision
    limited = phone.model_copy(update={"limits": Limits(energy_j=1.1 * free["total_j"])})

    found = planned("righttrain", task(known, Cluster(nodes={"phone": limited}), 3600.0), CURVE).decision

    assert free["cpu"]["i1"] < 0.5
    assert found["total_j"] <= free["total_j"] * (1 + 1e-5)


def test_an_energy_limit_that_sending_alone_exceeds_is_refused() -> None:
    """The phone's data has to go to the server, which alone can compute."""
    nodes = {"phone": node("device", samples=1000, limits=Limits(energy_j=1e-6)), "server": node("edge")}
    costly = link("phone", "server").model_copy(update={"energy_j_per_bit": 1e-6})
    with pytest.raises(pt.Infeasible):
        planned("righttrain", task(profile(2, server=1.0), Cluster(nodes=nodes, links=(costly,)), 1e9), CURVE)


def test_another_way_to_exchange_gradients_is_another_problem() -> None:
    """The plans of a problem are kept for other deadlines; they may not be taken for another problem."""
    made_for = two_phones_task()
    coded = replace(made_for, exchange=Exchange(codec="int8"))
    assert plan_pool(build_problem(made_for, CURVE), None) is plan_pool(build_problem(made_for, CURVE), None)
    assert plan_pool(build_problem(made_for, CURVE), None) is not plan_pool(build_problem(coded, CURVE), None)


@pytest.mark.slow
def test_a_private_source_computes_its_first_layer_itself() -> None:
    plan = planned("righttrain", two_phones_task(), CURVE.model_copy(update={"data_exponent": 3.0}))
    (phase,) = plan.phases
    index = {i.id: i for i in phase.instances}
    assert {source.node for source in phase.sources} == {"a", "b"}
    assert all(index[s.into].node == "a" for s in phase.sources if s.node == "a")


def test_first_stops_at_the_first_feasible_tree_and_is_never_better() -> None:
    made_for = two_phones_task(deadline_s=4000.0)
    first = planned("righttrain", made_for, CURVE, first=True)
    best = planned("righttrain", made_for, CURVE)
    assert best.decision["total_j"] <= first.decision["total_j"] * (1 + 1e-9)


def test_alpha_lets_a_source_feed_two_instances() -> None:
    cluster = Cluster(
        nodes={"phone": node("device", samples=1000), "twin": node("device")}, links=(link("phone", "twin", 8000.0),)
    )
    known = profile(2, phone=4.0, twin=4.0)
    one, two = (task(known, cluster) for _ in range(2))
    curve = CURVE.model_copy(update={"replica_exponent": 0.0})
    lone = planned("righttrain", one, curve)
    quick_s = least_s(known, cluster, curve)
    halved = planned("righttrain", task(known, cluster, 0.7 * quick_s), curve, alpha=2.0)
    assert len(lone.phases[0].instances) == 1
    assert len(halved.phases[0].sources) == 2
    assert halved.decision["total_s"] <= 0.7 * quick_s
    assert sum(halved.decision["data"].values()) <= 1000
    assert two.batch == BATCH


@pytest.mark.parametrize("strategy", ALL)
def test_a_floor_above_the_loss_says_so(strategy: str) -> None:
    with pytest.raises(
        pt.Infeasible, match=r"^loss: 0\.3: cannot be met; the floor .* is 0\.31; expected a loss above"
    ):
        planned(strategy, two_phones_task(), CURVE.model_copy(update={"floor": 0.31}))


@pytest.mark.parametrize("strategy", ALL)
def test_a_loss_beyond_any_epochs_says_the_least(strategy: str) -> None:
    with pytest.raises(pt.Infeasible, match=r"^loss: 0\.3: cannot be met; .*least that can be had"):
        planned(strategy, two_phones_task(), CURVE.model_copy(update={"epoch_exponent": 0.0}))


@pytest.mark.parametrize("strategy", ALL)
def test_a_deadline_that_cannot_be_met_says_the_least_time(strategy: str) -> None:
    with pytest.raises(
        pt.Infeasible, match=r"^deadline_s: 1 s: cannot be met; the least that can be had is ([\d.]+) s"
    ) as told:
        planned(strategy, two_phones_task(deadline_s=1.0), CURVE)
    least = float(str(told.value).split(" can be had is ")[1].split(" s ")[0])
    plan = planned(strategy, two_phones_task(deadline_s=least), CURVE)
    assert plan.decision["total_s"] <= least


def test_no_loss_to_reach_is_bad_input() -> None:
    known, cluster = profile(2), three_tiers()
    with pytest.raises(pt.InputError, match="loss: missing"):
        pt.plan("righttrain", profile=known, cluster=cluster, learning=CURVE)


def test_split_learning_is_the_best_of_all_splits() -> None:
    made_for = two_phones_task()
    plan = planned("split-learning", made_for, CURVE)
    (phase,) = plan.phases
    assert plan.decision["data_fraction"] == 1.0
    assert plan.decision["data"] == {"a": 600, "b": 300}
    assert all(share == 1.0 for share in plan.decision["cpu"].values())
    epochs = plan.decision["epochs"]
    assert CURVE.loss(epochs, 1.0, 2) <= LOSS < CURVE.loss(epochs - 1, 1.0, 2)
    totals = []
    for first, second in itertools.combinations(range(1, 4), 2):
        fronts = [Instance(id=f"f{n}", layers=(1, first), node=n, into="edge") for n in ("a", "b")]
        rest = [
            Instance(id="cloud", layers=(second + 1, 4), node="cloud"),
            Instance(id="edge", layers=(first + 1, second), node="server", into="cloud"),
        ]
        feeds = tuple(s.model_copy(update={"into": f"f{s.node}"}) for s in phase.sources)
        other = plan.model_copy(
            update={"phases": (phase.model_copy(update={"sources": feeds, "instances": (*rest, *fronts)}),)}
        )
        totals.append(pt.estimate(other).total_j)
    assert plan.estimate.total_j == pytest.approx(min(totals), rel=1e-9)


@pytest.mark.parametrize("strategy", ["righttrain", "righttrain-optimum"])
def test_split_learning_is_never_better(strategy: str) -> None:
    for deadline_s in (None, 20000.0):
        made_for = two_phones_task(deadline_s=deadline_s)
        split = planned("split-learning", made_for, CURVE).decision["total_j"]
        assert planned(strategy, made_for, CURVE).decision["total_j"] <= split * (1 + 1e-9)


def test_too_large_a_case_for_the_optimum_says_so() -> None:
    nodes = {f"n{k}": node("device", samples=100) for k in range(9)}
    cluster = Cluster(nodes=nodes, links=tuple(link("n0", f"n{k}") for k in range(1, 9)))
    with pytest.raises(pt.InputError, match="too large to search for the optimum"):
        planned("righttrain-optimum", task(profile(3, **dict.fromkeys(nodes, 1.0)), cluster), CURVE)
