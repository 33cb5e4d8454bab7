"""What a learning curve says of the runs that it was fitted to."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import palmette as pt
from palmette.spec.learning import Learning
from palmette.spec.learning_rate import LearningRateSchedule

BARE = {"floor": 0.1, "scale": 2.0, "epoch_exponent": 0.6, "data_exponent": 0.0, "replica_exponent": 0.0}
FULL = {"epochs": (1.0, 10.0), "data": (1.0, 1.0), "replicas": (1.0, 4.0), "batch": (32.0, 32.0)}


def fitted(**ranges: tuple[float, float]) -> Learning:
    return Learning(**BARE, fitted_on=FULL | ranges)


def test_a_curve_that_does_not_say_is_taken_as_it_is() -> None:
    curve = Learning(**BARE)
    curve.refuse_unknown("lenet5")
    assert curve.beyond(epochs=1e6, data=1e-6, replicas=99, batch=1) == []
    assert curve.least_fraction_tried == 0


def test_what_no_run_varied_is_refused_with_the_command_that_does() -> None:
    with pytest.raises(pt.InputError) as refused:
        fitted(replicas=(1.0, 1.0)).refuse_unknown("lenet5")
    (fault,) = refused.value.faults
    assert (fault.field, fault.value) == ("learning", "data and replicas")
    assert "palmette pilot lenet5 --cluster" in str(fault.expected)


@pytest.mark.parametrize(("fixed", "fine"), [({"data": 1.0}, True), ({"data": 0.5}, False), ({"replicas": 1}, False)])
def test_a_plan_that_has_what_the_runs_had_needs_no_more(fixed: Any, fine: bool) -> None:
    try:
        fitted().refuse_unknown("lenet5", fixed)
    except pt.InputError:
        assert not fine
    else:
        assert fine


def test_what_is_outside_of_the_runs_is_told() -> None:
    told = fitted(data=(0.25, 1.0)).beyond(epochs=12, data=0.2, replicas=4, batch=64)
    assert told == [
        "epochs 12: the runs of the learning curve have 1 to 10",
        "data 0.2: the runs of the learning curve have 0.25 to 1",
        "batch 64: the runs of the learning curve have 32",
    ]


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match="least value before the largest"):
        fitted(data=(1.0, 0.5))


def from_guessing(**more: Any) -> Learning:
    """A curve that begins at the loss of guessing among ten classes."""
    return Learning(**BARE | {"data_exponent": 0.4}, start=2.3, **more)


def test_a_curve_with_a_start_stays_below_it_and_falls_like_a_power_in_the_end() -> None:
    curve, power = from_guessing(), Learning(**BARE | {"data_exponent": 0.4})
    losses = [curve.loss(k, 0.01, 1) for k in (1, 10, 100)]
    assert 2.3 > losses[0] > losses[1] > losses[2]
    assert curve.loss(1e6, 1.0, 1) == pytest.approx(power.loss(1e6, 1.0, 1), rel=1e-3)


@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("fraction", [1.0, 0.1])
def test_the_least_epochs_are_those_that_reach_the_loss(margin: float, fraction: float) -> None:
    curve = from_guessing(margin=margin)
    least = curve.least_epochs(0.5, fraction, 1)
    assert curve.loss(least, fraction, 1) == pytest.approx(0.5)
    assert curve.least_fraction(0.5, least, 1) == pytest.approx(fraction)


def test_a_margin_raises_all_losses_and_is_told() -> None:
    plain, careful = from_guessing(), from_guessing(margin=0.25)
    assert careful.loss(7, 0.5, 2) == pytest.approx(1.25 * plain.loss(7, 0.5, 2))
    assert careful.least_epochs(0.5, 1.0, 1) == pytest.approx(plain.least_epochs(0.4, 1.0, 1))
    assert careful.least_loss == pytest.approx(0.125)
    assert plain.counted_on(0.5) is None
    assert str(careful.counted_on(0.5)).startswith("planned for a loss of 0.4, so that 0.5 is kept")


def test_what_is_not_below_the_start_is_there_at_once() -> None:
    assert from_guessing().least_epochs(2.3, 1.0, 1) == 1
    assert from_guessing(margin=0.1).least_epochs(0.11, 1.0, 1) == float("inf")


def test_a_start_is_above_the_floor() -> None:
    with pytest.raises(ValueError, match="expected more than the floor"):
        Learning(**BARE, start=0.1)


@pytest.mark.parametrize("exponent", [0.2, 0.6, 1.4])
def test_more_data_than_any_run_had_counts_as_more_epochs_at_most(exponent: float) -> None:
    curve = fitted(data=(1 / 12, 1 / 6)).model_copy(update={"data_exponent": exponent})
    assert curve.loss(1, 1.0, 1) >= curve.loss(6, 1 / 6, 1) * (1 - 1e-9)
    if exponent > curve.epoch_exponent:
        assert curve.loss(1, 1.0, 1) == pytest.approx(curve.loss(6, 1 / 6, 1))
        assert curve.loss(1, 1 / 6, 1) < curve.loss(2, 1 / 12, 1)


@pytest.mark.parametrize("exponent", [0.0, 0.2, 0.6, 1.4])
@pytest.mark.parametrize("fraction", [0.05, 1 / 6, 0.5])
def test_epochs_and_data_that_reach_a_loss_agree_within_the_runs_and_beyond(exponent: float, fraction: float) -> None:
    curve = fitted(data=(1 / 12, 1 / 6)).model_copy(update={"data_exponent": exponent})
    loss = curve.loss(9, fraction, 2)
    assert curve.least_epochs(loss, fraction, 2) == pytest.approx(9)
    if exponent:
        assert curve.least_fraction(loss, 9, 2) == pytest.approx(fraction)
    start, slope = curve.log_epochs(loss, 2)
    if fraction <= curve.most_data:
        assert math.exp(start - slope * math.log(fraction)) == pytest.approx(9)


COSINE = LearningRateSchedule(name="cosine", warmup=60)


@pytest.mark.parametrize(
    ("runs", "trained", "told"),
    [
        (None, COSINE, None),
        (COSINE, COSINE, None),
        (LearningRateSchedule(), None, None),
        (COSINE, None, "palmette run --schedule cosine --warmup 60, or a recipe that says so"),
        (
            LearningRateSchedule(),
            COSINE,
            "had the learning rate constant, and the recipe says cosine with a warm-up of 60",
        ),
        (COSINE, COSINE.model_copy(update={"warmup": 0}), "and the recipe says cosine: another loss"),
    ],
)
def test_another_learning_rate_than_that_of_the_runs_is_told(
    runs: LearningRateSchedule | None, trained: LearningRateSchedule | None, told: str | None
) -> None:
    found = Learning(**BARE, schedule=runs).told_of_schedule(trained)
    assert found is None if told is None else told in str(found)


def test_a_curve_with_a_schedule_is_read_as_it_was_written() -> None:
    curve = fitted().model_copy(update={"schedule": COSINE})
    assert Learning.model_validate_json(curve.to_json()) == curve
    assert COSINE.is_over_the_run
    assert not LearningRateSchedule(name="my.module:steps", warmup=9).is_over_the_run


@pytest.mark.parametrize("exponent", [-0.6, 0.3])
def test_more_replicas_than_any_run_had_learn_no_better(exponent: float) -> None:
    curve = fitted(replicas=(1, 2)).model_copy(update={"replica_exponent": exponent})
    most, more = (curve.loss(4, 0.5, replicas) for replicas in (2, 10))
    assert curve.loss(4, 0.5, 1) > most if exponent < 0 else most > curve.loss(4, 0.5, 1)
    assert more == most if exponent < 0 else more > most
    assert curve.least_epochs(more, 0.5, 10) == pytest.approx(4)


@given(
    knee=st.floats(0.01, 1000),
    floor=st.floats(0, 1.9),
    scale=st.floats(1e-6, 1e6),
    exponent=st.floats(1e-3, 50),
    epochs=st.floats(1, 1e6),
)
def test_a_curve_with_a_start_falls_from_it_and_says_when_it_reaches_a_loss(
    knee: float, floor: float, scale: float, exponent: float, epochs: float
) -> None:
    curve = Learning(**BARE | {"floor": floor, "scale": scale, "epoch_exponent": exponent}, start=2.0, knee=knee)
    loss = curve.loss(epochs, 1, 1)
    assert floor <= loss <= 2.0 * (1 + 1e-12)
    assert curve.loss(2 * epochs, 1, 1) <= loss * (1 + 1e-12)
    needed = curve.least_epochs(loss * (1 + 1e-9), 1, 1)
    assert curve.loss(max(1.0, needed), 1, 1) <= loss * (1 + 1e-6)


@pytest.mark.parametrize("knee", [0.0, 5e-324, 0.009, 1e4, math.inf, math.nan])
def test_a_knee_that_no_arithmetic_tells_from_none_is_refused(knee: float) -> None:
    with pytest.raises(ValidationError, match="knee"):
        Learning(**BARE, start=2.0, knee=knee)


def test_a_loss_of_almost_nothing_needs_endless_epochs() -> None:
    curve = Learning(**BARE | {"floor": 0.0}, start=4.0, knee=8.0)
    assert math.isfinite(curve.log_product_for(5e-324))
    assert curve.least_epochs(5e-324, 1, 1) > 1e300
