"""Learning curves fitted to losses."""

from __future__ import annotations

import random

import pytest

import palmette as pt
from palmette.predict.learning_curve import LossPoint, cross_validation_error, fit_learning_curve, rms_error
from palmette.spec.learning import Learning

TRUE = Learning(floor=0.08, scale=1.7, epoch_exponent=0.7, data_exponent=0.3, replica_exponent=0.1)


def runs(noise: float = 0.0) -> list[list[LossPoint]]:
    draw = random.Random(0)
    return [
        [LossPoint(k, phi, g, TRUE.loss(k, phi, g) * (1 + draw.gauss(0, noise))) for k in range(1, 25)]
        for phi in (1.0, 0.5, 0.25)
        for g in (1, 3)
    ]


def test_a_curve_is_found_again() -> None:
    points = [point for run in runs() for point in run]
    curve = fit_learning_curve(points)
    assert rms_error(curve, points) < 0.005
    assert curve.epoch_exponent == pytest.approx(0.7, rel=0.05)
    assert curve.data_exponent == pytest.approx(0.3, rel=0.05)
    assert curve.replica_exponent == pytest.approx(0.1, rel=0.1)


def test_runs_left_out_are_predicted() -> None:
    assert cross_validation_error(runs(0.02)) < 0.05
    assert cross_validation_error(runs()[:1]) is None


def test_what_no_run_varies_is_unknown() -> None:
    curve = fit_learning_curve([LossPoint(k, 0.5, 1, TRUE.loss(k, 0.5, 1)) for k in range(1, 10)])
    assert curve.data_exponent == curve.replica_exponent == 0.0
    assert curve.unvaried() == {"data": 0.5, "replicas": 1.0}


def test_too_few_points_are_refused() -> None:
    with pytest.raises(pt.InputError, match="expected at least 3"):
        fit_learning_curve([LossPoint(1, 1.0, 1, 0.5)] * 2)


def test_a_loss_beyond_reason_is_refused() -> None:
    with pytest.raises(pt.InputError, match="expected losses of at most"):
        fit_learning_curve([LossPoint(k, 1.0, 1, 1e300) for k in range(1, 5)])


def test_short_runs_are_not_left_out() -> None:
    assert cross_validation_error([run[:2] for run in runs()[:2]]) is None


def test_what_the_runs_had_is_told() -> None:
    curve = fit_learning_curve([point for run in runs() for point in run])
    assert curve.fitted_on == {"epochs": (1, 24), "data": (0.25, 1), "replicas": (1, 3), "window": (1, 1)}
    assert curve.unvaried() == {}


def test_windows_are_fitted_where_runs_vary_them_and_unknown_where_not() -> None:
    true = TRUE.model_copy(update={"window_exponent": 0.08})
    points = [
        LossPoint(k, 1.0, g, true.loss(k, 1.0, g, h), h)
        for k in range(1, 25)
        for g, h in ((1, 1), (2, 1), (2, 8), (2, 32))
    ]
    found = fit_learning_curve(points)
    assert found.window_exponent == pytest.approx(0.08, abs=0.01)
    assert found.fitted_on["window"] == (1.0, 32.0)
    assert fit_learning_curve([point for point in points if point.window == 1]).window_exponent is None


def test_longer_windows_are_never_taken_to_help() -> None:
    points = [
        LossPoint(k, 1.0, 2, TRUE.loss(k, 1.0, 2) * (0.9 if h > 1 else 1.0), h) for k in range(1, 9) for h in (1, 8)
    ]
    assert fit_learning_curve(points).window_exponent == pytest.approx(0.0, abs=1e-6)
