"""The whole network on several nodes side by side."""

from __future__ import annotations

import pytest

from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.pricing import Budget, Objective, Pricer
from palmette.plan.hybrid.problem import HybridProblem, make_problem
from palmette.plan.hybrid.quick_bound import QuickBound
from palmette.plan.hybrid.side_by_side import NodeShare, SideBySideSearch, side_by_side
from tests.plan.problems import node, profile, three_tiers

BATCH = 24


@pytest.fixture(scope="module")
def problem() -> HybridProblem:
    return make_problem(Task(profile=profile(3), cluster=three_tiers(), batch=BATCH))


@pytest.mark.parametrize("growth", [1.0, 1.7])
@pytest.mark.parametrize("samples", [0, 1, 5, 24])
def test_microbatches_grow_and_have_all_samples(samples: int, growth: float) -> None:
    sizes = NodeShare("server", samples, 4, growth).sizes()
    assert sum(sizes) == samples
    assert len(sizes) <= 4
    assert growth == 1.0 or sizes == sorted(sizes)


def test_microbatches_of_all_nodes_take_turns(problem: HybridProblem) -> None:
    state = side_by_side(problem, (NodeShare("phone", 4, 1, 1.0), NodeShare("cloud", 20, 4, 1.0)), "server")
    assert [(path.runs[0][0], path.samples) for path in state.paths] == [
        ("cloud", 5),
        ("cloud", 5),
        ("phone", 4),
        ("cloud", 5),
        ("cloud", 5),
    ]


def test_it_finds_a_faster_plan_than_any_node_alone(problem: HybridProblem) -> None:
    pricer = Pricer(problem)
    alone = [pricer.cost(side_by_side(problem, (NodeShare(name, BATCH, 1, 1.0),), None)) for name in problem.nodes]
    SideBySideSearch(pricer, QuickBound(problem)).run(Budget(pricer, pricer.spent + 5_000))
    found = pricer.best(Objective({"time": 1.0}))
    assert found is not None
    assert found[1].time_s < min(cost.time_s for cost in alone if cost is not None)


def test_private_samples_stay() -> None:
    cluster = three_tiers(phone=node("device", samples=1000, private=True))
    pricer = Pricer(make_problem(Task(profile=profile(3), cluster=cluster, batch=BATCH)))
    SideBySideSearch(pricer, QuickBound(pricer.problem)).run(Budget(pricer, 5_000))
    assert pricer.priced == 0
