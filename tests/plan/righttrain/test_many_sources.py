"""More sources and nodes than can be listed: trees along one sequence of merges, and the most promising nodes."""

from __future__ import annotations

import itertools

import pytest

import palmette as pt
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.epochs import LossTarget
from palmette.plan.righttrain.problem import MAX_OTHER_NODES, RightTrainProblem, build_problem
from palmette.plan.righttrain.trees import Grouping, all_trees_generated, generate_trees
from palmette.spec.cluster import Cluster, Power
from palmette.spec.profile import Profile
from tests.plan.problems import link, node, profile
from tests.plan.righttrain.problems import CURVE, LOSS, planned, problem_of, task

EACH = 4


def two_sites() -> tuple[Profile, Cluster]:
    """Four phones around each of two edge servers, which are far from one another."""
    phones = [f"{site}{k}" for site in "ab" for k in range(EACH)]
    nodes = {name: node("device", samples=100 + 10 * k) for k, name in enumerate(phones)}
    nodes |= {"edge-a": node("edge"), "edge-b": node("edge")}
    links = [link(name, f"edge-{name[0]}", 80.0, 0.001) for name in phones]
    slowness = dict.fromkeys(phones, 30.0) | {"edge-a": 3.0, "edge-b": 2.0}
    return profile(5, **slowness), Cluster(nodes=nodes, links=(*links, link("edge-a", "edge-b", 2.0, 0.05)))


@pytest.fixture
def sites() -> RightTrainProblem:
    return problem_of(*two_sites(), CURVE)


def is_coarser(coarse: Grouping, fine: Grouping) -> bool:
    return all(any(set(group) <= set(other) for other in coarse) for group in fine)


def test_trees_of_many_sources_are_few_and_merge_from_the_sources_to_the_loss(sites: RightTrainProblem) -> None:
    trees = generate_trees(sites)
    assert not all_trees_generated(sites)
    assert len(trees) == len(set(trees)) < 500
    for tree in trees:
        assert len(tree.groupings) == sites.depth
        assert len(tree.feeds) <= sites.task.batch
        for fine, coarse in itertools.pairwise(tree.groupings):
            assert sorted(itertools.chain(*coarse)) == list(tree.feeds)
            assert is_coarser(coarse, fine)


def test_among_them_all_apart_and_all_in_one(sites: RightTrainProblem) -> None:
    feeds = tuple(range(2 * EACH))
    groupings = {tree.groupings for tree in generate_trees(sites)}
    assert (((feeds,),) * sites.depth) in groupings
    assert ((tuple((feed,) for feed in feeds),) * sites.depth) in groupings


def test_near_sources_merge_before_far_ones(sites: RightTrainProblem) -> None:
    halves = {tree.groupings[0] for tree in generate_trees(sites) if len(tree.feeds) == 2 * EACH and tree.replicas == 2}
    assert halves == {(tuple(range(EACH)), tuple(range(EACH, 2 * EACH)))}


def test_of_fewer_sources_those_with_most_data_per_watt_are_left(sites: RightTrainProblem) -> None:
    used = {tree.feeds for tree in generate_trees(sites)}
    assert {len(feeds) for feeds in used} == {1, 2, 4, 8}
    assert all(feeds == tuple(range(2 * EACH - len(feeds), 2 * EACH)) for feeds in used)


@pytest.mark.slow
def test_a_plan_for_many_sources_reaches_the_loss_and_beats_every_single_node() -> None:
    made_for = task(*two_sites())
    plan = planned("righttrain", made_for, CURVE)
    assert plan.estimate is not None
    assert plan.estimate.total_j is not None
    (phase,) = plan.phases
    replicas = sum(instance.layers[0] == 1 for instance in phase.instances)
    assert CURVE.loss(plan.decision["epochs"], plan.decision["data_fraction"], replicas) <= LOSS
    schedule = LossTarget(CURVE, LOSS, 1080, made_for.batch).schedule_for(1080, 1)
    assert schedule is not None
    for name in made_for.cluster.nodes:
        alone = on_one_node(name, made_for).model_copy(update={"epochs": schedule.epochs})
        other = plan.model_copy(update={"phases": (alone,)})
        assert plan.estimate.total_j <= (pt.estimate(other).total_j or 0) * (1 + 1e-9), name


def test_of_many_nodes_the_fastest_the_most_frugal_and_the_nearest_are_considered() -> None:
    """Of thirty servers, each tenth is the best at something."""
    many = 30
    names = [f"server{k}" for k in range(many)]
    slowness = {name: 1.0 if k == 10 else 5.0 + k for k, name in enumerate(names)}
    watts = {name: 0.01 if k == 20 else 50.0 for k, name in enumerate(names)}
    nodes = {"phone": node("device", samples=900)}
    nodes |= {name: node("edge", power=Power(idle_w=watts[name], busy_w=2 * watts[name])) for name in names}
    links = [link("phone", name, 1000.0 if k == 29 else 1.0) for k, name in enumerate(names)]
    known = Cluster(nodes=nodes, links=tuple(links))
    problem = problem_of(profile(2, phone=40.0, **slowness), known, CURVE)

    found = {problem.names[k] for k in problem.compute_nodes}

    assert {"phone", "server10", "server20", "server29"} <= found
    assert MAX_OTHER_NODES - 2 <= len(found - {"phone"}) <= MAX_OTHER_NODES


@pytest.mark.parametrize("iterations", [1, 7, 40, 333])
def test_the_least_loss_of_some_iterations_is_that_of_the_best_epochs(iterations: int) -> None:
    target = LossTarget(CURVE, LOSS, samples=400, batch=32)
    every = [
        CURVE.loss(iterations // per_epoch, min(300, 32 * per_epoch) / 400, 2)
        for per_epoch in range(1, min(iterations, 10) + 1)
    ]
    assert target.least_loss(iterations, 2, 300) == pytest.approx(min(every))


def test_a_source_is_split_no_further_than_into_single_samples() -> None:
    cluster = Cluster(nodes={"phone": node("device", samples=3)})
    asked = Task(profile=profile(2, phone=1.0), cluster=cluster, batch=4, goal=task(*two_sites()).goal)
    assert build_problem(asked, CURVE, 4.0).feed_samples == [1, 1, 1]
