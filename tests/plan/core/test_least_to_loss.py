"""Windows and codecs for a loss: chosen by the time to the loss, and never behind those who train apart."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

import palmette as pt
from palmette.plan.core.agreement import AgreeingTree, Agreement, agreements
from palmette.plan.core.comparison import compare, planned
from palmette.plan.core.strategy import Task
from palmette.plan.core.until_loss import with_epochs_to_loss
from palmette.spec.cluster import Cluster
from palmette.spec.codec_term import CodecTerm
from palmette.spec.exchange import Exchange
from palmette.spec.learning import Learning
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.spec.sync import OuterOptimizer
from tests.plan.problems import LITTLE, goal, link, node, profile, three_tiers
from tests.plan.random_problems import random_world
from tests.thorough import mostly_slow, mostly_thorough

KNOWN = {"epochs": (1.0, 20.0), "replicas": (1.0, 4.0), "window": (1.0, 64.0)}


CODECS = (
    CodecTerm(of="gradients", codec="int8", factor=1.1, error=0.02),
    CodecTerm(of="differences", codec="int8", factor=1.1, error=0.02),
)


def curve(
    window: float | None,
    outer: OuterOptimizer | None = None,
    codecs: tuple[CodecTerm, ...] = (),
    least_data: float = 1.0,
) -> Learning:
    return Learning(
        floor=0.0,
        scale=1.0,
        epoch_exponent=0.5,
        data_exponent=0.1,
        replica_exponent=0.01,
        window_exponent=window,
        outer=outer,
        codecs=codecs,
        fitted_on=KNOWN | {"data": (least_data, 1.0)},
    )


def task(seed: int, **more: object) -> Task:
    known, cluster = random_world(random.Random(seed), nodes=3, sources=2, private=seed % 2 == 0)
    return Task(profile=known, cluster=cluster, batch=8, goal=goal("time", loss=0.3), **more)  # type: ignore[arg-type]


NAMES = ("hybrid", "federated", "local-sgd", "diloco", "upload", "all-edge", "all-cloud")


def assert_not_behind(seed: int, learning: Learning) -> None:
    found = compare(task(seed), {"learning": learning, "effort": LITTLE}, NAMES)
    totals = {plan.strategy: plan.estimate.total_s for plan in found.plans if plan.estimate is not None}
    assert totals["hybrid"] is not None
    for name, total_s in totals.items():
        assert total_s is not None
        assert totals["hybrid"] <= total_s * (1 + 1e-9), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_hybrid_is_never_behind_those_who_train_apart(seed: int) -> None:
    assert_not_behind(seed, curve(0.02 * seed, OuterOptimizer() if seed == 1 else None, least_data=0.25))


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(8), 1))
def test_hybrid_is_never_behind_those_who_train_apart_many_times(block: int) -> None:
    for seed in range(100 + 8 * block, 108 + 8 * block):
        assert_not_behind(seed, curve(0.03 * (seed % 4), OuterOptimizer() if seed % 3 == 1 else None))


SCHEDULED = curve(0.0, least_data=0.25).model_copy(update={"schedule": LearningRateSchedule(name="cosine", warmup=5)})


@pytest.mark.parametrize("name", ["all-cloud", pytest.param("hybrid", marks=pytest.mark.slow), "local-sgd"])
def test_a_plan_says_that_it_counts_on_the_learning_rate_of_the_runs(name: str) -> None:
    asked = slow_phones() if name != "all-cloud" else task(1)
    for trained, told in ((None, 1), (SCHEDULED.schedule, 0), (LearningRateSchedule(), 1)):
        made = planned(name, replace(asked, schedule=trained), {"learning": SCHEDULED, "effort": LITTLE})
        assert made.estimate is not None
        assert sum("learning rate cosine with a warm-up of 5" in each for each in made.estimate.warnings) == told


def test_righttrain_says_it_in_its_decision() -> None:
    made = planned("righttrain", three_tiers_to_loss(), {"learning": SCHEDULED, "alone": True})
    assert made.decision["learning_rate"].endswith(
        "palmette run --schedule cosine --warmup 5, or a recipe that says so"
    )
    same = replace(three_tiers_to_loss(), schedule=SCHEDULED.schedule)
    assert "learning_rate" not in planned("righttrain", same, {"learning": SCHEDULED, "alone": True}).decision


def three_tiers_to_loss() -> Task:
    return Task(
        profile=profile(phone=2.0, server=1.0, cloud=0.5), cluster=three_tiers(), batch=8,
        goal=goal("energy", loss=0.3, deadline_s=1e6),
    )  # fmt: skip


def test_where_windows_cost_nothing_seldom_is_best_and_where_they_cost_much_never() -> None:
    phones = {name: node("device", samples=320, private=True) for name in ("one", "two")}
    cluster = Cluster(nodes=phones, links=(link("one", "two", 0.05),))
    asked = Task(profile=profile(one=1.0, two=1.0), cluster=cluster, batch=16, goal=goal("time", loss=0.3))
    free, dear = (
        compare(asked, {"learning": curve(window), "effort": LITTLE}, ["hybrid"]).plans[0] for window in (0.0, 5.0)
    )
    assert free.phases[0].sync_kind.averages_weights
    assert free.decision["window"]["sync"] == free.phases[0].sync
    assert dear.phases[0].sync == "step"
    assert "window" not in dear.decision


def test_windows_travel_and_are_priced_as_was_asked() -> None:
    """Also those of other trees than the plan has."""
    phones = {name: node("device", samples=320) for name in ("one", "two")}
    known, cluster = profile(one=1.0, two=1.0), Cluster(nodes=phones, links=(link("one", "two", 0.05),))
    goal_of_loss, codec = goal("time", loss=0.3), Exchange(codec="int8")
    asked = Task(profile=known, cluster=cluster, batch=16, goal=goal_of_loss, exchange=codec, overlap=True)
    made = planned("hybrid", asked, {"learning": curve(0.0, codecs=CODECS), "effort": LITTLE})
    (phase,) = made.phases
    assert phase.sync_kind.averages_weights
    assert phase.replicas == 2
    assert (phase.exchange, phase.overlap) == (codec, False)
    assert made.estimate is not None
    assert pt.estimate(made, profile=known, cluster=cluster).total_s == made.estimate.total_s
    assert made.decision["codecs"] == [{"of": "differences", "codec": "int8", "factor": 1.1, "error": 0.02}]
    assert "differences as int8: the learning curve has × 1.1 (± 2.0%) of the loss above its floor" in str(
        made.estimate.warnings
    )


def test_more_replicas_and_more_data_than_any_run_had_are_named() -> None:
    phones = {f"phone-{k}": node("device", samples=320, private=True) for k in range(5)}
    links = tuple(link("phone-0", name, 0.05) for name in list(phones)[1:])
    known = profile(**dict.fromkeys(phones, 1.0))
    asked = Task(profile=known, cluster=Cluster(nodes=phones, links=links), batch=20, goal=goal("time", loss=0.3))
    learning = curve(0.0)
    fewer = learning.model_copy(update={"fitted_on": learning.fitted_on | {"data": (0.1, 0.5)}})
    made = planned("local-sgd", asked, {"learning": fewer})
    assert "replicas 5: the runs of the learning curve have 1 to 4" in made.decision["beyond"]
    assert "data 1: the runs of the learning curve have 0.1 to 0.5" in made.decision["beyond"]


def slow_phones(**more: object) -> Task:
    """Two phones with private data, and a link so slow that an exchange takes longer than all else."""
    phones = {name: node("device", samples=320, private=True) for name in ("one", "two")}
    cluster = Cluster(nodes=phones, links=(link("one", "two", 0.002),))
    known = profile(one=1.0, two=1.0)
    return Task(profile=known, cluster=cluster, batch=16, goal=goal("time", loss=0.3), **more)  # type: ignore[arg-type]


@pytest.mark.slow
def test_codecs_are_chosen_where_they_are_allowed_and_known() -> None:
    known = {"learning": curve(None, codecs=CODECS), "effort": LITTLE}
    plain, coded = (planned("hybrid", slow_phones(), {**known, "lossy": lossy}) for lossy in (False, True))
    assert not plain.phases[0].exchange.kind.lossy
    assert coded.phases[0].exchange.codec == "int8"
    assert coded.phases[0].sync == "step"
    assert coded.decision["window"]["exchange"] == "int8"
    assert plain.estimate is not None
    assert coded.estimate is not None
    assert coded.estimate.total_s is not None
    assert plain.estimate.total_s is not None
    assert coded.estimate.total_s < plain.estimate.total_s
    assert coded.estimate.epochs > plain.estimate.epochs  # type: ignore[operator]
    assert "outputs as int8: no run of the learning curve tells" in coded.decision["left_out"]


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "chosen"), [(None, "int8"), (1.02, "int4-delta"), (1.6, "int8")])
def test_outputs_travel_as_deltas_where_the_curve_says_that_it_pays(factor: float | None, chosen: str) -> None:
    layers = tuple(each.model_copy(update={"output_bytes": 5e4}) for each in profile(4).layers)
    known = profile(4).model_copy(update={"layers": layers})
    cluster = three_tiers(phone=node("device", samples=100, private=True))
    terms = {"int8": 1.01, "int4-delta": factor}
    codecs = tuple(CodecTerm(of="outputs", codec=name, factor=each) for name, each in terms.items() if each)
    asked = Task(profile=known, cluster=cluster, batch=12, goal=goal("time", loss=0.3))
    made = planned("hybrid", asked, {"learning": curve(None, codecs=codecs), "effort": LITTLE, "lossy": True})
    assert {each.codec for each in made.phases[0].instances} == {chosen, "none"}


def test_codecs_and_windows_are_chosen_together() -> None:
    made = planned("hybrid", slow_phones(), {"learning": curve(0.01, codecs=CODECS), "effort": LITTLE, "lossy": True})
    (phase,) = made.phases
    assert phase.sync_kind.averages_weights
    assert phase.exchange.codec == "int8"


@pytest.mark.parametrize("seed", mostly_slow(range(8), 2))
def test_no_window_codec_and_part_of_the_data_is_better_together(seed: int) -> None:
    """Epochs are whole, so that one of these alone may be worse where all are better."""
    draw = random.Random(seed)
    codecs = tuple(term.model_copy(update={"factor": draw.uniform(1.0, 1.1)}) for term in CODECS)
    learning = curve(draw.uniform(0.0, 0.05), codecs=codecs, least_data=1 / 12)
    learning = learning.model_copy(update={"data_exponent": 0.5})
    base = slow_phones()
    asked = replace(
        base,
        cluster=base.cluster.model_copy(update={"links": (link("one", "two", draw.choice([0.002, 0.02, 0.2])),)}),
        goal=goal("time", loss=learning.loss(1, 1.0, 2, draw.choice([2, 4, 8])) * 1.001),
    )
    made = planned("hybrid", asked, {"learning": learning, "effort": LITTLE, "lossy": True})
    assert made.estimate is not None
    assert made.estimate.total_s is not None
    apart = planned("local-sgd", asked, {"learning": learning}).phases[0]
    plain = apart.model_copy(update={"sync": "step", "every": None, "server": None, "epochs": None})
    tree, allowed = AgreeingTree(plain, asked, learning), agreements(asked, learning, lossy=True)
    ways = product(allowed.windows, allowed.exchanges, allowed.fractions)
    phases = [tree.phase(Agreement(*way)) for way in ways]
    model = made.model_copy(update={"decision": {}})
    totals = [
        with_epochs_to_loss(model.model_copy(update={"phases": (phase,)}), asked, learning).estimate
        for phase in phases
        if phase is not None
    ]
    assert len(totals) > 10
    for each in totals:
        assert each is not None
        assert each.total_s is not None
        assert made.estimate.total_s <= each.total_s * (1 + 1e-9)


def test_a_codec_that_costs_too_many_epochs_is_not_chosen() -> None:
    dear = tuple(term.model_copy(update={"factor": 9.0}) for term in CODECS)
    made = planned("hybrid", slow_phones(), {"learning": curve(None, codecs=dear), "effort": LITTLE, "lossy": True})
    assert not made.phases[0].exchange.kind.lossy


def test_a_codec_that_no_run_tried_is_refused() -> None:
    asked = slow_phones(exchange=Exchange(codec="topk"))
    known = curve(0.1, least_data=0.25)
    found = compare(asked, {"learning": known, "effort": LITTLE}, ["local-sgd", "hybrid", "righttrain"])
    assert found.plans == []
    for name, of in (("local-sgd", "differences"), ("righttrain", "gradients")):
        assert str(found.skipped[name]).startswith(f"learning: {of} as topk:0.01: no run of this curve varied that")
    assert str(found.skipped["local-sgd"]).endswith("--exchange-codecs topk:0.01 --windows 1,10 makes them")


@pytest.mark.slow
def test_a_plan_of_hybrid_trains_until_the_loss_where_a_curve_is_given() -> None:
    asked = task(2)
    made = pt.plan(
        "hybrid", profile=asked.profile, cluster=asked.cluster, batch=8, goal=asked.goal, learning=curve(0.0)
    )
    assert made.phases[0].epochs == made.estimate.epochs
    assert made.inputs is not None
    assert pt.estimate(made).total_s == made.estimate.total_s
    with pytest.raises(pt.InputError, match="hybrid does not decide how long to train"):
        pt.plan("hybrid", profile=asked.profile, cluster=asked.cluster, batch=8, goal=asked.goal)


def test_a_curve_that_knows_no_windows_leaves_those_who_train_apart_out() -> None:
    found = compare(task(2), {"learning": curve(None), "effort": LITTLE}, ["hybrid", "local-sgd", "diloco"])
    assert [plan.strategy for plan in found.plans] == ["hybrid"]
    assert found.plans[0].phases[0].sync == "step"
    assert str(found.skipped["local-sgd"]).startswith(
        "learning: windows of 9 steps: no run of this curve varied the number of local steps"
    )
    assert str(found.skipped["diloco"]).endswith("--windows 1,9 --outer makes them")


def test_a_curve_of_another_outer_optimizer_says_so() -> None:
    found = compare(task(2), {"learning": curve(0.1), "effort": LITTLE}, ["diloco"])
    assert "whose replicas train apart have no outer optimizer" in str(found.skipped["diloco"])


@pytest.mark.slow
def test_less_data_is_taken_where_the_curve_says_that_it_is_enough_and_that_is_told() -> None:
    few, all_ = (
        planned("hybrid", slow_phones(), {"learning": curve(None, least_data=least), "effort": LITTLE})
        for least in (0.25, 1.0)
    )
    assert few.estimate is not None
    assert all_.estimate is not None
    assert few.estimate.total_s is not None
    assert all_.estimate.total_s is not None
    assert few.estimate.total_s < all_.estimate.total_s
    assert 0.25 <= few.decision["data_fraction"] < 1
    assert "of the data, which is enough for the loss" in few.estimate.warnings[-1]
    assert "data_fraction" not in all_.decision
