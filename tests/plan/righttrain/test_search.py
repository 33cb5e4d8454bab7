"""The parts of RightTrain's search: restricted paths, the geometric program, schedules, bounds."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from palmette.plan.righttrain.cpu_allocation import CpuAllocator, MappedTree
from palmette.plan.righttrain.cpu_shares import fastest_shares, optimal_shares
from palmette.plan.righttrain.epochs import LossTarget
from palmette.plan.righttrain.geometric_program import CriticalPath, GeometricProgram
from palmette.plan.righttrain.mapping_bounds import BoxedTree, MappingBounds
from palmette.plan.righttrain.optimum.dual_ascent import DualProblem, tighten
from palmette.plan.righttrain.optimum.possible_instances import PossibleInstances
from palmette.plan.righttrain.optimum.states import StateSpace
from palmette.plan.righttrain.problem import build_problem
from palmette.plan.righttrain.restricted_shortest_path import PathStage, label_setting, lorenz_raz
from palmette.plan.righttrain.symmetry import Symmetry, distinct_trees
from palmette.plan.righttrain.trees import generate_trees, ranked_trees
from palmette.spec.cluster import Cluster
from palmette.spec.learning import Learning
from tests.plan.problems import link, node, profile, three_tiers
from tests.plan.righttrain.by_hand import fewest_iterations
from tests.plan.righttrain.problems import CURVE, problem_of, random_problem, task


def random_stages(draw: np.random.Generator) -> list[PathStage]:
    widths = [1, *draw.integers(1, 5, size=draw.integers(2, 6)).tolist(), 1]
    return [
        PathStage(draw.uniform(0, 10, (a, b)) * draw.integers(0, 2, (a, b)), draw.uniform(0, 10, (a, b)))
        for a, b in itertools.pairwise(widths)
    ]


def all_paths(stages: list[PathStage]) -> list[tuple[float, float]]:
    columns = [range(stage.weight.shape[1]) for stage in stages]
    found = []
    for rest in itertools.product(*columns):
        steps = list(zip(stages, (0, *rest), rest, strict=False))
        found.append((sum(s.weight[a, b] for s, a, b in steps), sum(s.delay[a, b] for s, a, b in steps)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_restricted_paths_against_all_paths(seed: int) -> None:
    stages = random_stages(np.random.default_rng(seed))
    paths = all_paths(stages)
    quickest = min(delay for _, delay in paths)
    for most in (quickest * (1 + 1e-9), quickest * 1.2, quickest * 2):
        least = min(weight for weight, delay in paths if delay <= most)
        exact = label_setting(stages, most)
        assert exact.weight == pytest.approx(least, abs=1e-9)
        assert exact.delay <= most
        for epsilon in (0.01, 0.1, 0.5, 2.0):
            near = lorenz_raz(stages, most, epsilon)
            assert near.delay <= most
            assert near.weight <= (1 + epsilon) * least + 1e-9
    assert label_setting(stages, quickest * 0.99 - 1e-9) is None
    assert lorenz_raz(stages, quickest * 0.99 - 1e-9, 0.1) is None


@pytest.mark.parametrize("seed", range(12))
def test_the_program_is_solved_as_well_as_by_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    many = int(draw.integers(2, 6))
    idle_w, effort = draw.uniform(1, 50), draw.uniform(1, 20, many)
    exponent = draw.choice([1.0, 1.5, 2.0, 3.0], many)
    paths = [
        CriticalPath(float(draw.uniform(0, 0.3)), draw.uniform(0.1, 1, many) * draw.integers(0, 2, many))
        for _ in range(4)
    ]
    where = draw.integers(0, many - 1, many)
    nodes = [np.flatnonzero(where == node).tolist() for node in sorted(set(where.tolist()))]
    limits = draw.choice([1.0, 0.5], len(nodes))
    program = GeometricProgram(
        idle_w, effort, exponent, nodes, limits, lambda slow: max(paths, key=lambda p: p.fixed_s + p.work_s @ slow)
    )
    most_s = float(draw.choice([1.05, 1.5, 4.0])) * program.time_s(fastest_shares(program))
    program = GeometricProgram(idle_w, effort, exponent, nodes, limits, program.critical_path, most_s)

    shares = optimal_shares(program)

    assert program.time_s(shares) <= most_s * (1 + 1e-6)
    assert all(shares[own].sum() <= limit * (1 + 1e-9) for own, limit in zip(nodes, limits, strict=True))
    constraints = [{"type": "ineq", "fun": lambda z, p=p: z[-1] - p.fixed_s - p.work_s @ np.exp(z[:-1])} for p in paths]
    constraints += [
        {"type": "ineq", "fun": lambda z, o=own, r=limit: r - np.exp(-z[:-1])[o].sum()}
        for own, limit in zip(nodes, limits, strict=True)
    ]
    constraints.append({"type": "ineq", "fun": lambda z: most_s - z[-1]})
    start = np.append(-np.log(shares * 0.97), most_s * 0.999)
    theirs = minimize(
        lambda z: idle_w * z[-1] + (effort * np.exp((1 - exponent) * z[:-1])).sum(),
        start,
        method="SLSQP",
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    if theirs.success:
        assert program.value_j(shares) <= theirs.fun * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_schedules_need_the_fewest_iterations(seed: int) -> None:
    draw = random.Random(seed)
    curve = Learning(
        floor=draw.choice([0.0, 0.1]),
        scale=draw.uniform(0.5, 1.5),
        epoch_exponent=draw.uniform(0.4, 1.2),
        data_exponent=draw.choice([0.0, draw.uniform(0.2, 1.5)]),
        replica_exponent=draw.uniform(-0.1, 0.3),
    )
    world = task(profile(2), three_tiers())
    everything, most, replicas = 300, draw.randint(32, 300), draw.randint(1, 3)
    found = LossTarget(curve, 0.3, everything, world.batch).schedule(replicas, most)
    assert found.iterations == fewest_iterations(curve, world, replicas, most, everything)
    assert curve.loss(found.epochs, found.samples / everything, replicas) <= 0.3
    assert found.samples == 1 or curve.loss(found.epochs, (found.samples - 1) / everything, replicas) > 0.3


def test_trees_are_all_chains_of_ever_coarser_groupings() -> None:
    """For two sources and L layers: L + 1 with both, and one with each alone."""
    draw = random.Random(3)
    while True:
        known, cluster, curve = random_problem(draw)
        if len(cluster.sources()) == 2:
            break
    problem = problem_of(known, cluster, curve)
    assert len(generate_trees(problem)) == len(known.layers) + 1 + 2


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_below_whatever_a_mapping_costs(seed: int) -> None:
    draw = random.Random(seed)
    known, cluster, curve = random_problem(draw, (2, 4, 3))
    problem = problem_of(known, cluster, curve)
    allocator, bounds = CpuAllocator(problem), MappingBounds(problem)
    known_trees = ranked_trees(problem)
    for ranked in draw.sample(known_trees, min(2, len(known_trees))):
        found = bounds.lower_bounds(BoxedTree.of(ranked))
        for _ in range(6):
            mapping = tuple(
                tuple(draw.choice(problem.compute_nodes) for _ in groups) for groups in ranked.tree.groupings
            )
            candidate = MappedTree(ranked.tree, mapping, ranked.schedule)
            plan = allocator.best_plan(candidate)
            if plan is None:
                continue
            used = {node for nodes in mapping for node in nodes}
            own = {problem.feed_nodes[feed] for feed in ranked.tree.feeds}
            (bound,) = [b for b in found if used | own == set(b.nodes) | own]
            assert bound.joules <= plan.total_j * (1 + 1e-9)
            better = bounds.refined(BoxedTree.of(ranked), bound)
            assert better.joules <= plan.total_j * (1 + 1e-9)
            assert allocator.bound_j(candidate) <= plan.total_j * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(16))
def test_raised_prices_bound_every_mapping_from_below(seed: int) -> None:
    """Whatever the prices: of a tree, of one mapping of it, of its time, and with little energy for a node."""
    draw = random.Random(seed)
    known, cluster, curve = random_problem(draw, (3, 4, 3))
    problem = problem_of(known, cluster, curve)
    allocator, bounds = CpuAllocator(problem), MappingBounds(problem)
    for ranked in draw.sample(known_trees := ranked_trees(problem), min(3, len(known_trees))):
        mapping = tuple(tuple(draw.choice(problem.compute_nodes) for _ in groups) for groups in ranked.tree.groupings)
        candidate, many = MappedTree(ranked.tree, mapping, ranked.schedule), ranked.schedule.iterations
        least_j, least_s = allocator.bound_j(candidate) / many, allocator.min_time_s(candidate) / many
        if least_j == float("inf"):
            continue
        used = {node for nodes in mapping for node in nodes} | {problem.feed_nodes[f] for f in ranked.tree.feeds}
        nodes = tuple(sorted(used))
        instances, none = (
            PossibleInstances(ranked.tree, ranked.schedule.split, bounds.costs(nodes)),
            np.full(len(nodes), np.inf),
        )
        dual = DualProblem(instances, bounds.idle_w(ranked.tree, nodes), float("inf"), none)
        for each, least in ((dual, least_j), (replace(dual, time_only=True), least_s)):
            start = each.start()
            assert tighten(each, start, 2 * least, 6).value <= least * (1 + 3e-6)
            alone = tighten(each, replace(start, remaining=_only(start.remaining, mapping, nodes)), 2 * least, 12)
            assert alone.value <= least * (1 + 3e-6)
            assert tighten(each, start, least * (1 + 1e-5), 12) is not None


def _only(remaining: StateSpace, mapping: tuple[tuple[int, ...], ...], nodes: tuple[int, ...]) -> StateSpace:
    """The states of one mapping."""
    return tuple(
        tuple(states[states % len(nodes) == nodes.index(node)] for states, node in zip(groups, here, strict=True))
        for groups, here in zip(remaining, mapping, strict=True)
    )


def test_trees_that_differ_in_the_names_of_equal_sources_are_one() -> None:
    """Of 2 sources there are 3 chains over two layers; of 3 there are 6, by the sizes of the groups."""
    nodes = {name: node("device", samples=600) for name in ("a", "b", "c")} | {"server": node("edge")}
    cluster = Cluster(nodes=nodes, links=tuple(link(name, "server") for name in ("a", "b", "c")))
    equal, slow = (task(profile(2, a=4.0, b=4.0, c=c, server=0.5), cluster) for c in (4.0, 5.0))

    assert len(distinct_trees(build_problem(replace(equal, batch=30), CURVE))) == 1 + 3 + 6
    assert len(distinct_trees(build_problem(equal, CURVE))) == 1 + 3 + 6  # whoever gets 10 of 32 samples
    assert len(distinct_trees(build_problem(slow, CURVE))) == 2 + 6 + 9
    assert len(ranked_trees(build_problem(slow, CURVE))) == 3 + 9 + 12
    assert Symmetry(build_problem(equal, CURVE)).node_classes == [0, 0, 0, 3]
    assert Symmetry(build_problem(slow, CURVE)).node_classes == [0, 0, 2, 3]


def test_a_learning_curve_says_what_its_formula_says() -> None:
    assert CURVE.loss(8, 0.5, 2) == pytest.approx(0.05 + 2.2 * 0.5**-0.4 * 2**0.05 * 8**-0.6)
    assert CURVE.least_fraction(CURVE.loss(8, 0.5, 2), 8, 2) == pytest.approx(0.5)
    assert CURVE.least_epochs(CURVE.loss(8, 0.5, 2), 0.5, 2) == pytest.approx(8)
    assert CURVE.least_fraction(0.05, 8, 2) == float("inf")
