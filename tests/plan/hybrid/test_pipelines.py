"""Pipelines of many small microbatches in turns."""

from __future__ import annotations

import pytest

import palmette as pt
from benchmarks.planner.cases import three_tier_worlds
from palmette.cost.order import microbatches, takes_turns
from palmette.plan.core.strategy import Task
from palmette.plan.hybrid.pipelines import pipeline
from palmette.plan.hybrid.pricing import Pricer
from palmette.plan.hybrid.problem import HybridProblem, make_problem
from tests.plan.problems import profile, three_tiers

CHAINS = [
    (("phone", 1), ("server", 5)),
    (("phone", 3), ("server", 5)),
    (("phone", 1), ("server", 2), ("cloud", 5)),
    (("phone", 2), ("server", 3), ("cloud", 5)),
]


@pytest.fixture(scope="module")
def problem() -> HybridProblem:
    return make_problem(Task(profile=profile(5), cluster=three_tiers(), batch=10))


@pytest.mark.parametrize("many", [2, 3, 8, 64])
@pytest.mark.parametrize("chain", CHAINS)
def test_every_other_microbatch_has_turns_of_its_own(
    problem: HybridProblem, chain: tuple[tuple[str, int], ...], many: int
) -> None:
    state = pipeline(problem, chain, many)
    phase = Pricer(problem).phase(state)
    assert sum(path.samples for path in state.paths) == 10
    assert takes_turns(phase)
    assert len(phase.instances) == len(chain) * min(many, 10)
    assert len(microbatches(phase)) == 2 * len(chain)


@pytest.mark.slow
def test_private_data_on_three_tiers() -> None:
    """Without pipelines the search ends at 6.18 s; no plan takes less than 3.66 s."""
    known, cluster, options = three_tier_worlds()["34 layers, fixed parts of calls, private"]
    made = pt.plan("hybrid", profile=known, cluster=cluster, batch=128, **options)
    assert made.phases[0].order == "1f1b"
    assert made.decision["value"] <= 4.2
