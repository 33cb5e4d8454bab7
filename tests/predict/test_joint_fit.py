"""What short runs do not tell: the floor, and how sharply a curve leaves the loss before training."""

from __future__ import annotations

import random

import pytest

from palmette.predict.joint_fit import rms_error
from palmette.predict.learning_curve import fit_learning_curve
from palmette.predict.loss_points import LossPoint
from palmette.spec.learning import Learning

START = 2.3


def curve(**changed: float) -> Learning:
    known = {"floor": 0.4, "scale": 0.7, "epoch_exponent": 1.2, "data_exponent": 1.2, "replica_exponent": 0.0}
    return Learning.model_validate({**known, "start": START, **changed})


def points(true: Learning, epochs: int, noise: float = 0.0, seed: int = 0) -> list[LossPoint]:
    draw = random.Random(seed)
    return [
        LossPoint(k, phi, 1, true.loss(k, phi, 1) * (1 + draw.gauss(0, noise)))
        for phi in (0.5, 0.25, 0.125)
        for k in range(1, epochs + 1)
    ]


@pytest.mark.parametrize("knee", [1.0, 2.0])
def test_a_knee_that_runs_tell_is_found(knee: float) -> None:
    true = curve(knee=knee)
    found = fit_learning_curve(points(true, 12), START)
    assert found.knee == knee
    assert rms_error(found, points(true, 40)) < 1e-3


@pytest.mark.parametrize("start", [START, None])
def test_a_floor_that_runs_tell_is_found(start: float | None) -> None:
    true = curve(start=start, knee=2.0 if start else 1.0)
    assert fit_learning_curve(points(true, 30), start).floor == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("seed", range(8))
def test_a_floor_that_short_and_noisy_runs_do_not_tell_is_not_taken_to_be_none(seed: int) -> None:
    """Without that, some seeds have a floor of 0, and longer runs are promised a twentieth of their loss."""
    true = curve(knee=2.0)
    found = fit_learning_curve(points(true, 4, 0.15, seed), START)
    lowest = min(point.loss for point in points(true, 4, 0.15, seed))
    assert 0.1 * lowest < found.floor < 0.9 * lowest
    assert found.loss(40, 1.0, 1) > 0.3 * true.loss(40, 1.0, 1)
