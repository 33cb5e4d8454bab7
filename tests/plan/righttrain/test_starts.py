"""What a search starts from, and the trees next to a tree."""

from __future__ import annotations

import itertools
import math
import random

from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.regrouping import with_another_source, with_other_merges
from palmette.plan.righttrain.starts import simple_starts
from palmette.plan.righttrain.trees import GroupingTree
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.learning import Learning
from palmette.spec.profile import Layer, Profile, Times
from tests.plan.righttrain.problems import planned, problem_of, random_problem, task

EXACT = 1 + 1e-6


def private_chain(sources: int, depth: int) -> tuple[Profile, Cluster, Learning]:
    """Private sources of unequal worth, one behind the other, and a fast cloud that takes much power even when idle."""
    draw, names = random.Random(5), [f"d{k}" for k in range(sources)]
    nodes = {
        name: Node(
            tier="device",
            power=Power(idle_w=draw.uniform(0.4, 2), busy_w=draw.uniform(2.5, 6), exponent=draw.choice([1.0, 3.0])),
            source=Source(samples=draw.randint(500, 2500), private=True),
            limits=Limits(),
        )
        for name in names
    }
    nodes["c0"] = Node(tier="cloud", power=Power(idle_w=40.0, busy_w=160.0, exponent=2.0))
    links = tuple(
        Link(between=pair, bandwidth_bps=draw.uniform(2e7, 1e8), energy_j_per_bit=1e-7)
        for pair in itertools.pairwise(nodes)
    )
    layers = tuple(Layer(name=f"l{k}", parameter_bytes=1e5 if k else 1e3, output_bytes=4000.0) for k in range(depth))
    speeds = {name: 1.0 if name != "c0" else 100.0 for name in nodes}
    times = {
        name: Times(forward_s=(2e-3 / x,) * depth, backward_s=(4e-3 / x,) * depth, update_s=(1e-4 / x,) * depth)
        for name, x in speeds.items()
    }
    curve = Learning(
        floor=0.05,
        scale=1.0,
        epoch_exponent=0.6,
        data_exponent=0.6,
        replica_exponent=0.0,
        weights={name: draw.choice([0.1, 1.0, 3.0]) for name in names},
    )
    profile = Profile(model="m", input_bytes=12288.0, layers=layers, nodes=times)
    return profile, Cluster(nodes=nodes, links=links), curve


def test_its_own_time_as_the_deadline_costs_no_more() -> None:
    profile, cluster, curve = private_chain(4, 2)
    free = planned("righttrain", task(profile, cluster), curve)
    again = planned("righttrain", task(profile, cluster, free.decision["total_s"] * (1 + 1e-9)), curve)
    assert again.decision["total_j"] <= free.decision["total_j"] * EXACT


def test_layers_that_do_not_fit_are_no_numbers_that_spread() -> None:
    profile, cluster, curve = private_chain(2, 3)
    cluster = cluster.model_copy(
        update={"nodes": cluster.nodes | {"d0": cluster.nodes["d0"].model_copy(update={"memory_bytes": 2e4})}}
    )
    plan = planned("righttrain", task(profile, cluster), curve)
    assert all(instance.layers == (1, 1) for instance in plan.phases[0].instances if instance.node == "d0")
    assert math.isfinite(plan.decision["lower_bound_j"])


def a_problem(sources: int) -> RightTrainProblem:
    return problem_of(*random_problem(random.Random(4), (sources, sources + 1, 3), sources))


def test_starts_have_each_source_alone_on_its_own_node() -> None:
    problem = a_problem(7)
    starts = {(start.tree.feeds, start.mapping) for start in simple_starts(problem)}
    for feed, node in enumerate(problem.feed_nodes):
        assert ((feed,), ((node,),) * problem.depth) in starts


def is_a_tree(tree: GroupingTree) -> bool:
    chained = all(
        all(any(set(group) <= set(other) for other in above) for group in below)
        for below, above in itertools.pairwise(tree.groupings)
    )
    return chained and all(sorted(f for group in each for f in group) == list(tree.feeds) for each in tree.groupings)


def test_trees_next_to_a_tree_merge_elsewhere_or_have_a_source_more() -> None:
    problem = a_problem(4)
    apart, pairs, whole = ((0,), (1,), (2,)), ((0, 1), (2,)), ((0, 1, 2),)
    tree, mapping = GroupingTree((apart, pairs, whole)), ((0, 1, 2), (1, 2), (3,))
    merged = list(with_other_merges(tree, mapping))
    added = list(with_another_source(problem, tree, mapping))
    assert {other.groupings for other, _ in merged} == {
        (pairs, pairs, whole),
        (apart, apart, whole),
        (apart, whole, whole),
        (apart, pairs, pairs),
    }
    assert {other.feeds for other, _ in added} == {(0, 1, 2, 3)}
    for other, nodes in [*merged, *added]:
        assert is_a_tree(other)
        assert [len(groups) for groups in other.groupings] == [len(each) for each in nodes]
