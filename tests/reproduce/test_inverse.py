"""The inverse problem: unknowns that are known here, and contradictions that follow by hand."""

from __future__ import annotations

from math import log

import pytest

from palmette.reproduce.inverse import InverseProblem, Outcome, Outcomes, Values

BOUNDS = {"a": (0.01, 100.0), "b": (0.01, 100.0)}


def outcomes(values: Values) -> Outcomes:
    a, b = values["a"], values["b"]

    def is_(value: float, wanted: float) -> Outcome:
        return Outcome(value, max(0.0, abs(log(value / wanted)) - 0.01))

    return {
        "a is 2": is_(a, 2.0),
        "b is 3": is_(b, 3.0),
        "the product is 6": is_(a * b, 6.0),
        "b is twice a": is_(b / a, 2.0),
    }


def test_unknowns_are_found() -> None:
    found = InverseProblem(BOUNDS, outcomes).fit(["a is 2", "b is 3"])
    assert (found["a"], found["b"]) == pytest.approx((2.0, 3.0), rel=0.02)


def test_claims_that_agree_do_not_contradict() -> None:
    assert InverseProblem(BOUNDS, outcomes).contradiction(["a is 2", "b is 3", "the product is 6"]) is None


def test_a_contradiction_is_minimal() -> None:
    problem = InverseProblem(BOUNDS, outcomes)
    found = problem.contradiction(["the product is 6", "b is twice a", "b is 3"])  # 2a² = 6, so b = 3.46
    assert found == ("the product is 6", "b is twice a", "b is 3")
    found = problem.contradiction(["a is 2", "b is 3", "the product is 6", "b is twice a"])
    assert found is not None
    assert len(found) == 3
    assert "b is twice a" in found


def test_the_fewest_claims_are_given_up() -> None:
    found = InverseProblem(BOUNDS, outcomes).consistent(["a is 2", "b is 3", "the product is 6", "b is twice a"])
    assert found.given_up == ("b is twice a",)
    assert {name: each.residual for name, each in outcomes(found.values).items() if each.residual}.keys() == {
        "b is twice a"
    }
    assert all("b is twice a" in each for each in found.contradictions)


def test_what_is_proven_needs_no_search() -> None:
    proven = ("b is twice a", "a is 2", "b is 3")
    found = InverseProblem(BOUNDS, outcomes).consistent(["a is 2", "b is 3", "b is twice a"], [proven])
    assert (found.given_up, found.contradictions) == (("b is twice a",), (proven,))


def test_the_same_problem_has_the_same_answer() -> None:
    claims = ["the product is 6", "b is twice a", "b is 3"]
    assert InverseProblem(BOUNDS, outcomes).fit(claims) == InverseProblem(BOUNDS, outcomes).fit(claims)
