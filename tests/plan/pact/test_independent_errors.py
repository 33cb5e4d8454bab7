"""Robust estimates whose errors are independent: reserves that add up as roots do."""

from __future__ import annotations

import math
from typing import Any

import pytest

import palmette as pt
from palmette.plan.pact.independent_errors import with_independent_errors
from palmette.spec.problem import Problem
from tests.plan.pact.problems import loaded, random_problem


def made(*, reserve: float, change_reserve: float = 0.0, **more: Any) -> Problem:
    """L falls by 0.1 an epoch for 1 J, S by 0.08 for 0.2 J; from 1 to 0.2."""
    epoch = {"L": (1.0, 1.0, -0.1), "S": (1.0, 0.2, -0.08)}
    plain = {
        "format": "palmette.pact/1",
        "models": ["L", "S"],
        "node_sets": ["n"],
        "start": {"model": "L", "nodes": "n", "loss": 1.0},
        "target_loss": 0.2,
        "deadline_s": 100.0,
        "loss_step": 0.001,
        "time_step_s": 0.1,
        "run": [
            {"model": model, "nodes": "n", "time_s": s, "energy_j": j, "loss_expected": [fall],
             "loss_robust": [fall + reserve]}
            for model, (s, j, fall) in epoch.items()
        ],
        "change": [
            {"from": ["L", "n"], "to": ["S", "n"], "time_s": 0.0, "energy_j": 0.0, "loss_expected": 0.0,
             "loss_robust": change_reserve}
        ],
    }  # fmt: skip
    return loaded(plain | more)


def test_equal_reserves_of_n_epochs_are_narrowed_by_the_root_of_n() -> None:
    narrowed = with_independent_errors(made(reserve=0.02))  # ten epochs of S are the cheapest
    assert [run.loss_robust for run in narrowed.run] == [
        pytest.approx([-0.1 + 0.02 / math.sqrt(10)]),
        pytest.approx([-0.08 + 0.02 / math.sqrt(10)]),
    ]


def test_one_large_reserve_is_hardly_narrowed() -> None:
    narrowed = with_independent_errors(made(reserve=0.0001, change_reserve=0.05))
    reserves = [0.0501, *[0.0001] * 9]
    assert narrowed.change[0].loss_robust == pytest.approx(0.05 * math.hypot(*reserves) / sum(reserves))
    assert narrowed.change[0].loss_robust > 0.049


def test_lists_of_different_lengths_go_on_with_their_last_value() -> None:
    plain = made(reserve=0.02).model_dump(mode="json", by_alias=True)
    plain["run"][1]["loss_robust"] = [-0.05, -0.06, -0.06]
    narrowed = with_independent_errors(loaded(plain))
    assert len(narrowed.run[1].loss_robust) == 3
    assert -0.08 < narrowed.run[1].loss_robust[2] < -0.06


def test_exact_estimates_stay_as_they_are() -> None:
    for seed in range(20):
        problem = loaded(random_problem(seed, back=False, models=3, epochs=3))
        assert with_independent_errors(problem) == problem


def test_a_target_out_of_reach_changes_nothing() -> None:
    problem = made(reserve=0.02, deadline_s=3.0)
    assert with_independent_errors(problem) == problem


def test_nothing_else_of_the_problem_changes() -> None:
    problem, narrowed = made(reserve=0.02), with_independent_errors(made(reserve=0.02))
    same = {"run": problem.run, "change": problem.change}
    assert narrowed.model_copy(update=same) == problem


def test_where_time_is_short_independent_errors_allow_the_cheaper_model() -> None:
    problem = made(reserve=0.02, deadline_s=10.0)  # by the sum of reserves S needs 14 epochs
    careful, bold = (
        pt.plan("pact", problem=problem, independent=independent).decision for independent in (False, True)
    )
    assert bold["energy_j"] < careful["energy_j"]
    assert bold["loss"] <= 0.2
    assert bold["time_s"] <= 10.0


def test_independent_errors_are_those_of_a_table() -> None:
    with pytest.raises(pt.InputError, match="problem"):
        pt.plan("pact", independent=True)
