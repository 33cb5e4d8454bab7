"""More sources and nodes than can be listed: trees along one sequence of merges, and the most promising nodes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import palmette as pt
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.cpu_allocation import CpuAllocator, MappedTree
from palmette.plan.righttrain.epochs import LossTarget
from palmette.plan.righttrain.problem import MAX_OTHER_NODES, RightTrainProblem, build_problem
from palmette.plan.righttrain.sample_ways import sample_ways
from palmette.plan.righttrain.trees import Grouping, GroupingTree, all_trees_generated, generate_trees
from palmette.spec.cluster import Cluster, Power
from palmette.spec.profile import Profile
from tests.plan.problems import link, node, profile
from tests.plan.righttrain.problems import CURVE, LOSS, planned, problem_of, task

EACH = 4


def two_sites(each: int = EACH, layers: int = 5) -> tuple[Profile, Cluster]:
    """Some phones around each of two edge servers, which are far from one another."""
    phones = [f"{site}{k}" for site in "ab" for k in range(each)]
    nodes = {name: node("device", samples=100 + 10 * k) for k, name in enumerate(phones)}
    nodes |= {"edge-a": node("edge"), "edge-b": node("edge")}
    links = [link(name, f"edge-{name[0]}", 80.0, 0.001) for name in phones]
    slowness = dict.fromkeys(phones, 30.0) | {"edge-a": 3.0, "edge-b": 2.0}
    return profile(layers, **slowness), Cluster(nodes=nodes, links=(*links, link("edge-a", "edge-b", 2.0, 0.05)))


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


def test_of_fewer_sources_the_best_by_either_measure_are_left(sites: RightTrainProblem) -> None:
    """Most data per watt, which are the last by name; and least energy for a sample, with the idle power meanwhile."""
    used = {tree.feeds for tree in generate_trees(sites)}
    assert {feeds for feeds in used if len(feeds) == 1} == {(feed,) for feed in range(2 * EACH)}
    assert {tuple(range(2 * EACH - many, 2 * EACH)) for many in (2, 4, 8)} <= used
    ways = sample_ways(sites)
    dear = (ways.joules + sites.idle_w[sites.feed_nodes] * ways.seconds).tolist()
    frugal = sorted(range(2 * EACH), key=dear.__getitem__)
    assert {tuple(sorted(frugal[:many])) for many in (2, 4, 8)} <= used


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


@pytest.mark.slow
def test_twenty_sources_are_not_used_where_one_is_enough() -> None:
    """The starts of so many sources take more than the effort of the search; and some sources are hardly reached."""
    many = 10
    known, cluster = two_sites(many, layers=7)
    links = [link(*each.between, 0.001) if "a9" in each.between else each for each in cluster.links]
    nodes = cluster.nodes | {"cloud": node("cloud")}
    known = known.model_copy(update={"nodes": known.nodes | profile(7, cloud=1.0).nodes})
    made_for = replace(
        task(known, Cluster(nodes=nodes, links=(*links, link("edge-b", "cloud", 200.0)))), batch=2 * many
    )
    curve = CURVE.model_copy(update={"data_exponent": 0.05})

    found = planned("righttrain", made_for, curve).decision["total_j"]

    problem = build_problem(made_for, curve)
    for feed, at in enumerate(problem.feed_nodes):
        schedule = problem.schedule((feed,), 1, (2 * many,))
        alone = MappedTree(GroupingTree((((feed,),),) * 7), ((at,),) * 7, schedule)
        assert found <= CpuAllocator(problem).best_plan(alone).total_j * (1 + 1e-6)
    assert found <= planned("righttrain", made_for, curve, first=True).decision["total_j"] * (1 + 1e-6)


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
