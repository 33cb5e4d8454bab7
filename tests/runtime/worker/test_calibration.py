"""How much of what the profile assumes calls do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from palmette.runtime.options import Options
from palmette.runtime.sync.step import StepWorkerSide
from palmette.runtime.worker.calibration import CHANCE, as_profiled, calibrate, work_ratios
from palmette.runtime.worker.setup import Setup, held_layers
from palmette.zoo.recipes.objective import classification
from tests.cost.small import cluster, instance, node, phase, source
from tests.runtime.rig import Rig, ToyData

PLAIN = Options()


def test_work_that_differs_by_more_than_chance_is_told() -> None:
    found = work_ratios({1: 0.1, 2: 1.0, 3: 3.0, 4: 0.0}, {1: 1.0, 2: 1 + CHANCE / 2, 3: 1.0, 4: 1.0})
    assert found == pytest.approx({1: 0.1, 3: 3.0, 4: 0.0})


@pytest.mark.parametrize(
    "options",
    [replace(PLAIN, precision="bf16"), replace(PLAIN, optimizer="adam"), replace(PLAIN, dtype="float64")],
)
def test_a_profile_assumes_plain_training(options: Options) -> None:
    assert as_profiled(PLAIN)
    assert not as_profiled(options)


def test_a_profile_knows_what_is_frozen_and_its_precision() -> None:
    assert as_profiled(replace(PLAIN, freeze=("a.weight",)))
    assert as_profiled(replace(PLAIN, mixed_precision=True), "bf16")
    assert not as_profiled(PLAIN, "bf16")


def setup_of(rig: Rig, options: Options) -> Setup:
    tree, where = phase(source("a", 64, "1"), instance("1", 1, 2, "a")), cluster(a=node(100))
    program = rig.programs(tree, where)["a"]
    layers = rig.fresh()
    return Setup(
        node="a",
        endpoint=None,  # type: ignore[arg-type]
        programs=[program],
        layers={n: layers[n - 1] for n in held_layers(program)},
        shapes=rig.shapes,
        input_dtype=torch.float32,
        options=options,
        side=StepWorkerSide,
        objective=classification(rig.shapes[-1][0]),
        source=ToyData(rig.data, 0),
    )


def test_an_optimizer_with_state_is_more_work_in_the_update() -> None:
    rig = Rig([nn.Linear(512, 512), nn.Linear(512, 3)], (512,), options=PLAIN)
    setup = setup_of(rig, replace(PLAIN, optimizer="adam"))
    (program,) = setup.programs
    assert program is not None
    work = calibrate(program, setup).work
    assert work[next(o.number for o in program.operations if o.op == "update")] > 1.5


def test_plain_training_is_what_the_profile_assumes() -> None:
    rig = Rig([nn.Linear(5, 5), nn.Linear(5, 3)], (5,), options=PLAIN)
    setup = setup_of(rig, PLAIN)
    (program,) = setup.programs
    assert program is not None
    assert calibrate(program, setup).work == {}
