"""Learning curves fitted to losses."""

from __future__ import annotations

import random
from typing import Any

import pytest

import palmette as pt
from palmette.predict.held_out import cross_validation_error
from palmette.predict.joint_fit import rms_error
from palmette.predict.learning_curve import fit_learning_curve
from palmette.predict.loss_points import LossPoint
from palmette.predict.standard_errors import codec_errors
from palmette.spec.codec_term import CodecTerm, Coding
from palmette.spec.learning import Learning

TRUE = Learning(floor=0.08, scale=1.7, epoch_exponent=0.7, data_exponent=0.9, replica_exponent=0.1)


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
    assert curve.data_exponent == pytest.approx(0.9, rel=0.05)
    assert curve.replica_exponent == pytest.approx(0.1, rel=0.1)


def test_runs_left_out_are_predicted() -> None:
    found = cross_validation_error(runs(0.02))
    assert found is not None
    assert found.error < 0.05
    assert found.runs == 6
    assert cross_validation_error(runs()[:1]) is None


def test_a_curve_that_stays_at_the_loss_of_guessing_is_found_again() -> None:
    steep = {"floor": 0.4, "scale": 2.7, "epoch_exponent": 1.8, "data_exponent": 1.9, "start": 2.3}
    true = TRUE.model_copy(update=steep)
    points = [
        LossPoint(k, phi, g, true.loss(k, phi, g)) for phi in (1.0, 0.5, 0.25) for g in (1, 3) for k in range(1, 11)
    ]
    found, power = fit_learning_curve(points, 2.3), fit_learning_curve(points)
    assert found.start == 2.3
    assert rms_error(found, points) < 1e-4
    assert rms_error(power, points) > 0.1
    assert found.epoch_exponent == pytest.approx(1.8, rel=1e-3)
    assert found.data_exponent == pytest.approx(1.9, rel=1e-3)


@pytest.mark.parametrize("start", [None, 2.3])
def test_new_samples_are_never_taken_to_be_worth_less_than_those_that_come_again(start: float | None) -> None:
    """As many samples in fewer epochs: a loss that is not lower for it is noise."""
    wrong = TRUE.model_copy(update={"data_exponent": 0.3, "start": start})
    points = [LossPoint(k, phi, 1, wrong.loss(k, phi, 1)) for phi in (1.0, 0.5, 0.25) for k in range(1, 9)]
    found = fit_learning_curve(points, start)
    assert found.data_exponent == pytest.approx(found.epoch_exponent)
    assert found.loss(2, 0.5, 1) == pytest.approx(found.loss(4, 0.25, 1))


def test_where_one_of_both_varies_alone_it_has_its_own_exponent() -> None:
    of_epochs = fit_learning_curve([LossPoint(k, 0.5, 1, TRUE.loss(k, 0.5, 1)) for k in range(1, 9)])
    of_data = fit_learning_curve([LossPoint(4, phi, 1, TRUE.loss(4, phi, 1)) for phi in (1.0, 0.7, 0.5, 0.3, 0.2, 0.1)])
    assert (of_epochs.data_exponent, of_data.epoch_exponent) == (0.0, 0.0)
    assert of_epochs.epoch_exponent == pytest.approx(0.7, rel=0.1)
    assert of_data.data_exponent == pytest.approx(0.9, rel=0.1)


def test_runs_of_one_seed_are_left_out_together() -> None:
    """Two runs of each seed are the same, and seeds differ: a twin among the others would say that nothing does."""
    draw = random.Random(1)
    raised = [1 + draw.gauss(0, 0.1) for _ in range(4)]
    made = [[LossPoint(k, 1.0, 1, more * TRUE.loss(k, 1.0, 1)) for k in range(1, 9)] for more in raised for _ in "ab"]
    alone, together = cross_validation_error(made), cross_validation_error(made, groups=[0, 0, 1, 1, 2, 2, 3, 3])
    assert alone is not None
    assert together is not None
    assert together.error > 1.1 * alone.error
    assert together.runs == alone.runs == 8


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


def test_a_loss_that_is_almost_nothing_is_refused() -> None:
    points = [LossPoint(float(k), 1.0, 1, loss) for k, loss in enumerate((1.0, 0.5, 5e-324), 1)]
    with pytest.raises(pt.InputError, match="expected losses above 0, of at least 1e-12"):
        fit_learning_curve(points)


@pytest.mark.parametrize("start", [None, 4.6e-7])
def test_small_losses_are_as_good_as_large_ones(start: float | None) -> None:
    true = TRUE.model_copy(update={"start": None if start is None else start * 1e7})
    points = [
        LossPoint(k, phi, 1, 1e-7 * true.loss(k, phi, 1)) for phi in (1.0, 0.5) for k in (1.0, 2.0, 3.0, 4.0, 5.0)
    ]
    assert rms_error(fit_learning_curve(points, start), points) < 1e-9


def test_exponents_are_within_their_bounds_whatever_rounding_does() -> None:
    points = [LossPoint(2, 1.0, 1, 7.75), LossPoint(5, 0.25, 1, 7.71, 8.0), LossPoint(10, 0.25, 10, 7.67)]
    found = fit_learning_curve(points)
    assert found.window_exponent is not None
    assert found.window_exponent >= 0


def test_an_error_beyond_all_floats_is_infinite() -> None:
    steep = TRUE.model_copy(update={"epoch_exponent": 1000.0, "scale": 1e18})
    assert rms_error(steep, [LossPoint(0.6, 1.0, 1, 1.0)]) > 1e200


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


INT8, TOPK = Coding("gradients", "int8"), Coding("differences", "topk:0.01")
CODED = TRUE.model_copy(
    update={
        "window_exponent": 0.08,
        "codecs": (
            CodecTerm(of="gradients", codec="int8", factor=1.04),
            CodecTerm(of="differences", codec="topk:0.01", factor=1.5),
        ),
    }
)


def coded_runs(noise: float = 0.0) -> list[list[LossPoint]]:
    """Runs of a pilot that varies everything, each with a deviation of its own."""
    draw = random.Random(1)
    settings = [(phi, g, 1, ()) for phi in (1.0, 0.5, 0.25) for g in (1, 2)]
    settings += [(1.0, 2, 8, ()), (1.0, 2, 32, ())]
    settings += [(phi, 2, h, (coding,)) for phi in (1.0, 0.25) for h, coding in ((1, INT8), (32, TOPK))]
    found = []
    for phi, g, h, codings in settings:
        off, curve = 1 + draw.gauss(0, noise), CODED.coded("", codings)
        found.append(
            [
                LossPoint(k, phi, g, curve.floor + (curve.loss(k, phi, g, h) - curve.floor) * off, h, codings)
                for k in range(1, 13)
            ]
        )
    return found


def factors(curve: Learning) -> dict[Coding, float]:
    return {term.coding: term.factor for term in curve.codecs}


def test_codecs_are_fitted_beside_windows() -> None:
    found = fit_learning_curve([point for run in coded_runs() for point in run])
    assert factors(found) == {INT8: pytest.approx(1.04, abs=0.01), TOPK: pytest.approx(1.5, abs=0.02)}
    assert found.window_exponent == pytest.approx(0.08, abs=0.01)


def test_the_error_of_a_codec_covers_how_much_runs_differ() -> None:
    for noise in (0.02, 0.1):
        noisy = coded_runs(noise)
        found = fit_learning_curve([point for run in noisy for point in run])
        errors = codec_errors(found, [point for run in noisy for point in run])
        assert 0.3 * noise < errors[INT8] < 3 * noise
        for coding, true in ((INT8, 1.04), (TOPK, 1.5)):
            assert abs(factors(found)[coding] / true - 1) < 4 * errors[coding]


def test_an_error_is_unknown_where_there_are_no_more_runs_than_terms() -> None:
    plain, coded = coded_runs()[1], coded_runs()[-4]
    assert codec_errors(fit_learning_curve([*plain, *coded]), [*plain, *coded]) == {}


def test_a_codec_is_never_taken_to_help() -> None:
    points = [
        LossPoint(k, 1.0, 2, TRUE.loss(k, 1.0, 2) * better, 1, codings)
        for k in range(1, 9)
        for better, codings in ((1.0, ()), (0.9, (INT8,)))
    ]
    assert factors(fit_learning_curve(points)) == {INT8: pytest.approx(1.0)}


def test_a_codec_that_never_varies_alone_is_refused() -> None:
    every = [point for run in coded_runs() for point in run]
    only_coded = [point for point in every if point.codings == (INT8,)]
    with pytest.raises(pt.InputError, match="gradients as int8: runs with it and without it differ in something else"):
        fit_learning_curve(only_coded)
    without_windows = [point for point in every if point.window == 1 or point.codings]
    with pytest.raises(pt.InputError, match=r"differences as topk:0\.01"):
        fit_learning_curve(without_windows)


@pytest.mark.slow
def test_runs_that_others_cannot_predict_are_not_counted() -> None:
    every = coded_runs()
    found, fewer = cross_validation_error(every), cross_validation_error(every[:-1])
    assert found is not None
    assert fewer is not None
    assert (found.runs, fewer.runs) == (12, 10)  # one is the only run with topk, and without it there is one with int8


def ends(seed: int, **known: Any) -> list[LossPoint]:
    """One loss each of eight runs that differ by chance: as by samples seen, whatever the replicas."""
    draw = random.Random(seed)
    places = [(4, 2, 1), (4, 1, 1), (4, 2, 2), (4, 1, 2), (2, 2, 1), (2, 1, 1), (1, 2, 1), (1, 1, 1)]
    return [
        LossPoint(k, part / 12, g, (0.4 + (k * part) ** -0.5) * (1 + draw.gauss(0, 0.02)), **known)
        for k, part, g in places
    ]


def test_replicas_seldom_seem_to_matter() -> None:
    matter = [fit_learning_curve(ends(seed)).replica_exponent != 0 for seed in range(100)]
    assert sum(matter) <= 3


def test_parts_of_the_data_in_turn_count_as_the_samples_seen() -> None:
    apart = [fit_learning_curve(ends(seed)) for seed in range(10)]
    assert any(curve.data_exponent > curve.epoch_exponent for curve in apart)
    in_turn = [fit_learning_curve(ends(seed, in_turn=True)) for seed in range(10)]
    assert all(curve.data_exponent == curve.epoch_exponent for curve in in_turn)
