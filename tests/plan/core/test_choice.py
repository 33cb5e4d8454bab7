"""Scores of goals."""

from __future__ import annotations

import pytest

from palmette.plan.core.choice import score
from tests.plan.problems import goal

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
