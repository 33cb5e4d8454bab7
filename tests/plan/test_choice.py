"""Scores of goals, and plans in their order."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.plan.choice import ranked, score
from tests.plan.worlds import goal, profile, three_tiers

COSTS = [(1.0, 9.0), (2.0, 4.0), (4.0, 1.0)]  # (seconds, joules)


@pytest.mark.parametrize(
    ("wanted", "scores"),
    [
        ("time", [1, 2, 4]),
        ("energy", [9, 4, 1]),
        ("power", [9, 2, 0.25]),
        ("edp", [9, 8, 4]),
        ("2*time", [2, 4, 8]),
        ("0.5*time+0.5*energy", [0.5 + 4.5, 1 + 2, 2 + 0.5]),
        ("time+edp", [1 + 9 / 4, 2 + 2, 4 + 1]),
    ],
)
def test_scores(wanted: str, scores: list[float]) -> None:
    assert score(COSTS, goal(wanted)) == pytest.approx(scores)


def test_a_quantity_that_costs_nothing_is_not_divided_by() -> None:
    assert score([(0.0, 1.0), (1.0, 1.0)], goal("time+energy")) == [1.0, 2.0]


def test_plans_come_best_first() -> None:
    plans = [
        pt.plan(name, profile=profile(), cluster=three_tiers(), batch=10)
        for name in ("all-device", "all-edge", "all-cloud")
    ]
    for wanted in ("time", "energy", "power", "edp", "0.3*time+0.7*energy"):
        order = ranked(plans, goal(wanted))
        scores = score([(plan.estimate.iteration_s, plan.estimate.iteration_j) for plan in order], goal(wanted))
        assert scores == sorted(scores)
        assert {plan.strategy for plan in order} == {plan.strategy for plan in plans}
