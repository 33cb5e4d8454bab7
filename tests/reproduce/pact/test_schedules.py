"""The reference scenario of PACT: what the paper says of it, and claims that are told as they come out."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.reproduce.pact.schedule_claims import schedule_claims
from palmette.reproduce.pact.schedules import planned, scenario, schedules


def test_the_scenario_is_the_papers() -> None:
    problem = scenario(0.15)
    run = {each.model: each for each in problem.run}
    assert [(each.time_s, each.energy_j) for each in run.values()] == [(1.0, 1.0), (0.8, 0.5), (0.5, 0.2)]
    assert problem.deadline_s == 1000
    assert all(a < b < 0 for each in run.values() for a, b in zip(each.loss_expected, each.loss_robust, strict=True))


def test_a_bias_is_one_of_l_alone() -> None:
    plain, biased = scenario(0.3), scenario(0.3, bias=0.1)
    assert biased.run[0].loss_expected[0] == pytest.approx(1.1 * plain.run[0].loss_expected[0])
    assert biased.run[0].loss_true == plain.run[0].loss_true
    assert biased.run[1] == plain.run[1]


def test_the_course_ends_where_the_decision_says() -> None:
    made = planned("pact", scenario(0.45, loss_step=0.01))
    assert made is not None
    end = made["course"][-1]
    assert (end["loss"], end["time_s"], end["energy_j"]) == pytest.approx(
        (made["loss"], made["time_s"], made["energy_j"])
    )
    assert len(made["course"]) == sum(stretch["epochs"] for stretch in made["schedule"])


@pytest.mark.slow
def test_pact_is_within_3_per_cent_of_the_optimum_and_below_its_rivals() -> None:
    made = schedules()
    told = {row["claim"]: row for row in schedule_claims(made)}
    for claim in ("the optimum's", "that of static-learn", "that of one-switch"):
        assert told[f"PACT's energy beside {claim}"]["agrees"], told
    assert told["a coarser γ costs energy"]["agrees"]
    assert told["a coarser γ makes the first switch later"]["agrees"]


def figure(**series: list[float]) -> dict[str, Any]:
    plan = {"schedule": [{"model": "L", "epochs": 3}, {"model": "M", "epochs": 2}]}
    return {"series": series, "at_lowest": dict.fromkeys(series, plan)}


def test_to_leave_l_at_once_is_a_switch_after_no_epoch() -> None:
    plan = {"schedule": [{"model": "M", "epochs": 3}, {"model": "S", "epochs": 2}]}
    rivals = {name: [1.0] for name in ("pact", "pact-optimum", "static-learn", "one-switch")}
    biases = figure(**{"bias -10%": [1.0], "bias +0%": [1.0], "bias +10%": [1.0]})
    biases["at_lowest"]["bias -10%"] = plan
    rows = schedule_claims(
        {
            "6": figure(**rivals),
            "7": {"targets": {"0.15": {"pact": {"L": 1.0}, "static-learn": {"L": 0.5}}}},
            "8": figure(**{"γ = 0.001": [1.0]}),
            "9": biases,
        }
    )
    assert rows[-1]["ours"] == "after 0 epochs when underrated, 3 when overrated"
    assert not rows[-1]["agrees"]


def test_a_claim_that_does_not_hold_says_why() -> None:
    spent = {"L": 1.0, "M": 2.0, "S": 0.0}
    rows = schedule_claims(
        {
            "6": figure(**{"pact": [2.0], "pact-optimum": [1.0], "static-learn": [1.5], "one-switch": [3.0]}),
            "7": {"targets": {"0.15": {"pact": spent, "static-learn": None}}},
            "8": figure(**{"γ = 0.001": [1.0], "γ = 0.01": [2.0]}),
            "9": figure(**{"bias -10%": [1.0], "bias +0%": [1.0], "bias +10%": [1.5]}),
        }
    )
    agreed = {row["claim"]: row["agrees"] for row in rows}
    assert not agreed["PACT's energy beside the optimum's"]
    assert agreed["PACT's energy beside that of one-switch"]
    assert not agreed["a bias costs about the same in both directions"]
    assert all(row["agrees"] or row["why"] for row in rows)
