"""The power law against curves that are one, against a plain grid search, and at its edges."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from palmette.errors import InputError
from palmette.predict.forecast import History, Setting
from palmette.predict.power_law import PowerLawPredictor, fit_power_law

FULL = Setting(samples=1000, classes=10)
HALF = Setting(pruning=0.5, samples=100, classes=12)


def curve(floor: float, scale: float, exponent: float, count: int) -> tuple[float, ...]:
    return tuple(floor + scale * k**-exponent for k in range(1, count + 1))


def misfit(losses: tuple[float, ...], floor: float, scale: float, exponent: float) -> float:
    return sum((loss - floor - scale * k**-exponent) ** 2 for k, loss in enumerate(losses, 1))


def least_misfit_on_a_grid(losses: tuple[float, ...]) -> float:
    floor, scale, exponent, k = np.ix_(
        np.arange(40) / 20, np.arange(60) / 20, np.arange(1, 26) / 10, np.arange(1, len(losses) + 1)
    )
    return float(((np.array(losses) - floor - scale * k**-exponent) ** 2).sum(axis=-1).min())


@pytest.mark.parametrize(("floor", "scale", "exponent"), [(0.05, 2.2, 0.6), (0.0, 1.0, 0.1), (1.3, 0.4, 2.0)])
def test_finds_the_law_that_made_the_losses(floor: float, scale: float, exponent: float) -> None:
    found = fit_power_law(curve(floor, scale, exponent, 12))

    assert found.exponent == pytest.approx(exponent, rel=1e-3)
    assert found.loss(50) == pytest.approx(floor + scale * 50**-exponent, rel=1e-4)
    assert found.deviation < 1e-5


def test_no_law_of_a_fine_grid_fits_better() -> None:
    draw = random.Random(7)
    for _ in range(20):
        clean = curve(draw.uniform(0, 1), draw.uniform(0, 2), draw.uniform(0.1, 2), draw.randint(3, 15))
        losses = tuple(max(0.0, loss + draw.gauss(0, 0.1)) for loss in clean)
        found = fit_power_law(losses)
        ours = misfit(losses, found.floor, found.scale, found.exponent)
        assert ours <= least_misfit_on_a_grid(losses) + 1e-9


def test_floor_and_scale_are_never_negative() -> None:
    for losses in [(1.0, 0.8, 0.6, 0.4, 0.2, 0.0), (0.1, 0.2, 0.4, 0.8, 1.6), (0.0, 0.0, 0.0, 0.0)]:
        found = fit_power_law(losses)
        assert found.floor >= 0
        assert found.scale >= 0


def test_losses_that_rise_are_expected_to_come_back_to_their_mean() -> None:
    assert fit_power_law((1.0, 2.0, 3.0)).loss(100) == pytest.approx(2.0)


def test_the_first_change_leads_from_the_loss_that_was_seen_to_the_curve() -> None:
    history = History(setting=FULL, losses=(*curve(0.1, 2.0, 0.5, 9), 3.0))
    found, law = PowerLawPredictor().predict_epochs(history, 3), fit_power_law(history.losses)

    assert 3.0 + found.expected[0] == pytest.approx(law.loss(11))
    assert 3.0 + sum(found.expected) == pytest.approx(law.loss(13))


def test_ninety_of_a_hundred_next_losses_lie_within_the_quantiles() -> None:
    draw, inside, count = random.Random(1), 0, 600
    for _ in range(count):
        clean = curve(0.5, 2.0, 0.6, 41)
        losses = tuple(loss + draw.gauss(0, 0.05) for loss in clean)
        found = PowerLawPredictor().predict_epochs(History(setting=FULL, losses=losses[:-1]), 1)
        inside += found.low[0] <= losses[-1] - losses[-2] <= found.robust[0]

    assert inside / count == pytest.approx(0.9, abs=0.04)


def test_robust_totals_hold_the_jitter_of_one_loss_whatever_the_number_of_epochs() -> None:
    draw = random.Random(3)
    losses = tuple(loss + draw.gauss(0, 0.05) for loss in curve(0.5, 2.0, 0.6, 30))
    found = PowerLawPredictor().predict_epochs(History(setting=FULL, losses=losses), 20)
    widths = [total - sum(found.expected[: n + 1]) for n, total in enumerate(found.total_robust)]

    assert widths == pytest.approx([found.robust[0] - found.expected[0]] * 20)
    assert sum(found.steps_robust) == pytest.approx(found.total_robust[-1])
    assert sum(found.robust) > sum(found.steps_robust)


@pytest.mark.parametrize("count", range(1, 8))
def test_few_losses_still_make_a_forecast_with_its_quantiles_in_order(count: int) -> None:
    found = PowerLawPredictor().predict_epochs(
        History(setting=FULL, losses=(2.3, 2.0, 1.9, 1.7, 1.75, 1.6, 1.5)[:count]), 6
    )

    assert len(found.expected) == len(found.low) == len(found.robust) == 6
    for low, mean, high in zip(found.low, found.expected, found.robust, strict=True):
        assert low <= mean <= high
        assert math.isfinite(low + high)


def test_no_epochs_are_no_changes() -> None:
    assert PowerLawPredictor().predict_epochs(History(setting=FULL, losses=(1.0,)), 0).expected == ()


def test_a_change_is_expected_to_lose_as_much_of_what_was_learnt_as_of_the_model() -> None:
    history = History(setting=FULL, losses=(2.5, 1.0, 0.5))
    half = PowerLawPredictor().predict_change(history, HALF)
    again = PowerLawPredictor().predict_change(
        history.changed(HALF, 1.5).extended(0.5), Setting(pruning=0.75, samples=9, classes=2)
    )

    assert half.expected == (pytest.approx(1.0),)
    assert half.robust == (pytest.approx(2.0),)
    assert half.low == (pytest.approx(0.0),)
    assert again.expected == (pytest.approx(1.0),)


def test_other_nodes_with_the_same_model_change_nothing_on_average() -> None:
    history = History(setting=FULL, losses=(2.5, 1.0))
    found = PowerLawPredictor().predict_change(history, Setting(samples=10, classes=10))

    assert found.expected == (0.0,)
    assert found.robust == (1.5,)


@pytest.mark.parametrize("losses", [(), (1.0, math.nan), (1.0, -0.1), (math.inf,)])
def test_losses_that_are_none_are_refused(losses: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"losses: .*expected"):
        fit_power_law(losses)


@pytest.mark.parametrize(
    "losses", [(0.9,) * 4 + (0.0,), (0.3, 0.2, 0.05, 0.2, 0.01, 0.1), (7.0, 0.0, 7.0, 0.0, 7.0, 0.0)]
)
def test_no_quantile_of_a_loss_is_below_zero(losses: tuple[float, ...]) -> None:
    found = PowerLawPredictor().predict_epochs(History(setting=FULL, losses=losses), 5)
    before = losses[-1]
    for expected, low in zip(found.expected, found.low, strict=True):
        assert before + low >= -1e-9
        assert low <= expected
        before += expected
