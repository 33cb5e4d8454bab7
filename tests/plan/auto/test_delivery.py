"""What auto says about samples, uploading first and numbers of epochs: all of its sentences."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.errors import Infeasible
from palmette.plan.auto.delivery import compare_with_upload, describe_horizon
from palmette.plan.auto.horizon import BestFrom
from palmette.plan.auto.objective import PlanObjective, plan_objective
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Plan
from tests.plan.problems import goal, profile, three_tiers

LAYERS, BATCH = 4, 16


def task(quantity: str = "time", epochs: int | None = None) -> Task:
    return Task(profile=profile(LAYERS), cluster=three_tiers(), batch=BATCH, goal=goal(quantity), epochs=epochs)


def planned(strategy: str, quantity: str = "time") -> Plan:
    return pt.plan(strategy, profile=profile(LAYERS), cluster=three_tiers(), batch=BATCH, goal=quantity)


def described(*ranges: tuple[int, str], epochs: int | None = None) -> str:
    objective = PlanObjective(task(epochs=epochs), {"time": 1.0}, {})
    return describe_horizon([BestFrom(*each) for each in ranges], objective)


def test_where_the_answer_changes_with_the_epochs() -> None:
    asked = "The number of epochs is not given (--epochs), so 10 count"
    assert described((1, "hybrid")) == f"{asked}; of these plans, hybrid is best for any number."
    assert described((1, "hybrid"), (4, "upload")) == f"{asked}: up to 3, hybrid is best; from 4 on, upload."
    said = described((1, "all-device"), (3, "hybrid"), (9, "upload"))
    assert said == f"{asked}: up to 2, all-device is best; from 3 to 8, hybrid; from 9 on, upload."
    assert described((1, "hybrid"), (4, "upload"), epochs=7) == ""
    assert described() == ""


@pytest.mark.parametrize(("quantity", "words"), [("time", "times as fast as"), ("energy", "times as much")])
def test_uploading_first_is_the_answer_or_is_told_by_its_factor(quantity: str, words: str) -> None:
    upload, other = planned("upload", quantity), planned("all-device", quantity)
    objective = plan_objective(task(quantity), [upload, other], {})
    node = upload.decision["node"]
    assert compare_with_upload(upload, [upload], {}, objective) == (
        f"Uploading first to {node} is the answer: nothing is better than that."
    )
    faster = other.model_copy(update={"estimate": _halved(upload)})
    said = compare_with_upload(faster, [upload], {}, objective)
    assert f" 2 {words}" in said
    assert f"ploading first to {node}" in said


def _halved(plan: Plan) -> pt.Estimate:
    assert plan.estimate is not None
    found = plan.estimate
    names = ("iteration_s", "iteration_j", "epoch_s", "epoch_j", "first_epoch_s", "first_epoch_j")
    return found.model_copy(update={name: each / 2 for name in names if (each := getattr(found, name, None))})


def test_where_uploading_is_not_possible_the_reason_is_said() -> None:
    objective = PlanObjective(task(), {"time": 1.0}, {})
    said = compare_with_upload(planned("all-device"), [], {"upload": Infeasible("data of phone is private")}, objective)
    assert said == "Uploading first is not possible: data of phone is private."
