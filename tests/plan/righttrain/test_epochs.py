"""How long to train, beside every number of epochs and samples."""

from __future__ import annotations

import math
import random

import pytest

from palmette.plan.righttrain.epochs import LossTarget
from palmette.spec.learning import Learning


def fewest(target: LossTarget, replicas: int, least: int, most: int) -> float:
    """The fewest iterations of all epochs and samples, by trying."""
    tried = (
        epochs * math.ceil(samples / target.batch)
        for samples in range(least, most + 1)
        for epochs in range(1, 200)
        if target.reached(epochs, samples, replicas)
    )
    return min(tried, default=math.inf)


@pytest.mark.parametrize("seed", range(6))
def test_an_epoch_uses_as_much_data_as_the_runs_of_the_curve(seed: int) -> None:
    draw = random.Random(seed)
    curve = Learning(
        floor=0.1,
        scale=2.0,
        epoch_exponent=draw.uniform(0.4, 1.0),
        data_exponent=draw.uniform(0.1, 1.0),
        replica_exponent=0.1,
        fitted_on={"data": (0.3, draw.choice([0.5, 1.0]))},
    )
    target = LossTarget(curve, draw.uniform(0.3, 1.5), 100, draw.randint(5, 30))
    found = target.schedule(2, 80)
    expected = fewest(target, 2, 30, 80)
    assert (math.inf if found is None else found.iterations) == expected
    assert found is None or found.samples >= 30
    assert target.schedule(2, 20) is None
