"""The ideal curve leads from the first loss to the target at the deadline; the value says who is ahead of it."""

from __future__ import annotations

import math

import pytest

from palmette.predict.ideal_curve import IdealCurve, mean_fall, verdict

CURVE = IdealCurve(start_loss=2.3, target_loss=0.5, deadline_s=100.0, unit_s=4.0)


@pytest.mark.parametrize("target", [0.0, 0.5, 2.2])
def test_it_leads_from_the_first_loss_to_the_target_by_a_power_law(target: float) -> None:
    curve = IdealCurve(start_loss=2.3, target_loss=target, deadline_s=100.0, unit_s=4.0)
    assert (curve.loss(0.0), curve.loss(100.0)) == (pytest.approx(2.3), pytest.approx(target))
    times = [0.0, 12.0, 60.0]
    parts = [(1 + t / 4.0) ** -0.5 for t in times]
    slopes = {
        round((curve.loss(a) - curve.loss(b)) / (p - q), 9)
        for a, b, p, q in zip(times, times[1:], parts, parts[1:], strict=False)
    }
    assert len(slopes) == 1, "linear in a power of time"


def test_the_value_is_a_logistic_of_how_far_ahead_it_is_and_0_or_1_at_the_end() -> None:
    for time_s, loss in ((10.0, 2.0), (50.0, 0.6), (99.0, 3.0)):
        assert CURVE.value(time_s, loss) == pytest.approx(1 / (1 + math.exp(loss - CURVE.loss(time_s))))
    assert CURVE.value(10.0, CURVE.loss(10.0)) == pytest.approx(0.5)
    assert (CURVE.value(100.0, 0.5), CURVE.value(100.0, 0.51), CURVE.value(101.0, 0.1)) == (1.0, 0.0, 0.0)
    assert CURVE.value(1.0, 1e6) == 0.0


def test_it_says_who_is_ahead() -> None:
    assert verdict(CURVE.state(10.0, CURVE.loss(10.0) - 0.25)).startswith("0.25 ahead of the ideal curve, value 0.56")
    assert verdict(CURVE.state(10.0, CURVE.loss(10.0) + 1.0)).startswith("1 behind the ideal curve, value 0.27")


def test_later_epochs_add_up_to_the_power_law() -> None:
    assert mean_fall(1.2, 3, 60) * 60 == pytest.approx(1.2 * (1 - (64 / 4) ** -0.5))


@pytest.mark.parametrize("wrong", [None, 3, {}, {"start_loss": "x"}, {"start_loss": 1.0, "unit_s": None}])
def test_what_is_no_curve_is_none(wrong: object) -> None:
    assert IdealCurve.parsed(wrong) is None
    assert IdealCurve.parsed({"start_loss": 2, "target_loss": 1, "deadline_s": 0, "unit_s": 1}) is None
