"""Scores of goals, and what meets a deadline."""

from __future__ import annotations

import pytest

from palmette.errors import Infeasible
from palmette.plan.core.choice import best, score
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Task
from palmette.spec.goal import Goal
from tests.plan.problems import goal, profile, three_tiers

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


def test_a_deadline_of_the_whole_counts_where_the_epochs_are_known() -> None:
    def asked(wanted: Goal) -> Task:
        return Task(profile=profile(3), cluster=three_tiers(), batch=10, epochs=3, goal=wanted)

    task = asked(goal("time"))
    phases = [on_one_node(name, task) for name in task.cluster.nodes]
    totals_s = sorted(task.evaluator.price(phase).total_s(3) for phase in phases)
    for limit_s in totals_s:
        chosen = best(phases, asked(goal("energy", deadline_s=limit_s)))
        assert chosen.price.total_s(3) <= limit_s
    with pytest.raises(Infeasible, match=r"^deadline_s: .* cannot be met") as refused:
        best(phases, asked(goal("energy", deadline_s=totals_s[0] / 2)))
    assert refused.value.least_s == pytest.approx(totals_s[0])
