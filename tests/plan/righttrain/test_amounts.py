"""How much data each source gives: against brute force over amounts, priced by ``palmette estimate``."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

import palmette as pt
from palmette.plan.core.samples import apportion
from palmette.plan.core.strategy import Task
from palmette.plan.righttrain.cpu_allocation import CpuAllocator, MappedTree
from palmette.plan.righttrain.data_amounts import SplitBox, epoch_amounts
from palmette.plan.righttrain.mapping_bounds import MappingBounds
from palmette.plan.righttrain.optimum.branch_and_bound import BranchAndBound
from palmette.plan.righttrain.problem import build_problem
from palmette.plan.righttrain.trees import ranked_trees
from palmette.spec.cluster import Cluster, Power
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan
from palmette.spec.tree import Feed, Instance
from tests.plan.problems import link, node, profile
from tests.plan.righttrain.problems import LOSS, least_s, planned, random_problem, task
from tests.thorough import mostly_slow

BOTH = ("righttrain", "righttrain-optimum")
DATA_COUNTS = Learning(floor=0.0, scale=0.12, epoch_exponent=0.1, data_exponent=2.0, replica_exponent=0.0)


def frugal_and_hungry() -> Task:
    """Two phones that keep their 1000 samples; one needs sixty times the energy of the other for a sample."""
    cheap, dear = (Power(idle_w=0.5, busy_w=busy_w) for busy_w in (4.0, 60.0))
    nodes = {
        "frugal": node("device", samples=1000, private=True, power=cheap),
        "hungry": node("device", samples=1000, private=True, power=dear),
    }
    cluster = Cluster(nodes=nodes, links=(link("frugal", "hungry", 50.0),))
    return replace(task(profile(2, frugal=1.0, hungry=4.0), cluster), batch=60)


def priced(wanted: Task, curve: Learning, amounts: dict[str, int]) -> Iterator[float]:
    """Joules of a training with some amounts of data, for each tree and mapping of two private sources."""
    used = {name: many for name, many in amounts.items() if many}
    owned = {name: wanted.cluster.nodes[name].source.samples for name in wanted.cluster.sources()}
    epochs = curve.least_epochs(LOSS, curve.fraction(used, owned), len(used))
    if not epochs < 1e6:
        return
    split = apportion(wanted.batch, list(used.values()))
    for cut, root in itertools.product((1, 2), wanted.cluster.nodes):
        feeds = tuple(
            Feed(node=name, samples=part, epoch_samples=used[name], into=name)
            for name, part in zip(used, split, strict=True)
        )
        roots = [Instance(id="rest", layers=(2, 2), node=root, cpu_share=0.5 if root in used else 1.0)]
        own = [
            Instance(
                id=name,
                layers=(1, cut),
                node=name,
                into="rest" if cut == 1 else None,
                cpu_share=0.5 if cut == 1 and name == root else 1.0,
            )
            for name in sorted(used, key=lambda name: name != root)
        ]
        phase = Phase(sources=feeds, instances=(*(roots if cut == 1 else ()), *own), epochs=math.ceil(epochs - 1e-9))
        plan = Plan(model="m", batch=wanted.batch, phases=(phase,))
        yield pt.estimate(plan, profile=wanted.profile, cluster=wanted.cluster).total_j


@pytest.mark.slow
def test_no_amounts_of_a_grid_beat_the_plan_and_a_common_fraction_costs_twice_as_much() -> None:
    wanted = frugal_and_hungry()
    grid = range(0, 1001, 50)
    costs = {
        (a, b): min(priced(wanted, DATA_COUNTS, {"frugal": a, "hungry": b}), default=math.inf)
        for a, b in itertools.product(grid, grid)
        if a + b
    }
    common = min(cost for (a, b), cost in costs.items() if a == b)
    for strategy in BOTH:
        plan = planned(strategy, wanted, DATA_COUNTS)
        assert plan.estimate.total_j <= min(costs.values()) * (1 + 1e-9)
        assert 2 * plan.estimate.total_j < common
        assert plan.decision["data"]["frugal"] == 1000
        assert plan.decision["data"]["hungry"] < 300
        assert plan.decision["gap"] < (0.01 if strategy == "righttrain" else 1e-4)


def test_a_source_whose_data_is_worth_more_gives_more() -> None:
    owned, given = {"frugal": 1000, "hungry": 1000}, []
    for weights in ({}, {"hungry": 30.0}):
        curve = DATA_COUNTS.model_copy(update={"weights": weights})
        decision = planned("righttrain", frugal_and_hungry(), curve).decision
        assert decision["data_fraction"] == pytest.approx(curve.fraction(decision["data"], owned))
        assert curve.loss(decision["epochs"], decision["data_fraction"], 1) <= LOSS
        given.append(decision["data"]["hungry"])
    assert given[1] > 2 * given[0]


@pytest.mark.parametrize("seed", mostly_slow(range(8), 3))
def test_the_optimum_is_the_best_of_all_splits_mappings_and_trees(seed: int) -> None:
    draw = random.Random(seed)
    known, cluster, curve = random_problem(draw, (2, 3, 2))
    loose = (1.05, 1.5, None)[seed % 3]
    deadline_s = None if loose is None else loose * least_s(known, cluster, curve)
    problem = build_problem(replace(task(known, cluster, deadline_s), batch=6), curve)
    allocator, best = CpuAllocator(problem), math.inf
    for ranked in ranked_trees(problem):
        tree, places = ranked.tree, [len(groups) for groups in ranked.tree.groupings]
        splits = [(6,)] if len(tree.feeds) == 1 else [(k, 6 - k) for k in range(1, 6)]
        schedules = [problem.schedule(tree.feeds, tree.replicas, split) for split in splits]
        for chosen in itertools.product(problem.compute_nodes, repeat=sum(places)):
            nodes = iter(chosen)
            mapping = tuple(tuple(next(nodes) for _ in range(many)) for many in places)
            for first_root, schedule in itertools.product(range(places[-1]), filter(None, schedules)):
                candidate = MappedTree(tree, mapping, schedule, first_root)
                plan = allocator.best_plan(candidate) if allocator.quick_bound_j(candidate) < best else None
                best = best if plan is None else min(best, plan.total_j)

    found = BranchAndBound(problem).solve()

    assert found.bound_j <= best * (1 + 1e-9)
    if math.isfinite(best):
        assert found.plan.total_j <= best * (1 + 3e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_a_box_of_splits_is_below_that_of_each_of_them(seed: int) -> None:
    draw = random.Random(seed)
    known, cluster, curve = random_problem(draw, (3, 4, 3))
    problem = build_problem(task(known, cluster), curve)
    bounds = MappingBounds(problem)
    several = [ranked.tree for ranked in ranked_trees(problem) if len(ranked.tree.feeds) > 1]
    for tree in draw.sample(several, min(3, len(several))):
        box = SplitBox.of_batch(32, len(tree.feeds))
        for _ in range(3):
            box = draw.choice(box.halves())
        whole = bounds.boxed(tree, box)
        nodes = tuple(problem.compute_nodes)
        for split in _splits_of(box)[:: max(1, len(_splits_of(box)) // 7)]:
            one = bounds.boxed(tree, SplitBox.of_split(split))
            if one is not None:
                assert bounds.lower_bound(whole, nodes).joules <= bounds.lower_bound(one, nodes).joules * (1 + 1e-9)


def _splits_of(box: SplitBox) -> list[tuple[int, ...]]:
    ranges = [range(a, b + 1) for a, b in zip(box.least, box.most, strict=True)]
    return [split for split in itertools.product(*ranges) if sum(split) == box.batch]


@pytest.mark.parametrize("seed", range(20))
def test_a_split_allows_as_much_data_as_a_brute_force_finds(seed: int) -> None:
    draw = random.Random(seed)
    batch, owned = draw.randint(2, 12), [draw.randint(1, 40), draw.randint(1, 40)]
    first = draw.randint(1, batch - 1)
    split = (first, batch - first)

    found = SplitBox.of_split(split).most_epoch_samples(owned)

    def fits(x: int, y: int) -> bool:
        return all(abs(batch * each / (x + y) - part) < 1 for each, part in zip((x, y), split, strict=True))

    pairs = itertools.product(range(1, owned[0] + 1), range(1, owned[1] + 1))
    most = max((x + y for x, y in pairs if fits(x, y)), default=2)
    assert found == (sum(owned) if list(split) == apportion(batch, owned) else most)
    amounts = epoch_amounts(split, found, owned)
    assert sum(amounts) == found
    assert all(1 <= each <= own for each, own in zip(amounts, owned, strict=True))


def test_halves_of_a_box_hold_each_split_once() -> None:
    boxes = [SplitBox.of_batch(9, 3)]
    every = _splits_of(boxes[0])
    while any(not box.is_single for box in boxes):
        boxes = [half for box in boxes for half in ([box] if box.is_single else box.halves())]
    assert sorted(box.least for box in boxes) == sorted(every)


@pytest.mark.parametrize("seed", range(6))
def test_schedules_of_sources_of_unequal_worth_need_about_the_fewest_iterations(seed: int) -> None:
    """For each number of epochs the least data that is enough, by counting up."""
    draw = random.Random(seed)
    wanted = replace(frugal_and_hungry(), batch=8)
    cluster = wanted.cluster.model_copy(
        update={
            "nodes": {
                name: each.model_copy(update={"source": each.source.model_copy(update={"samples": many})})
                for (name, each), many in zip(wanted.cluster.nodes.items(), (draw.randint(20, 60), 50), strict=True)
            }
        }
    )
    curve = Learning(
        floor=0.0,
        scale=0.5,
        epoch_exponent=0.3,
        data_exponent=0.6,
        replica_exponent=0.0,
        weights={"hungry": draw.choice([0.2, 3.0])},
    )
    problem = build_problem(replace(wanted, cluster=cluster), curve)
    split = (draw.randint(1, 7),)
    split = (*split, 8 - split[0])

    found = problem.schedule((0, 1), 1, split)

    owned, most = problem.feed_samples, SplitBox.of_split(split).most_epoch_samples(problem.feed_samples)
    fewest = math.inf
    for samples in range(2, most + 1):
        given = dict(zip(cluster.sources(), epoch_amounts(split, samples, owned), strict=True))
        fraction = curve.fraction(given, dict(zip(cluster.sources(), owned, strict=True)))
        epochs = math.ceil(curve.least_epochs(LOSS, fraction, 1) - 1e-9)
        fewest = min(fewest, epochs * math.ceil(samples / 8))
    assert fewest <= found.iterations <= 1.05 * fewest  # what a source has left changes the worth of the last samples
