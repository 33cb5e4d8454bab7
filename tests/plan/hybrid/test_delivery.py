"""hybrid where samples are kept, always new, or too many to keep: against brute force, rivals and its bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import palmette as pt
from palmette.errors import PalmetteError
from palmette.plan.core.comparison import mean_iteration
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.bound import lower_bounds
from palmette.plan.hybrid.paths import SamplePath, SearchState, simplified
from palmette.plan.hybrid.pricing import Pricer
from palmette.plan.hybrid.problem import HybridProblem, make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.spec.estimate import Estimate
from palmette.spec.goal import value
from tests.plan.deliveries import all_deliveries, as_tensors, mean_s, random_delivery_task
from tests.plan.hybrid.test_hybrid import QUICK, RIVALS, priced_states
from tests.plan.problems import LITTLE, goal, profile, three_tiers
from tests.thorough import mostly_thorough

GOALS = ("time", "energy", "edp", "power")


def chains(problem: HybridProblem) -> Iterator[SearchState]:
    """All samples of all sources along one chain of nodes, and each half of them along another, for two layers."""
    runs = [simplified([(a, 1), (b, 2)]) for a, b in itertools.product(problem.nodes, repeat=2)]
    for one, other in itertools.combinations_with_replacement(runs, 2):
        halves = []
        for source, many in problem.samples.items():
            halves += [SamplePath(source, many - many // 2, one), SamplePath(source, many // 2, other)]
        state = SearchState(tuple(path for path in halves if path.samples))
        if all(map(problem.keeps_private, state.paths)):
            yield state


def hybrid(task: Task, wanted: str = "time", **more: Any) -> Estimate:
    made = pt.plan(
        "hybrid", profile=task.profile, cluster=task.cluster, batch=task.batch, epochs=task.epochs, goal=wanted, **more
    )
    assert made.estimate is not None
    return made.estimate


@pytest.mark.parametrize("seed", mostly_thorough(range(16), 3))
def test_no_tree_with_any_delivery_is_better(seed: int) -> None:
    """Brute force over chains for each half of the samples, each or once for every source, ahead or not."""
    task = random_delivery_task(seed, nodes=2 if seed % 2 else 3)
    problem = make_problem(task)
    pricer = Pricer(problem)
    tried = [mean_s(way, task) for state in chains(problem) for way in all_deliveries(pricer.phase(state), task)]
    assert tried, "no chain may run"
    assert mean_iteration(hybrid(task, effort=LITTLE), task.horizon)[0] <= min(tried) * (1 + 1e-9)


@pytest.mark.parametrize("seed", mostly_thorough(range(24), 8))
def test_it_is_never_behind_upload_or_another_rival(seed: int) -> None:
    task = random_delivery_task(seed, layers=3, batch=7)
    wanted = GOALS[seed % 4]
    ours, compared = hybrid(task, wanted, seconds=QUICK), 0
    for name in RIVALS:
        try:
            theirs = pt.plan(
                name, profile=task.profile, cluster=task.cluster, batch=task.batch, epochs=task.epochs, goal=wanted
            ).estimate
        except PalmetteError:
            continue
        compared += 1
        limit = value(wanted, *mean_iteration(theirs, task.horizon))
        assert value(wanted, *mean_iteration(ours, task.horizon)) <= limit * (1 + 1e-9), name
    assert compared, "no rival has a plan"


@pytest.mark.parametrize("seed", mostly_thorough(range(24), 8))
def test_no_plan_is_below_its_bounds(seed: int) -> None:
    problem = make_problem(random_delivery_task(seed, nodes=4, layers=3, batch=9))
    pricer, quick_bound, bounds = Pricer(problem), QuickBound(problem), lower_bounds(problem)
    states = priced_states(problem, pricer, seed)
    for state, cost in states:
        least = quick_bound.least(state)
        assert all(low <= real * (1 + 1e-9) for low, real in zip(least, cost, strict=True))
        for quantity in ("time", "energy", "edp", "power"):
            assert bounds.of(quantity) <= value(quantity, cost.time_s, cost.energy_j) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_as_tensors_stored_sizes_do_not_count(seed: int) -> None:
    task = random_delivery_task(seed)
    plain_profile, plain_cluster = as_tensors(task.profile, task.cluster)
    for name in ("hybrid", "upload", "all-cloud", "hiertrain"):
        known: dict[str, Any] = {"batch": task.batch, "epochs": task.epochs}
        if name == "hybrid":
            known["effort"] = LITTLE
        try:
            expected = pt.plan(name, profile=plain_profile, cluster=plain_cluster, **known)
        except PalmetteError as error:
            with pytest.raises(type(error)):
                pt.plan(name, profile=task.profile, cluster=task.cluster, input_as="tensor", **known)
            continue
        made = pt.plan(name, profile=task.profile, cluster=task.cluster, input_as="tensor", **known)
        assert made.estimate == expected.estimate
        assert made.decision == expected.decision
        assert {phase.input_as for phase in made.phases} == {"tensor"}
        assert pt.estimate(made, epochs=task.epochs) == made.estimate


def test_ways_to_begin_are_compared() -> None:
    made = pt.plan("hybrid", profile=profile(), cluster=three_tiers(), batch=10, epochs=2, effort=LITTLE)
    ways = made.decision["on_the_way"]
    on_the_way, upload_first = ways["ways"]
    assert (on_the_way["way"], upload_first["way"]) == ("on the way", "upload first")
    assert ways["wins"] == "on the way"
    assert ways["epochs"] == 2
    assert ways["factor"] == pytest.approx(upload_first["total_s"] / on_the_way["total_s"])
    assert upload_first["total_s"] == pytest.approx(
        pt.plan("upload", profile=profile(), cluster=three_tiers(), batch=10, epochs=2).estimate.total_s
    )


def test_an_iteration_deadline_is_one_of_the_steady_state() -> None:
    known = {"profile": profile(4), "cluster": three_tiers(), "batch": 16, "epochs": 3, "effort": LITTLE}
    free = pt.plan("hybrid", **known)
    steady_s, mean = free.estimate.iteration_s, free.decision["value"]
    assert steady_s < mean
    limited = pt.plan("hybrid", **known, goal=goal("time", iteration_deadline_s=(steady_s + mean) / 2))
    assert limited.decision["value"] == mean


def test_a_deadline_of_the_whole_is_met_where_the_epochs_are_known() -> None:
    known = {"profile": profile(4), "cluster": three_tiers(), "batch": 16, "epochs": 3, "effort": LITTLE}
    fast, frugal = pt.plan("hybrid", **known).estimate, pt.plan("hybrid", **known, goal="energy").estimate
    limit_s = (fast.total_s + frugal.total_s) / 2
    between = pt.plan("hybrid", **known, goal=goal("energy", deadline_s=limit_s)).estimate
    assert fast.total_s <= between.total_s <= limit_s
    assert between.total_j <= fast.total_j
    with pytest.raises(pt.Infeasible, match=r"deadline_s: 0.001 s: cannot be met; the least that can be had is") as no:
        pt.plan("hybrid", **known, goal=goal("time", deadline_s=1e-3))
    assert no.value.least_s == pytest.approx(fast.total_s)


def test_sent_again_costs_what_it_did() -> None:
    known = {"profile": profile(4), "cluster": three_tiers(), "batch": 16, "effort": LITTLE}
    again, kept = pt.plan("hybrid", **known, resend=True), pt.plan("hybrid", **known)
    assert {source.delivery for source in again.phases[0].sources} == {"each"}
    assert not again.phases[0].ahead
    assert kept.decision["value"] < again.decision["value"] == again.estimate.iteration_s
