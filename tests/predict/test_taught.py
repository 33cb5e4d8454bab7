"""Beyond what it was taught a predictor is trusted less, and says so; no loss falls below the floor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import pytest

from palmette.predict.examples import change_examples, run_examples
from palmette.predict.forecast import UNKNOWN, Forecast, History, Setting
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.taught import TaughtPredictor, TaughtRanges
from palmette.spec.curves import Curve, CurvePhase

GOLD, BRONZE = Setting(samples=1000, classes=10), Setting(pruning=0.5, samples=100, classes=10)


def curve(seed: int) -> Curve:
    first = CurvePhase(nodes="gold", samples=1000, classes=10, pruning=0.0, start_loss=2.3, losses=(1.9, 1.6, 1.4))
    last = CurvePhase(nodes="bronze", samples=100, classes=10, pruning=0.5, start_loss=1.8, losses=(1.5, 1.3, 1.2))
    return Curve(seed=seed, phases=(first, last))


RANGES = TaughtRanges.of(run_examples([curve(0)]), change_examples([curve(0)]))


@dataclass(frozen=True)
class Bold:
    """Predicts the same change whatever it is asked."""

    change: float

    def predict_epochs(self, history: History, epochs: int) -> Forecast:
        each = (self.change,) * epochs
        return Forecast(expected=each, low=each, robust=each, total_robust=tuple(accumulate(each)))

    def predict_change(self, history: History, to: Setting) -> Forecast:
        each = (self.change,)
        return Forecast(expected=each, low=each, robust=each, total_robust=each)


def taught(change: float, **options: float) -> TaughtPredictor:
    return TaughtPredictor(Bold(change), RANGES, **options)


def test_inside_of_what_was_taught_nothing_changes() -> None:
    inside = History(setting=GOLD, losses=(2.3, 1.9))
    assert taught(-0.2).predict_epochs(inside, 2) == Bold(-0.2).predict_epochs(inside, 2)
    trained = History(setting=GOLD, losses=(2.3, 1.9, 1.6, 1.4))
    (rise, _) = RANGES.rises
    assert taught(rise).predict_change(trained, BRONZE) == Bold(rise).predict_change(trained, BRONZE)


def test_pruning_an_untrained_network_does_not_lower_its_loss() -> None:
    untrained = History(setting=GOLD, losses=(2.3,))
    found = taught(-1.61).predict_change(untrained, Setting(pruning=0.75, samples=100, classes=10))
    assert (found.expected, found.robust) == ((0.0,), (0.0,))
    assert found.outside == (
        "pruning 0.75 (taught: 0.5 to 0.5)",
        "removed 0.75 (taught: 0.5 to 0.5)",
        "epochs before 0 (taught: 3 to 3)",
        "loss 2.3 (taught: 1.4 to 1.4)",
    )


@pytest.mark.parametrize("pruning", [0.55, 0.7, 0.9, 0.99])
def test_the_farther_a_change_is_outside_the_nearer_it_is_to_losing_all(pruning: float) -> None:
    trained = History(setting=GOLD, losses=(2.3, 1.9, 1.6, 1.4))
    nearer, farther = (
        taught(0.1).predict_change(trained, Setting(pruning=each, samples=100, classes=10))
        for each in (pruning, (1 + pruning) / 2)
    )
    assert 0.1 < nearer.robust[0] <= farther.robust[0] <= 0.9 + 1e-9
    assert farther.robust[0] == pytest.approx(0.9) or farther.robust[0] > nearer.robust[0]


def test_long_after_the_last_epoch_that_was_taught_no_progress_is_certain() -> None:
    found = taught(-0.1).predict_epochs(History(setting=GOLD, losses=(2.3, 1.9)), 12)
    law = PowerLawPredictor().predict_epochs(History(setting=GOLD, losses=(2.3, 1.9)), 12)
    assert found.steps_robust[0] == pytest.approx(-0.1)
    assert found.steps_robust[-1] == pytest.approx(0.0)
    assert found.expected[-1] == pytest.approx(law.expected[-1])
    assert found.outside[0] == "epoch 13 (taught: 1 to 3)"


@pytest.mark.parametrize("floor", [0.0, 0.7])
@pytest.mark.parametrize("ranges", [RANGES, None])
def test_no_loss_is_below_the_floor(floor: float, ranges: TaughtRanges | None) -> None:
    predictor = TaughtPredictor(Bold(-1.5), ranges, floor)
    history = History(setting=GOLD, losses=(2.3, 1.9))
    found = predictor.predict_epochs(history, 9)
    assert min(accumulate(found.expected, initial=1.9)) >= floor - 1e-9
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.expected, found.robust, strict=True))
    assert 1.9 + predictor.predict_change(history, BRONZE).expected[0] >= floor - 1e-9
    assert found.floor == floor


def test_a_range_that_nobody_wrote_down_is_said_to_be_unknown() -> None:
    unknown = TaughtPredictor(Bold(-0.1), None)
    history = History(setting=GOLD, losses=(2.3, 1.9))
    assert unknown.predict_epochs(history, 1).outside == unknown.predict_change(history, BRONZE).outside == (UNKNOWN,)
