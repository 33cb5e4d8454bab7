"""near-first against brute force, and where it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

import palmette as pt
from palmette.cost.check import check
from palmette.cost.estimate import summary
from palmette.errors import Infeasible, InputError
from palmette.plan.core.comparison import compare, planned
from palmette.plan.core.make_plan import make_plan
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.plan.core.upload import upload_to
from palmette.plan.rivals.near_first import NearFirst
from palmette.spec.cluster import Cluster, Source
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from tests.plan.problems import LITTLE, link, node, profile


def world(bandwidth_bps: float = 8e6, epochs: int | None = 12, source: Source | None = None) -> Task:
    """A phone with 100 samples of 10 kB, a cloud that is three times as fast, and a slow link."""
    phone = node("device").model_copy(update={"source": source or Source(samples=100)})
    slow = link("phone", "cloud").model_copy(update={"bandwidth_bps": bandwidth_bps})
    return Task(
        profile=profile(2, phone=3.0, cloud=1.0),
        cluster=Cluster(nodes={"phone": phone, "cloud": node("cloud")}, links=(slow,)),
        batch=10,
        epochs=epochs,
    )


@pytest.mark.parametrize("bandwidth_bps", [1e5, 4e6, 8e6, 40e6])
def test_no_other_length_is_better(bandwidth_bps: float) -> None:
    task = world(bandwidth_bps)
    assert task.epochs is not None
    made = make_plan(NearFirst(), task)
    totals = []
    for many in range(1, task.epochs):
        near = on_one_node("phone", task).model_copy(update={"upload": ("cloud",), "epochs": many})
        far = upload_to("cloud", task, ahead=True).model_copy(update={"epochs": task.epochs - many})
        plan = Plan(model="m", batch=task.batch, phases=(near, far))
        assert not check(plan, task.evaluator)
        totals.append(summary(plan, task.evaluator).total_s)
    assert made.estimate is not None
    assert made.estimate.total_s == pytest.approx(min(total for total in totals if total is not None))


def test_it_beats_uploading_first_where_the_owner_trains_several_epochs_meanwhile() -> None:
    found = compare(world(1e6), names=["near-first", "upload", "all-device"])
    assert not found.skipped
    assert found.plans[0].strategy == "near-first"
    near, far = found.plans[0].phases
    assert near.upload == ("cloud",)
    assert (near.epochs or 0) > 1
    assert (near.epochs or 0) + (far.epochs or 0) == 12


@pytest.mark.slow
def test_auto_takes_it_where_it_is_best() -> None:
    task = world()
    known = {"profile": task.profile, "cluster": task.cluster, "batch": task.batch, "epochs": task.epochs}
    made, others = pt.plan("auto", **known, effort=LITTLE), compare(task, {"effort": LITTLE})
    assert made.estimate is not None
    best = min(plan.estimate.total_s or 0.0 for plan in others.plans if plan.estimate is not None)
    assert (made.estimate.total_s or 0.0) <= best * (1 + 1e-9)


def test_deadlines_are_met_or_refused() -> None:
    free = make_plan(NearFirst(), world(1e6))
    assert free.estimate is not None
    assert free.estimate.total_s is not None
    for goal in (Goal(deadline_s=free.estimate.total_s / 2), Goal(iteration_deadline_s=1e-6)):
        with pytest.raises(Infeasible, match="cannot be met"):
            make_plan(NearFirst(), replace(world(1e6), goal=goal))


def test_it_says_why_not() -> None:
    with pytest.raises(InputError, match="near-first needs it"):
        make_plan(NearFirst(), world(epochs=None))
    for source in (Source(samples=100, private=True), Source(samples=100, stream=True)):
        with pytest.raises(Infeasible, match="no other node"):
            make_plan(NearFirst(), world(source=source))
    with pytest.raises(Infeasible):
        make_plan(NearFirst(), replace(world(), epochs=1))
    with pytest.raises(Infeasible, match="no other node"):
        make_plan(NearFirst(), replace(world(), profile=profile(2, cloud=1.0)))  # the phone cannot train


CURVE = Learning(
    floor=0.1,
    scale=1.0,
    epoch_exponent=0.5,
    data_exponent=0.1,
    replica_exponent=0.5,
    fitted_on={"data": (1.0, 1.0)},
)


@pytest.mark.parametrize(
    "goal", [Goal(loss=0.4), Goal(weights={"energy": 1.0}, loss=0.4), Goal(loss=0.4, deadline_s=2e3)]
)
def test_to_a_loss_it_trains_as_long_as_one_replica_needs(goal: Goal) -> None:
    asked = replace(world(1e6, epochs=None), goal=goal)
    made = planned("near-first", asked, {"learning": CURVE})
    assert sum(phase.epochs or 0 for phase in made.phases) == 12
    assert made.phases == make_plan(NearFirst(), replace(world(1e6), goal=replace(goal, loss=None))).phases
    assert made.estimate is not None
    assert made.estimate.total_s == summary(made, asked.evaluator).total_s


def test_to_a_loss_auto_takes_it_where_it_is_best() -> None:
    asked = replace(world(1e6, epochs=None), goal=Goal(loss=0.4))
    rival = planned("near-first", asked, {"learning": CURVE})
    auto = planned("auto", asked, {"learning": CURVE, "effort": 0.02})
    assert auto.decision["strategy"] == "near-first"
    assert auto.phases == rival.phases
    assert auto.estimate is not None
    assert rival.estimate is not None
    assert auto.estimate.total_s == rival.estimate.total_s


def test_it_says_that_a_loss_is_never_reached() -> None:
    with pytest.raises(Infeasible, match=r"loss: 0\.05: cannot be reached; the curve stays above 0\.1"):
        planned("near-first", replace(world(epochs=None), goal=Goal(loss=0.05)), {"learning": CURVE})
    asked = replace(world(1e6, epochs=None), goal=Goal(loss=0.4, deadline_s=1.0))
    with pytest.raises(Infeasible, match="deadline_s"):
        planned("near-first", asked, {"learning": CURVE})
