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


@pytest.mark.parametrize("knee", [1.0, 2.0, 8.0])
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


ENDS = {
    (1, 12): (2.298, 2.298, 2.301, 2.301),
    (1, 6): (2.270, 2.237, 2.294, 2.292),
    (2, 12): (2.263, 2.235, 2.297, 2.293),
    (2, 6): (2.040, 1.979, 2.065, 2.062),
    (4, 12): (2.025, 1.974, 2.038, 2.046),
    (4, 6): (1.643, 1.648, 1.695, 1.693),
}
"""By epochs, over one part of so many: losses at the end of a small VGG on CIFAR-10 with a cosine, by four seeds."""
LATER = {5: 1.625, 6: 1.548, 8: 1.440}
"""The same, in the mean, after so many epochs over a sixth."""


@pytest.mark.parametrize("draw", map(random.Random, range(6)))
def test_the_ends_of_real_runs_tell_when_longer_ones_reach_a_loss(draw: random.Random) -> None:
    """With a softer knee, every third curve of such runs has a floor that is above these losses."""
    runs = [(*place, g) for place in ENDS for g in ((1, 2) if place[0] == 4 else (1,))]
    ends = [
        LossPoint(k, 1 / part, g, draw.choice(ENDS[k, part]), seed=seed, in_turn=True)
        for seed, (k, part, g) in enumerate(runs)
    ]
    found = fit_learning_curve(ends, 2.303)
    for epochs, loss in LATER.items():
        assert found.least_epochs(loss, 1 / 6, 2) == pytest.approx(epochs, rel=0.25)
