"""A run says where its plan for a loss counts on another learning rate than it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.run.validation import other_learning_rate
from palmette.runtime.options import Options
from palmette.spec.learning import Learning
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.spec.plan import Asked, Plan
from tests.cost.small import instance, phase, source
from tests.runtime.world import Runs

COSINE = LearningRateSchedule(name="cosine", warmup=5)
CURVE = Learning(
    floor=0.1, scale=1.0, epoch_exponent=0.5, data_exponent=0.5, replica_exponent=0.0, fitted_on={}, schedule=COSINE
)
TREE = phase(source("phone", 8, "all"), instance("all", 1, 7, "phone"))


def asked_for(loss: float | None, curve: Learning | None) -> Plan:
    options = {"learning": None if curve is None else curve.model_dump(mode="json")}
    return Plan(model="lenet5", batch=8, phases=(TREE,), asked=Asked(loss=loss, options=options))


@pytest.mark.parametrize(
    ("loss", "curve", "options"),
    [
        (0.5, CURVE, Options(schedule="cosine", warmup=5)),
        (None, CURVE, Options()),
        (0.5, None, Options()),
        (0.5, CURVE.model_copy(update={"schedule": None}), Options()),
    ],
)
def test_nothing_is_said_of_what_the_plan_counts_on(
    loss: float | None, curve: Learning | None, options: Options
) -> None:
    assert other_learning_rate(asked_for(loss, curve), options) is None


def test_a_curve_in_a_plan_that_cannot_be_read_is_refused_by_its_place() -> None:
    options = {"learning": {**CURVE.model_dump(mode="json"), "schedule": "bad"}}
    plan = Plan(model="lenet5", batch=8, phases=(TREE,), asked=Asked(loss=0.5, options=options))
    with pytest.raises(pt.InputError, match=r"asked\.options\.learning: schedule: bad: expected a mapping"):
        other_learning_rate(plan, Options())


@pytest.mark.parametrize(
    ("options", "mine"),
    [
        (Options(), "constant"),
        (Options(schedule="cosine", warmup=6), "cosine with a warm-up of 6 iterations"),
        (Options(schedule="linear", warmup=5), "linear with a warm-up of 5 iterations"),
    ],
)
def test_another_learning_rate_is_told_with_options_that_are_right(options: Options, mine: str) -> None:
    told = other_learning_rate(asked_for(0.5, CURVE), options)
    assert told is not None
    assert f"this run has {mine}, so that" in told
    assert "palmette run --schedule cosine --warmup 5" in told


def test_the_command_prints_it(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    command = runs.arguments("lenet5", TREE)
    plan, asked = Path(command[1]), asked_for(0.5, CURVE).asked
    assert asked is not None
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"asked": asked.model_dump(mode="json")}))
    common = [*command, "--iterations", "1", "--lines", "-o", str(runs.folder / "out")]
    assert execute(common) == 0
    assert "warning: the plan counts on the learning rate" in capsys.readouterr().err
    assert execute([*common, "--force", "--schedule", "cosine", "--warmup", "5"]) == 0
    assert "learning rate" not in capsys.readouterr().err
